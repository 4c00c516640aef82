"""Is a pooled connection still alive? Asked right before a request is written to it.

libcurl 8.23 looks for a hang-up only at connections that were idle for a second or longer (seen at the level
of sockets): a server that closes right after its answer would leave us with a request written into a dead
connection, and a doubt. So we look ourselves: the socket hook names the descriptors of an exchange, the
pre-request hook names the connection by its two ends.
"""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Any, TypeAlias

Ends: TypeAlias = tuple[str, int, str, int]
"""Peer's address and port, our address and port."""

_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
_SPOKE = _HUNG_UP | select.POLLIN


class Links:
    """The descriptors of open connections by their ends."""

    def __init__(self) -> None:
        self._looks: dict[Ends, Any] = {}
        # A descriptor's number comes back after it was closed: the newest connection is the one that has it.
        self._ends: dict[int, Ends] = {}

    def opened(self, descriptors: list[int], ends: Ends) -> None:
        """A new connection with these ends is one of ``descriptors``; the others lost the race to connect."""
        for fd in reversed(descriptors):
            if _local_port(fd, ends) == ends[3]:
                self._looks.pop(self._ends.get(fd, ends), None)
                self._ends[fd] = ends
                look = select.poll()
                look.register(fd, _SPOKE)
                self._looks[ends] = look.poll
                return

    def dead(self, ends: Ends, shared: bool) -> bool:  # noqa: FBT001 - asked of every request
        """True: the peer has hung up, or said something while nothing was asked.

        ``shared``: HTTP/2, where the peer may say something at any time.
        """
        look = self._looks.get(ends)
        if look is None:
            return False
        told = look(0)
        return bool(told) and (not shared or bool(told[0][1] & _HUNG_UP))


def _local_port(fd: int, ends: Ends) -> int | None:
    family = socket.AF_INET6 if ":" in ends[2] else socket.AF_INET
    borrowed = socket.socket(family, socket.SOCK_STREAM, 0, fileno=fd)
    try:
        with contextlib.suppress(OSError):
            return int(borrowed.getsockname()[1])
        return None
    finally:
        borrowed.detach()  # it is libcurl's
