"""Every store test runs over both databases, with every library that may open them."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ringonce.store import SqlStore, migrate, open_store
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
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema in rollback-journal mode, to be copied."""
    from ringonce.store import StoreOptions

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
        template = request.getfixturevalue("pg_template")
        with fresh_database(request.getfixturevalue("pg_server"), template.name) as database:
            yield {"url": database.url(kind.removeprefix("postgres-"))}


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
