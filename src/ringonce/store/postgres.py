"""PostgreSQL: an asynchronous engine of SQLAlchemy over asyncpg or psycopg; the same synchronous functions."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

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
from ringonce.store.fuse import PATIENT, Fuse, arguments, protect
from ringonce.store.plans import plan_anew, plan_once, renewed
from ringonce.store.pooler import behind_pooler, unprepared

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.engine import URL

log = logging.getLogger("ringonce.store")

OLDEST = 140000
STANDING = 2
"""Connections that are kept for single statements, if the pool has more than twice as many: claims and their ends."""
SILENT = "is the server, or what lies between, overloaded? Else raise store.timeout"


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

    def __init__(
        self, url: URL, *, pool_size: int, pooled: bool | None = None, timeout: float | None = None
    ) -> None:
        """Nothing is opened yet.

        ``pooled``: a pooler in transaction mode is between us and the server; None: to be found out. ``timeout``:
        seconds that one transaction may take with its connection; None: any.
        """
        self.dialect = POSTGRES
        self.url = with_driver(url)
        self.where = f"the database {url.set(password=None).render_as_string()}"
        self._pool_size = pool_size
        self._pooled = pooled
        self._timeout = timeout
        self._engine: AsyncEngine | None = None
        self._singles: AsyncEngine | None = None
        self._idle: list[AsyncConnection] = []
        self._standing_most = STANDING if pool_size > 2 * STANDING else 0

    def clock(self, now: int | None) -> int | None:
        """As given: the server's own clock serves where nothing is."""
        return now

    async def open(self, prepare: Work[T]) -> T:
        """Connect; check version and encoding, and whether a pooler is in the way."""
        found = self._pooled

        def work(connection: sa.Connection) -> T:
            nonlocal found
            self._check(connection)
            if found is None:
                found = behind_pooler(connection)
            return prepare(connection)

        # Until it is known, nothing stays prepared: that is right everywhere, only slower.
        engine = self._connect(pooled=found is not False)
        try:
            # A migration takes as long as it takes.
            result = await self._run(work, None, repeat=True)
            if found is False and self._pooled is None:
                await engine.dispose()
                self._connect(pooled=False)
        except BaseException:
            await self.close()
            raise
        if found and self._pooled is None:
            log.info("%s is behind a pooler: no statement stays prepared", self.where)
        return result

    def _connect(self, *, pooled: bool) -> AsyncEngine:
        """A pool, and another view of it whose statements the server begins and commits by itself."""
        driver = self.url.get_driver_name()
        try:
            self._engine = create_async_engine(
                self.url,
                pool_size=self._pool_size,
                max_overflow=0,
                pool_timeout=PATIENCE,
                pool_recycle=1800,
                hide_parameters=True,  # addresses are among them
                connect_args={**arguments(driver), **(unprepared(driver) if pooled else {})},
            )
            sa.event.listen(
                self._engine.sync_engine, "connect", lambda raw, _record: protect(raw.driver_connection)
            )
            if not pooled:
                sa.event.listen(self._engine.sync_engine, "connect", plan_once)
                sa.event.listen(self._engine.sync_engine, "checkout", plan_anew)
        except ModuleNotFoundError as error:
            raise StoreError(
                f"{error.name} is not installed", mend="pip install ringonce[postgres]"
            ) from error
        # Behind a pooler only a transaction keeps the server: asyncpg prepares in one message and executes in another,
        # and on another connection the statement without a name is somebody else's.
        self._singles = None if pooled else self._engine.execution_options(isolation_level="AUTOCOMMIT")
        return self._engine

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
        for connection in self._idle:
            await connection.close()
        self._idle.clear()
        if engine is not None:
            await engine.dispose()

    @asynccontextmanager
    async def _standing(self) -> AsyncIterator[AsyncConnection]:
        """A connection for a single statement. A few stay out of the pool: to lend them anew costs more than a batch.

        One that was in a call that failed goes back, and with it all others, for the server may be another one now.
        """
        if self._singles is None:
            raise StoreUnavailable(f"{self.where} is not open")
        connection = self._idle.pop() if self._idle else await self._singles.connect()
        try:
            await renewed(connection)
            yield connection
        except BaseException:
            for other in (connection, *self._idle):
                await other.close()
            self._idle.clear()
            raise
        if self._engine is None or len(self._idle) >= self._standing_most:  # closed meanwhile, or enough
            await connection.close()
        else:
            self._idle.append(connection)

    async def run(self, work: Work[T], *, write: bool = True, repeat: bool = True, single: bool = False) -> T:
        """Run ``work`` in one transaction at READ COMMITTED; a ``single`` statement is one by itself."""
        limit = self._timeout if write or self._timeout is None else PATIENT * self._timeout
        return await self._run(work, limit, repeat=repeat, single=single)

    async def _run(self, work: Work[T], limit: float | None, *, repeat: bool, single: bool = False) -> T:
        single = single and self._singles is not None
        engine = self._singles if single else self._engine
        if engine is None:
            raise StoreUnavailable(f"{self.where} is not open")
        deadline = time.monotonic() + PATIENCE
        attempt = 0
        while True:
            fuse = Fuse(limit)
            try:
                async with self._standing() if single else engine.begin() as connection:
                    fuse.light(connection)
                    return await connection.run_sync(work)
            except Exception as error:
                told = translate(error, self.dialect, self.where)
                if fuse.burnt:
                    told = StoreUnavailable(f"{self.where} did not answer within {limit:g} s", mend=SILENT)
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
            finally:
                fuse.out()
            await asyncio.sleep(wait(attempt))
