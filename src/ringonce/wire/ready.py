"""Which of many sockets are ready? Looked at together, so that the event loop has one thing to watch, not hundreds.

libcurl asks for a socket when an exchange begins and lets go of it when it ends, and a connection carries one
exchange after the other. Letting go is therefore only remembered: the system is told when the socket has something
to say while nobody listens, and forgets a closed socket by itself (epoll(7), "Questions and answers", 6).
"""

from __future__ import annotations

import contextlib
import select
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

IN, OUT, BROKEN = 1, 4, 8 | 16
"""The bits of epoll and poll."""
MOST = 256


class Ready(Protocol):
    """Watches sockets, and calls back when there is something to ``take``."""

    def watch(self, fd: int, mask: int) -> None:
        """Look out for ``mask``, and for nothing else that was asked for before."""
        ...

    def rest(self, fd: int) -> None:
        """Nobody listens to it now. It may be closed at any time."""
        ...

    def take(self) -> list[tuple[int, int]]:
        """(descriptor, bits) of what is ready, without waiting."""
        ...

    def close(self) -> None:
        """Watch nothing any more."""
        ...


class EpollReady:
    """All sockets in one epoll, whose own descriptor the event loop watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ready: Callable[[], None]) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._known: set[int] = set()
        self._resting: set[int] = set()
        loop.add_reader(self._epoll.fileno(), ready)

    def watch(self, fd: int, mask: int) -> None:
        """See ``Ready``."""
        self._resting.discard(fd)
        if fd not in self._known:
            self._known.add(fd)
            self._epoll.register(fd, mask)
            return
        try:  # contextlib.suppress takes longer than the call itself
            self._epoll.modify(fd, mask)
        except FileNotFoundError:
            # It is another socket by now that only has the number of the old one.
            self._epoll.register(fd, mask)

    def rest(self, fd: int) -> None:
        """See ``Ready``."""
        self._resting.add(fd)

    def take(self) -> list[tuple[int, int]]:
        """See ``Ready``."""
        found: list[tuple[int, int]] = self._epoll.poll(0, MOST)
        if self._resting:
            for fd, _ in found:
                if fd in self._resting:
                    return [event for event in found if self._wanted(event[0])]
        return found

    def _wanted(self, fd: int) -> bool:
        if fd not in self._resting:
            return True
        self._resting.discard(fd)
        self._known.discard(fd)
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        return False

    def close(self) -> None:
        """See ``Ready``."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()


class LoopReady:
    """Every socket in the event loop itself, where a system has no epoll."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ready: Callable[[], None]) -> None:
        self._loop = loop
        self._call = ready
        self._masks: dict[int, int] = {}
        self._found: dict[int, int] = {}

    def watch(self, fd: int, mask: int) -> None:
        """See ``Ready``."""
        self.rest(fd)
        self._masks[fd] = mask
        if mask & IN:
            self._loop.add_reader(fd, self._ready, fd, IN)
        if mask & OUT:
            self._loop.add_writer(fd, self._ready, fd, OUT)

    def rest(self, fd: int) -> None:
        """See ``Ready``."""
        mask = self._masks.pop(fd, 0)
        self._found.pop(fd, None)
        if mask & IN:
            self._loop.remove_reader(fd)
        if mask & OUT:
            self._loop.remove_writer(fd)

    def _ready(self, fd: int, bit: int) -> None:
        self._found[fd] = self._found.get(fd, 0) | bit
        self._call()

    def take(self) -> list[tuple[int, int]]:
        """See ``Ready``."""
        found, self._found = self._found, {}
        return list(found.items())

    def close(self) -> None:
        """See ``Ready``."""
        for fd in list(self._masks):
            self.rest(fd)


def ready(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Ready:
    """What this system does best."""
    made: Any = EpollReady if hasattr(select, "epoll") else LoopReady
    return made(loop, call)  # type: ignore[no-any-return]
