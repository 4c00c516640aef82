"""A connection of our own to PostgreSQL, by psycopg."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from ringonce.errors import StoreUnavailable
from ringonce.store.lines import CONNECT_WITHIN, NAME, done, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.store.lines import Heard


class PsycopgLine:
    """By psycopg."""

    def __init__(self, connection: Any, faults: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._faults = faults
        self._listening: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, options: dict[str, Any]) -> PsycopgLine:
        """Open it."""
        known: dict[str, Any] = {"connect_timeout": round(CONNECT_WITHIN), "application_name": NAME}
        with telling((psycopg.Error,)):
            connection = await psycopg.AsyncConnection.connect(
                **known | options, autocommit=True, prepare_threshold=None
            )
        return cls(connection, (psycopg.Error,))

    async def listen(self, channels: Sequence[str], heard: Heard) -> None:
        """See Line."""
        await self.execute("; ".join(f"LISTEN {channel}" for channel in channels))
        self._listening = asyncio.get_running_loop().create_task(self._hear(heard), name="ringonce-hints")

    async def _hear(self, heard: Heard) -> None:
        try:
            with suppress(StoreUnavailable), telling(self._faults):
                async for note in self._connection.notifies():
                    heard(note.channel, note.payload)
        finally:
            done(self.lost)

    async def execute(self, script: str) -> None:
        """See Line."""
        with telling(self._faults):
            await self._connection.execute(script)

    async def pooled(self) -> bool:
        """See Line."""
        with telling(self._faults):
            found = await (await self._connection.execute("SELECT pg_backend_pid()")).fetchone()
        return bool(found[0] != self._connection.info.backend_pid)

    async def close(self) -> None:
        """See Line."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        with suppress(StoreUnavailable), telling(self._faults):
            await self._connection.close()
