"""CPU per HTTP call of the wire, beside the barest loop around the same client.

Both post the same message to the same stub, 100 at the same time, each in a process of its own without a database. The
wire's share holds what it promises: nothing is sent twice, "sent" and "not sent" are exact, answers have a bound.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pycurl

from benchmarks.kit import bare, push, stats
from benchmarks.kit.context import environment
from benchmarks.kit.servers import ROOT
from ringonce.model.exchange import HttpAnswer, HttpRequest
from ringonce.wire.http import HttpWire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.kit.context import Context
    from ringonce.model.exchange import Answer

COUNT = 50_000
TITLES = {"bare": f"bare loop, {pycurl.version.split()[1]}", "wire": "ringonce's wire"}


def run(context: Context) -> dict[str, Any]:
    """Alternate the two."""
    count = context.size(COUNT)
    rounds = context.alternate({name: _measured(context, name, count) for name in TITLES}, ("cpu", "rate"))
    rows = []
    for name in stats.variants(rounds):
        cpu, rate = (stats.summary(stats.column(rounds, name, measure)) for measure in ("cpu", "rate"))
        rows.append(
            [
                TITLES[name],
                round(cpu["median"], 1),
                round(cpu["min"], 1),
                round(cpu["max"], 1),
                round(rate["median"]),
            ]
        )
    ratio = stats.ratio(rounds, "wire", "bare", "cpu")
    told = f"The wire takes {ratio['median']:.2f} times the CPU of the bare loop." if ratio else ""
    columns = ["", "CPU µs each", "least", "most", "calls/s"]
    return {
        "title": "CPU per HTTP call",
        "rounds": rounds,
        "tables": [{"title": "In one process, to a local stub", "columns": columns, "rows": rows}],
        "notes": [told] if told else [],
    }


def _measured(context: Context, name: str, count: int) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        command = [sys.executable, "-m", "benchmarks.parts.wire", name, context.stub.send_url, str(count)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
        told: dict[str, float] = json.loads(done.stdout)
        return told

    return measure


async def wire(url: str, count: int) -> None:
    """Post ``count`` messages: whatever is answered is followed by as many new ones."""
    template = push.template().encode()
    headers = tuple(push.HEADERS.items())
    carrier = HttpWire()
    await carrier.start()
    ended = asyncio.get_running_loop().create_future()
    begun = done = 0

    def begin(number: int) -> None:
        nonlocal begun
        batch = []
        for _ in range(min(number, count - begun)):
            body = template.replace(b"@NUMBER@", b"%012d" % begun)
            batch.append((begun, HttpRequest("POST", url, headers, body)))
            begun += 1
        if batch:
            carrier.submit(batch, deliver)

    def deliver(answers: Sequence[tuple[object, Answer]]) -> None:
        nonlocal done
        for _, answer in answers:
            if (
                not isinstance(answer, HttpAnswer)
                or answer.status != 200
                or not json.loads(answer.body)["name"]
            ):
                raise SystemExit(f"the stub refused a call: {answer}")
        done += len(answers)
        begin(len(answers))
        if done == count:
            ended.set_result(None)

    begin(bare.SLOTS)
    await ended
    await carrier.close(1)


def main(name: str, url: str, count: int) -> None:
    """Print CPU µs per call and calls per second."""
    used, began = time.process_time(), time.perf_counter()
    if name == "bare":
        bare.main(url, count)
    else:
        asyncio.run(wire(url, count))
    used, took = time.process_time() - used, time.perf_counter() - began
    print(json.dumps({"cpu": used / count * 1e6, "rate": count / took}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
