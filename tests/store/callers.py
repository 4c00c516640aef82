"""Applications with a transaction of their own, through every library that ``enqueue`` knows, under one face."""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import asyncpg
import django
import django.conf
import psycopg
import sqlalchemy as sa
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from ringonce.app import Ringonce
from ringonce.ports import Accepted

if not django.conf.settings.configured:
    django.conf.settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, USE_TZ=True
    )
    django.setup()


class Caller:
    """One connection; between ``begin`` and ``commit`` or ``rollback`` a transaction."""

    connection: Any = None

    async def open(self, url: str) -> None:
        """Connect."""
        raise AssertionError(url)

    async def begin(self) -> None:
        """Begin, where the library does not do so by itself."""

    async def execute(self, sql: str) -> None:
        """Do a work of one's own."""
        await self.connection.execute(sql)

    async def enqueue(self, ringonce: Ringonce, **fields: Any) -> Accepted:
        """What is tested."""
        return await ringonce.enqueue_async(self.connection, **fields)

    async def commit(self) -> None:
        """Commit."""
        await self.connection.commit()

    async def rollback(self) -> None:
        """Roll back."""
        await self.connection.rollback()

    async def close(self) -> None:
        """Disconnect without a commit."""
        await self.connection.close()


class Blocking(Caller):
    """One with a blocking library, in a thread of its own: Django and SQLite bind connections to threads."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    async def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call in the thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, partial(function, *arguments, **named))

    def connect(self, url: str) -> None:
        """Connect, in the thread."""
        raise AssertionError(url)

    async def open(self, url: str) -> None:
        """Connect."""
        await self.run(self.connect, url)

    async def execute(self, sql: str) -> None:
        """Do a work of one's own."""
        await self.run(self.connection.execute, sql)

    async def enqueue(self, ringonce: Ringonce, **fields: Any) -> Accepted:
        """What is tested."""
        return await self.run(ringonce.enqueue, self.connection, **fields)

    async def commit(self) -> None:
        """Commit."""
        await self.run(self.connection.commit)

    async def rollback(self) -> None:
        """Roll back."""
        await self.run(self.connection.rollback)

    async def close(self) -> None:
        """Disconnect without a commit."""
        await self.run(self.connection.close)
        self.pool.shutdown()


class Sqlite3(Blocking):
    """The standard library's."""

    def connect(self, url: str) -> None:
        """Connect."""
        self.connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)


class Sqlite3Explicit(Sqlite3):
    """The same in autocommit mode, with transactions begun by hand."""

    def connect(self, url: str) -> None:
        """Connect."""
        super().connect(url)
        self.connection.isolation_level = None

    async def begin(self) -> None:
        """Begin."""
        await self.execute("BEGIN")


class Psycopg(Blocking):
    """Blocking psycopg, which begins by itself."""

    def connect(self, url: str) -> None:
        """Connect."""
        self.connection = psycopg.connect(url)


class PsycopgBlock(Psycopg):
    """Blocking psycopg in autocommit mode with a transaction block."""

    def connect(self, url: str) -> None:
        """Connect."""
        self.connection = psycopg.connect(url, autocommit=True)

    async def begin(self) -> None:
        """Enter the block."""
        self.block = self.connection.transaction()
        await self.run(self.block.__enter__)

    async def commit(self) -> None:
        """Leave it well."""
        await self.run(self.block.__exit__, None, None, None)

    async def rollback(self) -> None:
        """Leave it by the library's own exception."""
        error = psycopg.Rollback()
        await self.run(self.block.__exit__, psycopg.Rollback, error, None)


class PsycopgAsync(Caller):
    """Asynchronous psycopg."""

    async def open(self, url: str) -> None:
        """Connect."""
        self.connection = await psycopg.AsyncConnection.connect(url)


class Asyncpg(Caller):
    """Asyncpg."""

    async def open(self, url: str) -> None:
        """Connect."""
        self.connection = await asyncpg.connect(url)

    async def begin(self) -> None:
        """Begin."""
        self.block = self.connection.transaction()
        await self.block.start()

    async def commit(self) -> None:
        """Commit."""
        await self.block.commit()

    async def rollback(self) -> None:
        """Roll back."""
        await self.block.rollback()


