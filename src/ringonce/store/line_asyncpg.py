"""A connection of our own to PostgreSQL, by asyncpg."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from ringonce.errors import StoreUnavailable
from ringonce.store.lines import CONNECT_WITHIN, NAME, done, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.store.lines import Heard

CLOSE_WITHIN = 1.0


class AsyncpgLine:
    """By asyncpg."""

    def __init__(self, connection: Any, faults: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._faults = faults
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.add_termination_listener(lambda _: done(self.lost))

    @classmethod
    async def connect(cls, options: dict[str, Any]) -> AsyncpgLine:
        """Open it."""
        faults = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
        # What is asked here is asked once, and behind a pooler no statement may stay prepared.
        options = {"timeout": CONNECT_WITHIN} | options | {"statement_cache_size": 0}
        options["server_settings"] = {"application_name": NAME} | dict(options.get("server_settings") or {})
        with telling(faults):
            return cls(await asyncpg.connect(**options), faults)

    async def listen(self, channels: Sequence[str], heard: Heard) -> None:
        """See Line."""
        with telling(self._faults):
            # In a transaction, so that a pooler leaves us the same server between the two messages of a statement.
            async with self._connection.transaction():
                for channel in channels:
                    await self._connection.add_listener(
                        channel, lambda _, __, name, words: heard(name, words)
                    )

    async def execute(self, script: str) -> None:
        """See Line."""
        with telling(self._faults):
            await self._connection.execute(script)

    async def pooled(self) -> bool:
        """See Line."""
        with telling(self._faults):
            async with self._connection.transaction():  # as above
                found = await self._connection.fetchval("SELECT pg_backend_pid()")
        return bool(found != self._connection.get_server_pid())

    async def close(self) -> None:
        """See Line."""
        with suppress(StoreUnavailable), telling(self._faults):
            await self._connection.close(timeout=CLOSE_WITHIN)
