"""Group commit of what comes in: what waits when the last transaction returns goes together.

A caller that is alone is served at once and in its own task. Of those who come while transactions are under way, each
waits for one of them to return; then all who wait go in one. Should that fail for the data or for a bug, each goes by
itself, so that nobody suffers for another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from ringonce.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ringonce.ports import Accepted, NewEvent

    Write: TypeAlias = Callable[[Sequence[NewEvent]], Awaitable[list[Accepted]]]

AT_THE_SAME_TIME = 2
"""Transactions under way: while the database works on one, this process makes the next."""
LARGEST = 500
"""Events of several callers in one transaction; one caller's events are never parted."""


class Accepting:
    """Carries events to the store, of one event loop."""

    def __init__(self, write: Write) -> None:
        """``write`` stores all or none, in one transaction."""
        self._write = write
        self._waiting: deque[tuple[Sequence[NewEvent], asyncio.Future[list[Accepted]]]] = deque()
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, events: Sequence[NewEvent]) -> list[Accepted]:
        """Store events, all or none. Raises what ``write`` raises for them."""
        if self._under_way < AT_THE_SAME_TIME:
            self._under_way += 1
            try:
                return await self._write(events)
            finally:
                self._returned()
        future: asyncio.Future[list[Accepted]] = asyncio.get_running_loop().create_future()
        self._waiting.append((events, future))
        return await future

    def _returned(self) -> None:
        self._under_way -= 1
        together: list[tuple[Sequence[NewEvent], asyncio.Future[list[Accepted]]]] = []
        count = 0
        while self._waiting and (not together or count + len(self._waiting[0][0]) <= LARGEST):
            events, future = self._waiting.popleft()
            if not future.done():  # else its caller has gone
                together.append((events, future))
                count += len(events)
        if together:
            self._under_way += 1
            task = asyncio.get_running_loop().create_task(self._flight(together), name="ringonce-accept")
            self._tasks.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._returned()

    async def _flight(
        self, together: Sequence[tuple[Sequence[NewEvent], asyncio.Future[list[Accepted]]]]
    ) -> None:
        try:
            accepted = await self._write([event for events, _ in together for event in events])
        except StoreUnavailable as error:
            for _, future in together:
                _fail(future, error)
        except asyncio.CancelledError:
            for _, future in together:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is told to the one it belongs to
            if len(together) == 1:
                _fail(together[0][1], error)
                return
            for one in together:
                await self._flight([one])
        else:
            begin = 0
            for events, future in together:
                end = begin + len(events)
                if not future.done():
                    future.set_result(accepted[begin:end])
                begin = end


def _fail(future: asyncio.Future[list[Accepted]], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