class Core(Blocking):
    """A Connection of SQLAlchemy."""

    face: Callable[[sa.Connection], Any] = staticmethod(lambda connection: connection)

    def connect(self, url: str) -> None:
        """Connect."""
        self.engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self.raw = self.engine.connect()
        self.connection = self.face(self.raw)

    async def execute(self, sql: str) -> None:
        """Do a work of one's own."""
        await self.run(self.connection.execute, sa.text(sql))

    async def close(self) -> None:
        """Disconnect."""
        await self.run(self.connection.close)
        await self.run(self.raw.close)
        await self.run(self.engine.dispose)
        self.pool.shutdown()


class Orm(Core):
    """A Session of SQLAlchemy."""

    face = Session


class AsyncCore(Caller):
    """An AsyncConnection of SQLAlchemy."""

    face: Callable[[AsyncConnection], Any] = staticmethod(lambda connection: connection)

    async def open(self, url: str) -> None:
        """Connect."""
        url = url.replace("postgresql://", "postgresql+asyncpg://").replace(
            "sqlite://", "sqlite+aiosqlite://"
        )
        self.engine = create_async_engine(url)
        self.raw = await self.engine.connect()
        self.connection = self.face(self.raw)

    async def execute(self, sql: str) -> None:
        """Do a work of one's own."""
        await self.connection.execute(sa.text(sql))

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()
        await self.raw.close()
        await self.engine.dispose()


class AsyncOrm(AsyncCore):
    """An AsyncSession of SQLAlchemy."""

    face = AsyncSession


class Django(Blocking):
    """A connection of Django, in an atomic block."""

    def connect(self, url: str) -> None:
        """Connect."""
        self.alias = f"db_{secrets.token_hex(4)}"
        parsed = sa.make_url(url)
        kind = "sqlite3" if parsed.get_backend_name() == "sqlite" else "postgresql"
        wanted = {"ENGINE": f"django.db.backends.{kind}", "NAME": parsed.database}
        for key, value in (("USER", parsed.username), ("PASSWORD", parsed.password), ("HOST", parsed.host)):
            wanted[key] = value or ""
        wanted["PORT"] = parsed.port or ""
        if kind == "sqlite3":
            wanted["OPTIONS"] = {"timeout": 20}
        whole = connections.configure_settings({"default": {}, self.alias: wanted})
        connections.settings[self.alias] = whole[self.alias]
        self.connection = connections[self.alias]
        self.connection.ensure_connection()

    async def begin(self) -> None:
        """Enter the block."""
        self.block = transaction.atomic(using=self.alias)
        await self.run(self.block.__enter__)

    async def execute(self, sql: str) -> None:
        """Do a work of one's own."""

        def work() -> None:
            with self.connection.cursor() as cursor:
                cursor.execute(sql)

        await self.run(work)

    async def commit(self) -> None:
        """Leave it well."""
        await self.run(self.block.__exit__, None, None, None)

    async def rollback(self) -> None:
        """Leave it to be rolled back."""
        await self.run(transaction.set_rollback, True, using=self.alias)
        await self.run(self.block.__exit__, None, None, None)

    async def close(self) -> None:
        """Disconnect."""

        def close() -> None:
            self.connection.in_atomic_block = False
            self.connection.close()
            del connections[self.alias]
            del connections.settings[self.alias]

        await self.run(close)
        self.pool.shutdown()


ON_SQLITE: dict[str, type[Caller]] = {
    "sqlite-sqlite3": Sqlite3,
    "sqlite-sqlite3-explicit": Sqlite3Explicit,
    "sqlite-sqlalchemy-connection": Core,
    "sqlite-sqlalchemy-session": Orm,
    "sqlite-sqlalchemy-async-connection": AsyncCore,
    "sqlite-sqlalchemy-async-session": AsyncOrm,
    "sqlite-django": Django,
}
ON_POSTGRES: dict[str, type[Caller]] = {
    "postgres-psycopg": Psycopg,
    "postgres-psycopg-block": PsycopgBlock,
    "postgres-psycopg-async": PsycopgAsync,
    "postgres-asyncpg": Asyncpg,
    "postgres-sqlalchemy-connection": Core,
    "postgres-sqlalchemy-session": Orm,
    "postgres-sqlalchemy-async-connection": AsyncCore,
    "postgres-sqlalchemy-async-session": AsyncOrm,
    "postgres-django": Django,
}
CALLERS = ON_SQLITE | ON_POSTGRES
