"""Own connections to PostgreSQL beside the pool's: to listen, and to notify others."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from ringonce.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import URL

    Heard = Callable[[str, str], None]
    """Takes the channel of PostgreSQL and the payload."""

CONNECT_WITHIN = 10.0
CLOSE_WITHIN = 1.0
OF_SQLALCHEMY = (
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "async_creator_fn",
    "async_fallback",
)
"""Options of a URL that SQLAlchemy takes out before it connects by asyncpg."""


class Line(Protocol):
    """One connection. Every method raises StoreUnavailable."""

    lost: asyncio.Future[None]
    """Done when the connection has gone."""

    async def listen(self, channels: Sequence[str], heard: Heard) -> None:
        """Call ``heard`` for everything that others, or we by another line, notify of."""
        ...

    async def execute(self, script: str) -> None:
        """Run statements, in one message."""
        ...

    async def pooled(self) -> bool:
        """Somebody stands between us and the server: its process has another number than we were told."""
        ...

    async def close(self) -> None:
        """Give it back, without waiting long."""
        ...


async def connect(url: URL) -> Line:
    """A line to the database that ``url`` names, by the driver that it names. Raises StoreUnavailable."""
    dialect = url.get_dialect()()
    options = dict(dialect.create_connect_args(url)[1])
    opened: Line
    if dialect.driver == "asyncpg":
        for name in OF_SQLALCHEMY:
            options.pop(name, None)
        opened = await AsyncpgLine.connect(options)
    else:
        opened = await PsycopgLine.connect(options)
    return opened


@contextmanager
def _told(faults: tuple[type[Exception], ...]) -> Iterator[None]:
    known: tuple[type[Exception], ...] = (OSError, TimeoutError, *faults)
    try:
        yield
    except known as error:
        words = str(error).strip().split("\n")[0] or type(error).__name__
        raise StoreUnavailable(f"a connection for hints: {words}") from error


class AsyncpgLine:
    """By asyncpg."""

    def __init__(self, connection: Any, faults: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._faults = faults
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection.add_termination_listener(lambda _: _done(self.lost))

    @classmethod
    async def connect(cls, options: dict[str, Any]) -> AsyncpgLine:
        """Open it."""
        import asyncpg

        faults = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
        # What is asked here is asked once, and behind a pooler no statement may stay prepared.
        options = {"timeout": CONNECT_WITHIN} | options | {"statement_cache_size": 0}
        with _told(faults):
            return cls(await asyncpg.connect(**options), faults)

    async def listen(self, channels: Sequence[str], heard: Heard) -> None:
        """See Line."""
        with _told(self._faults):
            for channel in channels:
                await self._connection.add_listener(channel, lambda _, __, name, words: heard(name, words))

    async def execute(self, script: str) -> None:
        """See Line."""
        with _told(self._faults):
            await self._connection.execute(script)

    async def pooled(self) -> bool:
        """See Line."""
        with _told(self._faults):
            # In a transaction, so that a pooler leaves us the same server between the two messages of a query.
            async with self._connection.transaction():
                found = await self._connection.fetchval("SELECT pg_backend_pid()")
        return bool(found != self._connection.get_server_pid())

    async def close(self) -> None:
        """See Line."""
        with suppress(StoreUnavailable), _told(self._faults):
            await self._connection.close(timeout=CLOSE_WITHIN)


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
        import psycopg

        options = {"connect_timeout": round(CONNECT_WITHIN)} | options
        with _told((psycopg.Error,)):
            connection = await psycopg.AsyncConnection.connect(
                **options, autocommit=True, prepare_threshold=None
            )
        return cls(connection, (psycopg.Error,))

    async def listen(self, channels: Sequence[str], heard: Heard) -> None:
        """See Line."""
        await self.execute("; ".join(f"LISTEN {channel}" for channel in channels))
        self._listening = asyncio.get_running_loop().create_task(self._hear(heard), name="ringonce-hints")

    async def _hear(self, heard: Heard) -> None:
        try:
            with suppress(StoreUnavailable), _told(self._faults):
                async for note in self._connection.notifies():
                    heard(note.channel, note.payload)
        finally:
            _done(self.lost)

    async def execute(self, script: str) -> None:
        """See Line."""
        with _told(self._faults):
            await self._connection.execute(script)

    async def pooled(self) -> bool:
        """See Line."""
        with _told(self._faults):
            found = await (await self._connection.execute("SELECT pg_backend_pid()")).fetchone()
        return bool(found[0] != self._connection.info.backend_pid)

    async def close(self) -> None:
        """See Line."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        with suppress(StoreUnavailable), _told(self._faults):
            await self._connection.close()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
