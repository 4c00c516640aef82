"""Own connections to PostgreSQL beside the pool's: to listen, and to notify others."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ringonce.errors import StoreUnavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import URL

    Heard = Callable[[str, str], None]
    """Takes the channel of PostgreSQL and the payload."""

CONNECT_WITHIN = 10.0
NAME = "ringonce-hints"
"""What pg_stat_activity calls these connections."""
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
    if dialect.driver == "asyncpg":
        from ringonce.store.line_asyncpg import AsyncpgLine

        for name in OF_SQLALCHEMY:
            options.pop(name, None)
        return await AsyncpgLine.connect(options)
    from ringonce.store.line_psycopg import PsycopgLine

    return await PsycopgLine.connect(options)


@contextmanager
def telling(faults: tuple[type[Exception], ...]) -> Iterator[None]:
    """Errors of the network and of a driver as StoreUnavailable."""
    known: tuple[type[Exception], ...] = (OSError, TimeoutError, *faults)
    try:
        yield
    except known as error:
        words = str(error).strip().split("\n")[0] or type(error).__name__
        raise StoreUnavailable(f"a connection for hints: {words}") from error


def done(future: asyncio.Future[None]) -> None:
    """Say that it has happened, once."""
    if not future.done():
        future.set_result(None)
