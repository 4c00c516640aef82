"""How late a healthy channel is, from due to delivered, alone and beside a channel whose provider is dead."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.kit import cpu, push, servers, stats
from benchmarks.rig import programs
from benchmarks.rig.fill import Fill
from ringonce import Ringonce
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kit.context import Context
    from benchmarks.rig.programs import Clocked

PACE = 300
SECONDS = 3.0
WARM = 1.0
"""Both work for so long before lateness counts: how a worker awakes from idling is another part's question."""
BACKLOG = 2_000
TIMEOUT = 2.0
AFTER = 0.7
ALONE = "ringonce, alone"
DEAD = {"hangs": "never answers", "refuses": "takes no connection", "breaks": "answers 500"}
"""The neighbours, and what is the matter with the provider of each."""


@dataclass(slots=True)
class Site:
    """A worker with all channels, and what feeds it."""

    ringonce: Ringonce
    runner: asyncio.Runner
    fills: dict[str, Fill]
    stub: Clocked
    worker: int
    seconds: float
    samples: dict[str, list[float]]

    def round(self, variant: str, dead: str | None) -> dict[str, float]:
        """Healthy ones come due at an even pace, and beside them a backlog for the dead provider."""
        if dead is not None:
            self.fills[dead].waiting(BACKLOG)
            self.runner.run(self.ringonce.enable(dead))
        count = int(PACE * (WARM + self.seconds))
        start = time.time_ns() // 1000
        due = self.fills[push.CHANNEL].scheduled(count, start, 1_000_000 // PACE)
        used, began = cpu.seconds(self.worker), time.monotonic()
        time.sleep(WARM + self.seconds)
        late = self._late(due, start + int(WARM * 1_000_000))
        busy = (cpu.seconds(self.worker) - used) / (time.monotonic() - began)
        if dead is not None:
            self.runner.run(self.ringonce.disable(dead))
            time.sleep(AFTER + (TIMEOUT if dead == "hangs" else 0.0))
        self.samples.setdefault(variant, []).extend(late)
        return {
            "p50": stats.percentile(late, 50),
            "p99": stats.percentile(late, 99),
            "most": max(late),
            "busy": busy,
        }

    def _late(self, due: dict[str, int], since: int) -> list[float]:
        """Milliseconds from due to the call's arrival, of each that was due then. RuntimeError: one never came."""
        came: dict[str, int] = {}
        deadline = time.monotonic() + programs.PATIENCE
        while len(came.keys() & due.keys()) < len(due):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(due) - len(came.keys() & due.keys())} of {len(due)} never came")
            time.sleep(0.1)
            for token, when in self.stub.arrivals().items():
                came.setdefault(token, when)
        # Both clocks are the machine's; they differ by a constant.
        offset = time.time_ns() - time.monotonic_ns()
        return [(came[token] + offset) / 1e6 - at / 1e3 for token, at in due.items() if at >= since]


def run(context: Context) -> dict[str, Any]:
    """Alternate between no neighbour and each kind of dead one, on one worker."""
    with site(context) as lent:
        names = {ALONE: None} | {f"ringonce, beside one that {name}": name for name in DEAD}
        rounds = context.alternate(
            {name: functools.partial(lent.round, name, dead) for name, dead in names.items()}, ("p50", "p99")
        )
    rows, bars = [], []
    for name, late in lent.samples.items():
        ratios = [stats.ratio(rounds, name, ALONE, measure) for measure in ("p50", "p99")]
        p50, p99 = stats.percentile(late, 50), stats.percentile(late, 99)
        busy = stats.summary(stats.column(rounds, name, "busy"))["median"]
        rows.append([name, len(late), p50, p99, max(late), *(one and one["median"] for one in ratios), busy])
        summary = stats.summary(stats.column(rounds, name, "p99"))
        bars.append({"name": name, **{key: summary[key] for key in ("median", "min", "max")}})
    return {
        "title": "A healthy channel beside a dead one",
        "rounds": rounds,
        "tables": [
            {
                "columns": [
                    *("healthy channel", "samples", "p50 ms", "p99 ms", "most ms", "p50 ×", "p99 ×"),
                    "cores used",
                ],
                "rows": rows,
            }
        ],
        "plots": [
            {"name": "p99", "title": "Healthy channel: due to delivered, p99", "unit": "ms", "bars": bars}
        ],
        "notes": [
            f"{PACE} notifications a second come due on the healthy channel, {lent.seconds:.0f} s in each "
            f"round after {WARM:.0f} s that do not count; lateness is from the due time in the row to the "
            "arrival of the call at the provider. p50 and p99 over all samples; × is the median over the "
            "rounds of the ratio to the round without a neighbour. The dead neighbour begins each round "
            f"with {BACKLOG:,} due notifications, at the same worker: its provider "
            + ", or ".join(DEAD.values())
            + f" (timeout {TIMEOUT:.0f} s)."
        ],
    }


@contextlib.contextmanager
def site(context: Context) -> Iterator[Site]:
    """A database, a worker, a provider that is well and three that are not."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(fresh_database(context.postgres.database))
        healthy, broken = stack.enter_context(programs.clocked()), stack.enter_context(programs.clocked())
        refusing = stack.enter_context(socket.socket())
        refusing.bind(("127.0.0.1", 0))  # taken, but nobody listens
        urls = {
            "hangs": f"http://127.0.0.1:{stack.enter_context(servers.silence())}",
            "refuses": f"http://127.0.0.1:{refusing.getsockname()[1]}",
            "breaks": broken.base_url,
        }
        config = push.config(healthy, database.url("asyncpg"))
        own = config["channels"][push.CHANNEL]
        for name, url in urls.items():
            dead = {"base_url": url, "enabled": False, "timeout": f"{TIMEOUT}s", "project_id": "broken"}
            config["channels"][name] = own | dead
        events = [
            {**push.event(number), "to": {name: push.token(number)}}
            for number, name in enumerate(config["channels"])
        ]
        patterns = programs.migrated(config, *events)
        connection = stack.enter_context(database.connect())
        fills = {
            name: Fill(connection, pattern, context.say)
            for name, pattern in zip(config["channels"], patterns, strict=True)
        }
        file = programs.write(context.folder / "isolation.toml", config)
        runner = stack.enter_context(asyncio.Runner())
        ringonce = Ringonce(config)
        runner.run(ringonce.open())
        stack.callback(lambda: runner.run(ringonce.close()))
        worker = stack.enter_context(programs.worker(file))
        time.sleep(1.0)
        healthy.arrivals()
        seconds = max(1.0, min(SECONDS, SECONDS * context.scale))
        yield Site(ringonce, runner, fills, healthy, worker.pid, seconds, {})
