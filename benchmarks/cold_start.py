"""How long from a start in an empty folder to the first delivery, and how long the commands take to begin.

``python benchmarks/cold_start.py [--runs 5]`` prints JSON. Every run has a folder of its own: `ringonce up` on a port
that is free makes the database, opens the API, takes one notification over HTTP and calls a webhook receiver that this
program runs. Measured from the start of the process:

- ``listening``: the API's address is printed.
- ``accepted``: the notification is answered with 202.
- ``delivered``: the receiver has the call, verified.
- ``processor``: what the process used until it was stopped.

The second start finds the database already made. All in seconds, by the wall but for ``processor``, which says more on
a machine that is busy with other things; so the load at the beginning is printed, too.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from argparse import ArgumentParser
from pathlib import Path

from ringonce.vendors.webhook import WebhookReceiver

SECRET = "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
PATIENCE = 120.0
CONFIG = """
[channels.hook]
provider = "webhook"
secret = "{secret}"
[security]
allow_private_networks = ["127.0.0.0/8"]
"""
COMMANDS = {
    "--help": ["--help"],
    "send": ["send", "--to", "hook={hook}", "--text", "hello"],
    "list": ["list"],
    "worker --drain": ["worker", "--drain"],
}
"""What is timed in a folder that has been used once. The worker delivers what ``send`` left."""


def main() -> None:
    """Measure and print."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="how often; the median, the least and the most are told"
    )
    runs = parser.parse_args().runs
    load = os.getloadavg()[0]
    firsts, seconds = [], []
    commands: dict[str, list[dict[str, float]]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name, WebhookReceiver([SECRET]) as receiver:
            folder = Path(name)
            (folder / "ringonce.toml").write_text(CONFIG.format(secret=SECRET))
            firsts.append(start(folder, receiver))
            seconds.append(start(folder, receiver))
            for label, arguments in COMMANDS.items():
                commands[label].append(
                    command(folder, [part.format(hook=receiver.url) for part in arguments])
                )
    result = {
        "runs": runs,
        "first_start": summary(firsts),
        "second_start": summary(seconds),
        "commands": {name: summary(measured) for name, measured in commands.items()},
        "machine": {
            "cpus": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
            "system": platform.platform(),
        },
    }
    json.dump(result, sys.stdout, indent=2)
    print()


def start(folder: Path, receiver: WebhookReceiver) -> dict[str, float]:
    """Start everything, send one, wait for the call, stop."""
    known = len(receiver.ledger.entries)
    before, began = used(), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "ringonce", "up", "--port", "0"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = address(process)
        listening = time.monotonic() - began
        body = {"to": {"hook": receiver.url}, "content": {"text": "hello"}}
        request = urllib.request.Request(
            f"{url}/v1/notifications", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            answer.read()
        accepted = time.monotonic() - began
        if not receiver.ledger.wait_for(lambda entries: len(entries) > known, PATIENCE):
            sys.exit(f"nothing was delivered within {PATIENCE:.0f} s")
        if not receiver.ledger.entries[-1].accepted:
            sys.exit(f"the receiver refused the call: {receiver.ledger.entries[-1]}")
        delivered = time.monotonic() - began
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    return {
        "listening": listening,
        "accepted": accepted,
        "delivered": delivered,
        "processor": used() - before,
    }


def address(process: subprocess.Popen[str]) -> str:
    """Where it listens, as it says."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
    sys.exit(f"it never listened: {''.join(said)}")


def command(folder: Path, arguments: list[str]) -> dict[str, float]:
    """One command to its end."""
    before, began = used(), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "ringonce", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=True,
    )
    wall = time.monotonic() - began
    return {"wall": wall, "processor": used() - before}


def used() -> float:
    """Processor time of all programs that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment() -> dict[str, str]:
    """Ours, without settings that would mislead what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RINGONCE_")}


def summary(measured: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """By what was measured: median, least, most."""
    return {
        name: {
            "median": round(statistics.median(values), 2),
            "least": round(min(values), 2),
            "most": round(max(values), 2),
        }
        for name in measured[0]
        for values in [[one[name] for one in measured]]
    }


if __name__ == "__main__":
    main()
