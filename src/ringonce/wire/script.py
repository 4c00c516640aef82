"""The sandbox's wire: every request is answered by what its script says, and nothing leaves the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ringonce.model.exchange import Fault, NoAnswer, ScriptedAnswer, ScriptedRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Answer
    from ringonce.ports import Deliver


class ScriptedWire:
    """Answers after each request's ``delay``, through timers of the event loop. See ``ports.Wire``."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.TimerHandle, tuple[Deliver, list[tuple[object, ScriptedRequest]]]] = {}
        self._idle = asyncio.Event()
        self._closed = False

    async def start(self) -> None:
        """Remember the event loop."""
        self._loop = asyncio.get_running_loop()
        self._idle.set()

    def submit(self, batch: Sequence[tuple[object, ScriptedRequest]], deliver: Deliver) -> None:
        """Answer all of ``batch``, those with the same delay together."""
        if self._loop is None:
            raise RuntimeError("submit comes after start")
        if self._closed:
            self._loop.call_soon(deliver, [(token, _NOT_STARTED) for token, _ in batch])
            return
        groups: dict[float, list[tuple[object, ScriptedRequest]]] = {}
        for token, request in batch:
            groups.setdefault(max(0.0, request.delay), []).append((token, request))
        for delay, group in groups.items():
            self._idle.clear()
            entry: list[asyncio.TimerHandle] = []
            handle = self._loop.call_later(delay, self._ring, entry)
            entry.append(handle)
            self._waiting[handle] = deliver, group

    def _ring(self, entry: list[asyncio.TimerHandle]) -> None:
        deliver, group = self._waiting.pop(entry[0])
        if not self._waiting:
            self._idle.set()
        deliver([(token, ScriptedAnswer(request.step, request.reference)) for token, request in group])

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for the timers, then answer the rest: it may have rung."""
        self._closed = True
        try:
            async with asyncio.timeout(max(0.0, grace)):
                await self._idle.wait()
        except TimeoutError:
            pass
        finally:
            while self._waiting:
                handle, (deliver, group) = self._waiting.popitem()
                handle.cancel()
                deliver([(token, _given_up()) for token, _ in group])
            self._idle.set()


_NOT_STARTED = NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")


def _given_up() -> Answer:
    return NoAnswer(Fault.READ_TIMEOUT, sent=True, detail="given up at shutdown")
