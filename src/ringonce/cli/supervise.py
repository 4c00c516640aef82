"""``worker --processes N``: a parent that starts worker processes, and starts one again that dies.

They share nothing but the database: each opens it, claims and keeps its leases for itself, as workers on several
machines do. The parent sends nothing and touches no row; when it dies, its children finish and end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING

from ringonce.cli.session import FAILED, OK, USAGE, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.telemetry import Telemetry

log = logging.getLogger("ringonce.worker")

BACKOFF_FIRST, BACKOFF_LAST = 0.2, 30.0
STEADY = 60.0
"""Seconds after which a process counts as one that had started well, so that its death is not one of a row."""
MOST_IN_A_ROW = 5
"""With --drain: deaths in a row after which there is no hope that it will ever be drained."""
MARGIN = 10.0
"""Seconds beyond what a worker takes to stop (twice its grace at most), before it is killed."""


class Supervisor:
    """Runs ``count`` children until told to stop, or with ``drain`` until each has said that nothing is left."""

    def __init__(
        self, arguments: Sequence[str], count: int, telemetry: Telemetry, *, grace: float, drain: bool
    ) -> None:
        """``arguments``: those of ``ringonce`` for one child, but its number. ``grace``: a worker's, in seconds."""
        self._arguments = tuple(arguments)
        self._count = count
        self._telemetry = telemetry
        self._grace = grace
        self._drain = drain
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._stop = asyncio.Event()
        self._told = 0
        self._code = OK

    def pass_on(self, number: signal.Signals) -> None:
        """Pass a signal on: the first one lets the children finish, a second one ends them at once.

        Always as SIGTERM: to a child that is only starting, SIGINT would be an exception somewhere in its imports.
        """
        if not self._told:
            note(f"{number.name}: the workers finish what has begun")
        self._told += 1
        self._signal()
        self._stop.set()

    async def complete(self) -> bool:
        """All children run."""
        return len(self._running) == self._count

    async def run(self) -> int:
        """The exit code: 0 when every child ended well."""
        await asyncio.gather(*(self._keep(number) for number in range(1, self._count + 1)))
        return self._code

    async def _keep(self, number: int) -> None:
        deaths = 0
        while not self._stop.is_set():
            began = time.monotonic()
            code = await self._one(number)
            if self._stop.is_set():
                if code != OK and not self._as_told(code):
                    log.warning("worker %d ended with %s", number, _words(code))
                    self._fail(FAILED)
                return
            if code == OK and self._drain:
                return
            deaths = 1 if time.monotonic() - began > STEADY else deaths + 1
            if code == USAGE or (self._drain and deaths >= MOST_IN_A_ROW):
                log.error("worker %d ended with %s: all end", number, _words(code))
                self._fail(USAGE if code == USAGE else FAILED)
                self._signal()
                self._stop.set()
                return
            wait = min(BACKOFF_LAST, BACKOFF_FIRST * 2.0 ** min(deaths - 1, 10))
            wait *= random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            self._telemetry.alert(
                "worker_died",
                f"worker {number} ended with {_words(code)}; it is started again in {wait:.1f} s",
                code=_words(code),
            )
            self._telemetry.count("ringonce_worker_restarts_total")
            await _within(wait, self._stop)

    async def _one(self, number: int) -> int:
        """Run a child to its end; its exit code."""
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ringonce", *self._arguments, "--number", str(number)),
            # It ends when this ends, which happens when we die, however we do.
            stdin=asyncio.subprocess.PIPE,
            # All say the same about what is left; one is enough.
            stdout=None if number == 1 else asyncio.subprocess.DEVNULL,
            # A terminal's Ctrl-C is ours to pass on: children that get it twice would not finish.
            process_group=0,
        )
        self._running[number] = child
        self._telemetry.gauge("ringonce_worker_processes", len(self._running))
        for _ in range(self._told):
            _end(child)  # it came while this one started
        stopping = asyncio.ensure_future(self._stop.wait())
        ending = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await asyncio.wait({ending}, timeout=2 * self._grace + MARGIN)
            if not ending.done():
                log.warning("worker %d does not end: it is killed", number)
                child.kill()
            return await ending
        finally:
            stopping.cancel()
            del self._running[number]
            self._telemetry.gauge("ringonce_worker_processes", len(self._running))

    def _as_told(self, code: int) -> bool:
        """The first signal came before it could do anything at all."""
        return self._told == 1 and code == -signal.SIGTERM

    def _signal(self) -> None:
        for child in self._running.values():
            _end(child)

    def _fail(self, code: int) -> None:
        self._code = max(self._code, code)


def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.terminate()


async def _within(seconds: float, event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({waiting}, timeout=seconds)
    waiting.cancel()


def _words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def until_parent_dies(stop: asyncio.Event) -> None:
    """Set ``stop`` when standard input, which the parent holds, ends."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            if not stop.is_set():
                note("the parent has gone: finishing what has begun")
                stop.set()

    loop.add_reader(0, readable)
