"""Every store test runs over both databases: quickly with one library each, at length with all that may open them."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ringonce.store import SqlStore, StoreOptions, migrate, open_store
from ringonce.store.schema import metadata
from ringonce.store.upkeep import Stuck
from tests.servers.pgbouncer import pgbouncer
from tests.servers.postgres import Database, create_database, drop_database, fresh_database
from tests.store.kit import KINDS, World, decode

MEMORY = "sqlite-memory"
FILES = ("sqlite-stdlib", "sqlite-pysqlite3")
SERVERS = ("postgres-asyncpg", "postgres-psycopg")
POOLED = ("pooled-asyncpg", "pooled-psycopg")
"""Behind PgBouncer in transaction mode; with its Debian package only."""
TABLES = [table for table in metadata.sorted_tables if table.name != "ringonce_ticks"]


def wipe(connection: sa.Connection) -> None:
    """Empty all tables."""
    for table in TABLES:
        connection.execute(table.delete())


@pytest.fixture(scope="session")
def pg_template(pg_server: Database) -> Iterator[Database]:
    """A database with the schema, to be copied."""
    database = create_database(pg_server)
    asyncio.run(migrate(database.url("asyncpg")))
    yield database
    drop_database(pg_server, database)


@pytest.fixture(scope="session")
def pg_shared(pg_server: Database, pg_template: Database) -> Iterator[Database]:
    """A database that tests use one after the other: emptying it is faster than making one."""
    with fresh_database(pg_server, pg_template.name) as database:
        yield database


@pytest.fixture
def pg_empty(pg_shared: Database) -> Database:
    """The shared database, empty."""
    # For tables of a few rows this is twenty times as fast as TRUNCATE, which makes each a new file.
    with pg_shared.connect() as connection:
        connection.execute("; ".join(f"DELETE FROM {table.name}" for table in TABLES))
    return pg_shared


@pytest.fixture(scope="session")
def pg_pooled(pg_shared: Database) -> Iterator[Database]:
    """The shared database behind a pooler."""
    with pgbouncer(pg_shared) as front:
        yield front


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema in rollback-journal mode, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(migrate(f"sqlite:///{path}", StoreOptions(journal="delete")))
    return path


@pytest.fixture(scope="session")
def kept(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SqlStore]]:
    """SQLite stores that stay open from test to test: building the statements costs more than emptying tables."""
    stores: dict[str, SqlStore] = {}

    def get(kind: str) -> SqlStore:
        if kind not in stores:
            options = {"url": "sqlite://"}
            if kind in FILES:
                path = tmp_path_factory.mktemp(kind) / "store.db"
                shutil.copy(sqlite_template, path)
                options = {"url": f"sqlite:///{path}", "sqlite_module": kind.removeprefix("sqlite-")}
            stores[kind] = open_store(**options, decode=decode, outbox_kinds=KINDS)
            asyncio.run(stores[kind].open())
        return stores[kind]

    yield get
    for store in stores.values():
        asyncio.run(store.close())


@pytest.fixture(
    params=[
        MEMORY,
        FILES[1],
        SERVERS[0],
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in (FILES[0], SERVERS[1])),
        *(pytest.param(kind, marks=pytest.mark.debian) for kind in POOLED),
    ]
)
def fresh(request: pytest.FixtureRequest) -> tuple[SqlStore, bool]:
    """A store on an empty database, and whether the test has to open and close it."""
    kind: str = request.param
    if kind in SERVERS + POOLED:
        database = request.getfixturevalue("pg_empty")
        if kind in POOLED:
            database = request.getfixturevalue("pg_pooled")
        url = database.url(kind.partition("-")[2])
        return open_store(url, decode=decode, outbox_kinds=KINDS), True
    return request.getfixturevalue("kept")(kind), False


@pytest.fixture
async def world(fresh: tuple[SqlStore, bool]) -> AsyncIterator[World]:
    """A store with a clock of its own."""
    store, ours = fresh
    if ours:
        await store.open()
    else:
        await store.backend.run(wipe)
        store._turn = store.backend._latest = 0
        store._stuck = Stuck()
        store.shorten(on=False)
    yield World(store)
    if ours:
        await store.close()
