"""Ways to hand over one notification, each of which tells when it began to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from benchmarks.kit import push
from benchmarks.rig import http, programs
from ringonce import Ringonce

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.servers.postgres import Database


class Caller(Protocol):
    """Hands one over."""

    async def __call__(self, number: int) -> int:
        """Hand over ``push.event(number)``; when that began, in nanoseconds of the monotonic clock."""
        ...


class Library:
    """``notify()`` of an object that is open."""

    def __init__(self, ringonce: Ringonce) -> None:
        self.ringonce = ringonce

    async def __call__(self, number: int) -> int:
        """Notify."""
        event = push.event(number)
        began = time.monotonic_ns()
        await self.ringonce.notify(event)
        return began

    async def many(self, first: int, count: int) -> None:
        """Notify of many in one transaction."""
        await self.ringonce.notify_many([push.event(number) for number in range(first, first + count)])


class Api:
    """``POST /v1/notifications`` over a connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = http.Connection(port)

    async def __call__(self, number: int) -> int:
        """Post it from a thread, so that the event loop goes on."""
        raw = http.request("/v1/notifications", json.dumps(push.event(number)).encode())

        def post() -> int:
            began = time.monotonic_ns()
            self._connection.post(raw)
            return began

        return await asyncio.to_thread(post)


class Bare:
    """Without ringonce: commit one row, then call the provider, and nothing in between."""

    def __init__(self, connection: asyncpg.Connection[Any], stub: programs.Clocked) -> None:
        self._connection = connection
        self._provider = http.Connection(stub.port)

    async def __call__(self, number: int) -> int:
        """One INSERT, one POST."""
        message = json.dumps(
            {"message": {"token": push.token(number), "notification": push.CONTENT}}
        ).encode()
        raw = http.request("/v1/projects/bench/messages:send", message)
        began = time.monotonic_ns()
        await self._connection.execute("INSERT INTO bare (body) VALUES ($1)", message.decode())
        await asyncio.to_thread(self._provider.post, raw)
        return began


@contextlib.asynccontextmanager
async def bare(database: Database, stub: programs.Clocked) -> AsyncIterator[Bare]:
    """Open it, with a table of its own."""
    connection = await asyncpg.connect(database.url())
    try:
        await connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, body text)")
        yield Bare(connection, stub)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def embedded(config: Mapping[str, Any], folder: Path) -> AsyncIterator[Library]:
    """Ringonce inside this process, with its worker, on an SQLite file."""
    stop = asyncio.Event()
    inside = {**config, "store": {"url": f"sqlite:///{folder / 'latency.db'}"}}
    async with Ringonce(inside) as ringonce:
        working = asyncio.create_task(ringonce.run_worker(stop))
        try:
            yield Library(ringonce)
        finally:
            stop.set()
            await working
