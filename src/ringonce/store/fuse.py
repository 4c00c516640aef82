"""Time limits of PostgreSQL connections: no call waits until the kernel gives a silent peer up (15 minutes and more).

Two of them, and neither needs a word of the server's or of a pooler's in between (PgBouncer refuses settings at the
start of a connection, and in transaction mode forgets those of a session):

* TCP itself: keepalives find a peer that is gone while we wait for its answer, TCP_USER_TIMEOUT (RFC 5482) one that
  does not acknowledge what we sent. Both by socket options: libpq takes them as connection parameters (PostgreSQL
  manual, "Parameter Key Words"), asyncpg gives its socket.
* A fuse for each transaction: a peer that acknowledges and never answers, a statement that waits for a lock that is
  never given up. When it burns, the socket is shut down under the driver, who then tells of a connection that is
  lost, as it would if the peer had closed it; nothing is cancelled in the middle of a protocol.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

CONNECT = 10
"""Seconds until a connection must stand."""
IDLE, EVERY, PROBES = 10, 5, 3
"""Keepalive: seconds of silence before the first probe, between probes, and how many may stay unanswered."""
UNACKNOWLEDGED = 20_000
"""Milliseconds that sent data may stay unacknowledged."""
PATIENT = 10
"""How much longer a reading may take: a report counts a whole table, and holds nobody up."""


def arguments(driver: str) -> dict[str, Any]:
    """What a driver is told when it connects."""
    if driver != "psycopg":
        return {"timeout": CONNECT}
    return {
        "connect_timeout": CONNECT,
        "keepalives": 1,
        "keepalives_idle": IDLE,
        "keepalives_interval": EVERY,
        "keepalives_count": PROBES,
        "tcp_user_timeout": UNACKNOWLEDGED,
    }


def options() -> dict[int, int]:
    """TCP options and their values; other systems than Linux lack some."""
    names = {
        "TCP_KEEPIDLE": IDLE,
        "TCP_KEEPINTVL": EVERY,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": UNACKNOWLEDGED,
    }
    return {getattr(socket, name): value for name, value in names.items() if hasattr(socket, name)}


def protect(driver_connection: Any) -> None:
    """Set the options on a connection of asyncpg; libpq has set its own."""
    number = _descriptor(driver_connection)
    if number is None or hasattr(driver_connection, "pgconn"):
        return
    with socket.socket(fileno=os.dup(number)) as ours:
        if ours.family == socket.AF_UNIX:
            return
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in options().items():
            ours.setsockopt(socket.IPPROTO_TCP, option, value)


def _descriptor(driver_connection: Any) -> int | None:
    """The connection's file descriptor. asyncpg names its transport nowhere in public."""
    with suppress(Exception):
        if hasattr(driver_connection, "pgconn"):
            return int(driver_connection.pgconn.socket)
        return int(driver_connection._transport.get_extra_info("socket").fileno())  # noqa: SLF001
    return None


class Fuse:
    """Of one transaction: lit when it has its connection, out when that is given back."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self.burnt = False

    def light(self, connection: AsyncConnection) -> None:
        """Begin to count."""
        if self._seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._burn, connection)

    def out(self) -> None:
        """End to count."""
        if self._timer is not None:
            self._timer.cancel()

    def _burn(self, connection: AsyncConnection) -> None:
        sync = connection.sync_connection
        if sync is None or sync.closed or sync.invalidated:
            return
        number = _descriptor(sync.connection.driver_connection)
        if number is None:
            return
        self.burnt = True
        # A duplicate: closing it leaves the driver's own open, shutting it down ends both.
        with socket.socket(fileno=os.dup(number)) as ours, suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
