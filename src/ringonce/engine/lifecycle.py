"""One start/stop class for every long-lived loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ringonce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ringonce.ports import Clock, Entropy, Telemetry

log = logging.getLogger("ringonce")

BACKOFF_FIRST = 0.1
BACKOFF_LAST = 5.0


class Loop:
    """Calls ``turn`` again and again until stopped.

    ``turn`` returns the seconds to wait before the next turn (0: at once). ``wake`` ends the waiting early.
    An error of the store delays the next turn with growing, jittered waits and is logged once per outage;
    any other exception is a bug: it is logged with its trace, and the loop goes on after a wait.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], Awaitable[float]],
        *,
        clock: Clock,
        entropy: Entropy,
        telemetry: Telemetry,
    ) -> None:
        """Name the loop for logs; nothing runs before ``start``."""
        self.name = name
        self._turn = turn
        self._clock = clock
        self._entropy = entropy
        self._telemetry = telemetry
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._errors = 0

    def start(self) -> None:
        """Begin; must be called inside the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"ringonce-{self.name}")

    def wake(self) -> None:
        """Take the next turn now."""
        self._wake.set()

    @property
    def stopping(self) -> bool:
        """No further turn will begin."""
        return self._stopping

    async def stop(self) -> None:
        """Let the running turn finish, begin no other."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            wait = await self._guarded_turn()
            if wait > 0 and not self._stopping:
                await self._pause(wait)
            else:
                # A turn that never waits must still let the others run.
                await self._clock.sleep(0)

    async def _guarded_turn(self) -> float:
        try:
            wait = await self._turn()
        except StoreError as error:
            self._errors += 1
            if self._errors == 1:
                self._telemetry.alert("store_unavailable", f"{self.name}: {error}")
            growing: float = BACKOFF_FIRST * 2.0 ** min(self._errors, 10)
            return min(BACKOFF_LAST, growing) * (0.5 + self._entropy.jitter())
        except Exception:
            self._errors += 1
            log.exception("bug in loop %s", self.name)
            self._telemetry.alert("bug", f"{self.name}: unexpected error, see the log")
            return BACKOFF_LAST
        if self._errors:
            self._errors = 0
            log.info("loop %s works again", self.name)
        return wait

    async def _pause(self, seconds: float) -> None:
        """Wait for the time or a wake-up, whichever is first."""
        if not self._wake.is_set():
            await within(self._clock, seconds, self._wake.wait())


async def within(clock: Clock, seconds: float, work: Awaitable[object]) -> bool:
    """Await ``work`` for ``seconds`` at most; False: it was cancelled because the time was over."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        return task.done()
    finally:
        for one in (task, timer):
            one.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)
