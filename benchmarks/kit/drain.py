"""Measure a program that empties a queue into the stub: from the first call to the last, without its start.

The stub's counter is the clock for everyone, ringonce and peers alike: no program is trusted to time itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kit import cpu
from benchmarks.kit.servers import end

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.kit.servers import Stub

LOOK = 0.02
QUIET = 0.5


class StalledError(RuntimeError):
    """There is no figure: it ended or fell silent too early, or was too fast to be seen. The message tells which."""


@dataclass(frozen=True, slots=True)
class Program:
    """What empties the queue.

    Attributes:
        command: the command line.
        environment: its whole environment.
        folder: where it runs.
        log: where its output goes.
        ends: it ends by itself when the queue is empty; otherwise it is told to.
    """

    command: list[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    ends: bool = False


def drain(
    program: Program, stub: Stub, count: int, servers: Mapping[str, int], patience: float = 120.0
) -> dict[str, float]:
    """Run it until ``count`` calls have come, then stop it and count once more.

    Args:
        program: what empties the queue.
        stub: the vendor, called by nobody else meanwhile.
        count: how many notifications are in the queue.
        servers: process ids of the databases, by name; their processor time is told beside the program's.
        patience: seconds without any call after which it has stalled.

    Returns:
        ``rate`` (deliveries per second between the first look that saw one and the first that saw all), ``seconds``,
        ``cpu`` (processor microseconds per notification of the program's processes), ``cpu_NAME`` of each server and
        ``cpu_stub``, ``lost`` and ``extra`` calls.

    Raises:
        StalledError: it ended or stopped calling too early, or all came at once.
    """
    servers = {**servers, "stub": stub.pid}
    before = stub.calls()
    with program.log.open("wb") as log:
        process = subprocess.Popen(
            program.command,
            cwd=program.folder,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        first = _until(program, process, stub, before, 1, patience)
        begun, used = time.monotonic(), _used(process.pid, servers)
        last = _until(program, process, stub, before, count, patience)
        ended, now = time.monotonic(), _used(process.pid, servers)
        if program.ends:
            process.wait(patience)
        else:
            time.sleep(QUIET)  # what is sent twice comes now
    finally:
        end(process, signal.SIGTERM)
    if last == first:
        raise StalledError(f"all {count} came between two looks: take more of them")
    received = stub.calls() - before
    measured = {
        "rate": (last - first) / (ended - begun),
        "seconds": ended - begun,
        "lost": max(0, count - received),
        "extra": max(0, received - count),
    }
    for name, value in now.items():
        key = "cpu" if name == "program" else f"cpu_{name}"
        measured[key] = (value - used[name]) * 1_000_000 / (last - first)
    return {key: round(value, 3) for key, value in measured.items()}


def _used(pid: int, servers: Mapping[str, int]) -> dict[str, float]:
    return {"program": cpu.seconds(pid), **{name: cpu.seconds(server) for name, server in servers.items()}}


def _until(
    program: Program, process: subprocess.Popen[bytes], stub: Stub, before: int, wanted: int, patience: float
) -> int:
    """Look until so many calls have come, and tell how many it were."""
    seen, since = -1, time.monotonic()
    while True:
        over = _ended(process.pid)
        now = stub.calls() - before
        if now >= wanted:
            return now
        if now != seen:
            seen, since = now, time.monotonic()
        if over or time.monotonic() - since > patience:
            words = program.log.read_text(errors="replace")[-2000:]
            why = f"it ended with {process.wait()}" if over else f"no call for {patience:.0f} s"
            raise StalledError(f"{now} of {wanted} calls came, then {why}: {words}")
        time.sleep(LOOK)


def _ended(pid: int) -> bool:
    """Whether a child has ended. It is not waited for, so that its processor time can still be read."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
