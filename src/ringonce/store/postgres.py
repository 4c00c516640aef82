"""PostgreSQL: an asynchronous engine of SQLAlchemy over asyncpg or psycopg; the same synchronous functions."""

from __future__ import annotations

import asyncio
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from ringonce.errors import StoreError, StoreUnavailable
from ringonce.store.backend import (
    PATIENCE,
    AgainError,
    LostReplyError,
    T,
    Work,
    translate,
    wait,
)
from ringonce.store.dialect import POSTGRES

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

OLDEST = 140000


def with_driver(url: URL) -> URL:
    """Choose the driver where the URL names none: asyncpg where it is installed (it needs less CPU)."""
    if url.drivername != "postgresql":
        return url
    for driver in ("asyncpg", "psycopg"):
        if find_spec(driver) is not None:
            return url.set(drivername=f"postgresql+{driver}")
    raise StoreError("no PostgreSQL driver is installed", mend="pip install ringonce[postgres]")


class PostgresBackend:
    """One database of a server."""

    def __init__(self, url: URL, *, pool_size: int) -> None:
        self.dialect = POSTGRES
        self.url = with_driver(url)
        self.where = f"the database {url.set(password=None).render_as_string()}"
        self._pool_size = pool_size
        self._engine: AsyncEngine | None = None
        self._singles: AsyncEngine | None = None

    def clock(self, now: int | None) -> int | None:
        """As given: the server's own clock serves where nothing is."""
        return now

    async def open(self, prepare: Work[T]) -> T:
        """Connect; check version and encoding."""
        try:
            self._engine = create_async_engine(
                self.url,
                pool_size=self._pool_size,
                max_overflow=0,
                pool_timeout=PATIENCE,
                pool_recycle=1800,
                hide_parameters=True,  # addresses are among them
            )
        except ModuleNotFoundError as error:
            raise StoreError(
                f"{error.name} is not installed", mend="pip install ringonce[postgres]"
            ) from error
        # The same pool; the server begins and commits by itself, which saves two round trips of three.
        self._singles = self._engine.execution_options(isolation_level="AUTOCOMMIT")

        def work(connection: sa.Connection) -> T:
            self._check(connection)
            return prepare(connection)

        try:
            return await self.run(work)
        except BaseException:
            await self.close()
            raise

    def _check(self, connection: sa.Connection) -> None:
        number, encoding, read_only = connection.execute(
            sa.select(
                sa.cast(sa.func.current_setting("server_version_num"), sa.Integer),
                sa.func.current_setting("server_encoding"),
                sa.func.current_setting("transaction_read_only"),
            )
        ).one()
        if number < OLDEST:
            raise StoreError(
                f"{self.where} is served by PostgreSQL {number // 10000}", mend="use 14 or newer"
            )
        if encoding != "UTF8":
            raise StoreError(
                f"{self.where} has the encoding {encoding}, which can not hold every text",
                mend="create it with ENCODING 'UTF8' TEMPLATE template0",
            )
        if read_only == "on":
            raise StoreUnavailable(f"{self.where} is read-only", mend="name the primary server in store.url")

    async def close(self) -> None:
        """Give all connections back."""
        engine, self._engine, self._singles = self._engine, None, None
        if engine is not None:
            await engine.dispose()

    async def run(
        self,
        work: Work[T],
        *,
        write: bool = True,  # noqa: ARG002
        repeat: bool = True,
        single: bool = False,
    ) -> T:
        """Run ``work`` in one transaction at READ COMMITTED; a ``single`` statement is one by itself."""
        engine = self._singles if single else self._engine
        if engine is None:
            raise StoreUnavailable(f"{self.where} is not open")
        deadline = time.monotonic() + PATIENCE
        attempt = 0
        while True:
            try:
                async with engine.connect() if single else engine.begin() as connection:
                    return await connection.run_sync(work)
            except Exception as error:
                told = translate(error, self.dialect, self.where)
                again = isinstance(told, AgainError) or (
                    isinstance(told, LostReplyError) and repeat and not attempt
                )
                if not again or time.monotonic() > deadline:
                    if told is error:
                        raise
                    if isinstance(told, AgainError | LostReplyError):
                        told = StoreUnavailable(f"{self.where}: {told}")
                    raise told from error
                attempt += 1
            await asyncio.sleep(wait(attempt))
