"""The functions of ``examples/transactions.py``, which the documentation shows."""

import asyncio
import importlib.util
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from ringonce.store import StoreOptions, migrate
from tests.servers.postgres import Database, fresh_database
from tests.store.callers import Django

FILE = Path(__file__).parents[2] / "examples" / "transactions.py"


@pytest.fixture(scope="module")
def shown() -> Any:
    """The module."""
    spec = importlib.util.spec_from_file_location("transactions", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(pg_server: Database) -> Iterator[Database]:
    """A database with all tables."""
    with fresh_database(pg_server) as database:
        asyncio.run(migrate(database.url()))
        with database.connect() as connection:
            connection.execute("CREATE TABLE orders (id int)")
        yield database


async def sqlalchemy_session(show: Callable[..., Any], database: Database) -> None:
    """On an engine."""
    engine = sa.create_engine(database.url("psycopg"))
    await asyncio.to_thread(show, engine)
    engine.dispose()


async def sqlalchemy_async(show: Callable[..., Any], database: Database) -> None:
    """On a session."""
    engine = create_async_engine(database.url("asyncpg"))
    async with AsyncSession(engine) as session:
        await show(session)
    await engine.dispose()


async def django_atomic(show: Callable[..., Any], database: Database) -> None:
    """By an alias."""
    django = Django()
    await django.open(database.url())
    await django.run(show, django.alias)
    await django.close()


async def psycopg_block(show: Callable[..., Any], database: Database) -> None:
    """On a connection."""
    with psycopg.connect(database.url()) as connection:
        await asyncio.to_thread(show, connection)


async def psycopg_async(show: Callable[..., Any], database: Database) -> None:
    """On a connection."""
    async with await psycopg.AsyncConnection.connect(database.url()) as connection:
        await show(connection)


async def asyncpg_block(show: Callable[..., Any], database: Database) -> None:
    """On a connection."""
    connection = await asyncpg.connect(database.url())
    await show(connection)
    await connection.close()


@pytest.mark.parametrize(
    "use",
    [sqlalchemy_session, sqlalchemy_async, django_atomic, psycopg_block, psycopg_async, asyncpg_block],
    ids=lambda use: use.__name__,
)
async def test_what_is_shown_works_on_postgresql(
    use: Callable[..., Any], shown: Any, database: Database
) -> None:
    """Each function commits the order and one event."""
    await use(getattr(shown, use.__name__), database)
    with psycopg.connect(database.url()) as connection:
        found = connection.execute("SELECT id, event_id FROM orders, ringonce_events").fetchall()
    assert found == [(42, "order-42-placed")]


async def test_what_is_shown_works_on_sqlite(shown: Any, tmp_path: Path) -> None:
    """The one for SQLite, too."""
    await migrate(f"sqlite:///{tmp_path}/shop.db", StoreOptions(sqlite_module="stdlib"))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        shown.sqlite3_with(connection)
        found = connection.execute("SELECT id, event_id FROM orders, ringonce_events").fetchall()
    assert found == [(42, "order-42-placed")]
