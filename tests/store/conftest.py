"""Every store test runs over both databases, with every library that may open them."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ringonce.store import SqlStore, StoreOptions, migrate, open_store
from ringonce.store.schema import metadata
from tests.servers.postgres import Database, create_database, drop_database, fresh_database
from tests.store.kit import KINDS, World, decode

MEMORY = "sqlite-memory"
FILES = ("sqlite-stdlib", "sqlite-pysqlite3")
SERVERS = ("postgres-asyncpg", "postgres-psycopg")


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
    names = ", ".join(table.name for table in metadata.sorted_tables if table.name != "ringonce_ticks")
    with pg_shared.connect() as connection:
        connection.execute(f"TRUNCATE {names}")
    return pg_shared


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema in rollback-journal mode, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    asyncio.run(migrate(f"sqlite:///{path}", StoreOptions(journal="delete")))
    return path


@pytest.fixture(params=[MEMORY, *FILES, *SERVERS])
def address(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """How to open a fresh, migrated database: url and options."""
    kind: str = request.param
    if kind == MEMORY:
        yield {"url": "sqlite://"}
    elif kind in FILES:
        path = request.getfixturevalue("tmp_path") / "store.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield {"url": f"sqlite:///{path}", "sqlite_module": kind.removeprefix("sqlite-")}
    else:
        yield {"url": request.getfixturevalue("pg_empty").url(kind.removeprefix("postgres-"))}


@pytest.fixture
async def open_one(address: dict[str, object]) -> AsyncIterator[Callable[[], object]]:
    """Opens stores on the same database."""
    opened: list[SqlStore] = []

    async def open_() -> SqlStore:
        store = open_store(**address, decode=decode, outbox_kinds=KINDS)
        await store.open()
        opened.append(store)
        return store

    yield open_
    for store in opened:
        await store.close()


@pytest.fixture
async def world(open_one) -> World:  # noqa: ANN001
    """A store with a clock of its own."""
    return World(await open_one())
