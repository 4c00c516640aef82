"""A peer that falls silent holds no call: the connection is given up, and the next call has another."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from ringonce.errors import StoreUnavailable
from ringonce.store import open_store
from ringonce.store.fuse import EVERY, IDLE, PROBES, UNACKNOWLEDGED, Fuse, _descriptor
from tests.servers.postgres import Database
from tests.store.kit import decode


class Line:
    """A cable to the server that can be cut without a word: the bytes are taken, and go nowhere."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.open = asyncio.Event()
        self.open.set()
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry both ways."""
        inner, outer = await asyncio.open_connection(self.database.host, self.database.port)
        both = (self.carry(reader, outer), self.carry(inner, writer))
        self.tasks |= {asyncio.create_task(one) for one in both}

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one way until the end."""
        try:
            with suppress(OSError):
                while data := await reader.read(65536):
                    await self.open.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def line_to(database: Database) -> AsyncIterator[Line]:
    """A cable for the time of a block."""
    line = Line(database)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        line.open.set()
        for task in line.tasks:
            task.cancel()
        await asyncio.gather(*line.tasks, return_exceptions=True)
        server.close()


DRIVERS = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])


@DRIVERS
async def test_a_silent_line_holds_no_call(pg_empty: Database, driver: str) -> None:
    """The call fails when its time is over, and is told as a database that is away; afterwards all is well."""
    async with line_to(pg_empty) as line:
        url = replace(pg_empty, host="127.0.0.1", port=line.port).url(driver)
        store = open_store(url, decode=decode, pool_size=1, timeout=60.0)
        await store.open()
        await store.drop_lease("x", "y")
        store.backend._timeout = 1.0
        line.open.clear()
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable, match="did not answer within 1 s"):
                await store.drop_lease("x", "y")
        line.open.set()
        store.backend._timeout = 60.0
        await store.drop_lease("x", "y")
        await store.close()


@DRIVERS
async def test_a_lock_that_is_never_given_up_holds_no_call(pg_empty: Database, driver: str) -> None:
    """A statement that waits for somebody else's lock fails when its time is over."""
    store = open_store(pg_empty.url(driver), decode=decode, pool_size=1, timeout=1.0)
    await store.open()
    with pg_empty.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE ringonce_leases")
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable, match="did not answer"):
                await store.drop_lease("x", "y")
        other.execute("ROLLBACK")
    store.backend._timeout = 60.0
    await store.drop_lease("x", "y")
    await store.close()


@DRIVERS
async def test_opening_has_no_time_limit(pg_empty: Database, driver: str) -> None:
    """A migration takes as long as it takes: what opens a store is not cut off."""
    store = open_store(pg_empty.url(driver), decode=decode, timeout=0.05)
    slow = sa.text("SELECT pg_sleep(0.5)")
    await store.backend.open(lambda c: c.execute(slow))
    with pytest.raises(StoreUnavailable):
        await store.backend.run(lambda c: c.execute(slow))
    store.backend._timeout = 60.0
    await store.backend.run(lambda _: None, write=False)
    await store.close()


@DRIVERS
async def test_the_socket_watches_its_peer(pg_empty: Database, driver: str) -> None:
    """Keepalives and the time for unacknowledged data are set on the connection's own socket."""
    store = open_store(pg_empty.url(driver), decode=decode)
    await store.open()

    def look(connection: sa.Connection) -> dict[str, int]:
        number = _descriptor(connection.connection.driver_connection)
        with socket.socket(fileno=os.dup(number)) as ours:
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            found = {name: ours.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}
            return found | {"SO_KEEPALIVE": ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)}

    found = await store.backend.run(look)
    await store.close()
    wanted = {"TCP_KEEPIDLE": IDLE, "TCP_KEEPINTVL": EVERY, "TCP_KEEPCNT": PROBES, "SO_KEEPALIVE": 1}
    assert found == wanted | {"TCP_USER_TIMEOUT": UNACKNOWLEDGED}


async def test_a_fuse_burns_no_connection_that_was_given_back() -> None:
    """When its connection is gone, or has no socket that can be found, nothing happens."""
    fuse = Fuse(0.0)
    gone: Any = type("Gone", (), {"sync_connection": None})()
    fuse.light(gone)
    await asyncio.sleep(0.01)
    assert not fuse.burnt
    fuse.out()
