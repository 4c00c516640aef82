"""Opening: builds, journals, schemas, and databases that can not be used."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ringonce.errors import ConfigError, SchemaError, SqliteBuildError, StoreError, StoreUnavailable
from ringonce.store import StoreOptions, migrate, migration_script, open_store, schema_version
from ringonce.store.backend import revisions
from ringonce.store.fresh import create
from ringonce.store.migrate import _config, upgrade
from ringonce.store.rows import FACTS, FACTS_FROM
from ringonce.store.schema import VERSION_TABLE, Digest, Words, metadata, notifications
from ringonce.store.sqlite import SqliteOptions, choose_journal
from tests.servers.postgres import Database, fresh_database
from tests.store.kit import World, decode

AFFECTED, SOUND = (3, 40, 1), (3, 51, 3)


@contextlib.asynccontextmanager
async def opened(url: str, **options: object):  # noqa: ANN201
    """An open store, closed at the end."""
    store = open_store(url, decode=decode, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def refused(url: str, **options: object) -> StoreError:
    """The error that opening raises."""
    with pytest.raises(StoreError) as caught:
        async with opened(url, **options):
            pass
    assert caught.value.mend
    return caught.value


def journal_of(path: Path) -> str:
    """The journal mode that a file is in."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA journal_mode").fetchone()[0]


# --- schema ---------------------------------------------------------------------------------------------------------


async def test_migrate_builds_what_the_tables_say(tmp_path: Path, pg_template: Database) -> None:
    """On both databases the migrations end with the schema that the statements are built on."""
    path = tmp_path / "x.db"
    await migrate(f"sqlite:///{path}")
    skipped = {"sqlite": set(), "postgresql": {"ringonce_ticks"}}
    for url in (f"sqlite:///{path}", pg_template.url("psycopg")):
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            found = compare_metadata(context, metadata)
            here = connection.dialect.name
        engine.dispose()
        assert [f for f in found if f[0] != "add_table" or f[1].name not in skipped[here]] == []


def test_partial_indexes_are_the_same_either_way(tmp_path: Path) -> None:
    """In memory and by migration, SQLite gets the same statements for its indexes."""
    path = tmp_path / "x.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    found = []
    for url in (f"sqlite:///{path}", "sqlite://"):
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            if url == "sqlite://":
                create(connection, "0003")
            rows = connection.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'index'"))
            found.append({name: " ".join(sql.split()).replace('"', "") for name, sql in rows if sql})
        engine.dispose()
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_stood_before_gets_the_time_of_its_event(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A notification that an older version wrote is found with its event after the migration."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'x.db'}"
    else:
        url = request.getfixturevalue("pg_database").url("psycopg")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        command.upgrade(_config(connection=connection), "0004")
        for table, values in (
            ("events", {"key": b"\x01" * 16, "created_at": 77, "body_hash": b"h", "expanded": True}),
            ("notifications", {"id": UUID(int=1), "event_key": b"\x01" * 16, "content_id": b"\x02" * 16}),
        ):
            row = whole(table) | values
            into = sa.table(
                f"ringonce_{table}",
                *(sa.column(c.name, c.type) for c in metadata.tables[f"ringonce_{table}"].c),
            )
            connection.execute(sa.insert(into).values(row))
    with engine.begin() as connection:
        upgrade(connection)
        found = connection.execute(
            sa.select(FACTS[2], notifications.c.event_at).select_from(FACTS_FROM)
        ).all()
    engine.dispose()
    assert found == [("x", 77)]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_in_use_comes_through_all_migrations(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Rows in every table that a migration finds come through it, and the drafts count as waiting."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'x.db'}"
    else:
        url = request.getfixturevalue("pg_database").url("psycopg")
    engine = sa.create_engine(url)
    filled: dict[str, int] = {}
    for revision in revisions():
        with engine.begin() as connection:
            command.upgrade(_config(connection=connection), revision)
            tables = set(sa.inspect(connection).get_table_names()) & metadata.tables.keys()
            for name in tables - filled.keys():
                known = {column["name"] for column in sa.inspect(connection).get_columns(name)}
                row = {
                    key: value for key, value in whole(name.removeprefix("ringonce_")).items() if key in known
                }
                into = sa.table(name, *(sa.column(c.name, c.type) for c in metadata.tables[name].c))
                connection.execute(sa.insert(into).values(row))
                filled[name] = rows_of(connection, name)
    with engine.begin() as connection:
        found = {name: rows_of(connection, name) for name in filled}
        waiting = connection.execute(sa.text("SELECT waiting FROM ringonce_drafts")).scalars().all()
    engine.dispose()
    assert found == filled
    assert [bool(one) for one in waiting] == [True]


def rows_of(connection: sa.Connection, table: str) -> int:
    """How many rows it has."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(sa.table(table))).scalar_one())


def whole(table: str) -> dict[str, object]:
    """A value for each column of a table that may not be null."""
    made: dict[str, object] = {}
    for column in metadata.tables[f"ringonce_{table}"].c:
        if isinstance(column.type, Digest):
            made[column.name] = b"h"
        elif not column.nullable:
            kinds: dict[type, object] = {int: 0, bool: False, UUID: UUID(int=0)}
            made[column.name] = "x" if isinstance(column.type, Words) else kinds[column.type.python_type]
    return made


async def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    """The second run finds everything done."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    first = await migrate(url)
    assert first[0] is None
    assert await migrate(url) == (first[1], first[1])
    assert await schema_version(url) == first[1]


async def test_two_programs_migrate_at_once(pg_database: Database) -> None:
    """On PostgreSQL one waits for the other, and finds everything done."""
    url = pg_database.url("asyncpg")
    results = await asyncio.gather(migrate(url), migrate(url), migrate(url))
    assert sorted(before or "" for before, _ in results) == ["", revisions()[-1], revisions()[-1]]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_an_empty_database_is_refused(pg_database: Database, driver: str) -> None:
    """A database without our tables says how to make them."""
    error = await refused(pg_database.url(driver))
    assert isinstance(error, SchemaError)
    assert "ringonce migrate" in str(error)


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """Neither opening nor migrating touches what a newer program has made."""
    path = tmp_path / "x.db"
    await migrate(f"sqlite:///{path}")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
        connection.commit()
    error = await refused(
        f"sqlite:///{path}", sqlite_module="stdlib" if journal_of(path) != "wal" else "auto"
    )
    assert isinstance(error, SchemaError)
    assert "newer" in str(error)
    with pytest.raises(SchemaError):
        await migrate(f"sqlite:///{path}")


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_a_dba_can_read_the_statements(dialect: str) -> None:
    """The migrations can be printed as SQL."""
    assert "CREATE TABLE ringonce_dispatch" in migration_script(dialect)


# --- SQLite ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("journal", "version", "new", "wal", "chosen"),
    [
        ("auto", SOUND, True, False, "wal"),
        ("auto", AFFECTED, True, False, "delete"),
        ("auto", SOUND, False, True, None),
        ("auto", SOUND, False, False, None),
        ("auto", AFFECTED, False, False, None),
        ("wal", SOUND, False, False, "wal"),
        ("delete", SOUND, False, True, "delete"),
        ("auto", AFFECTED, False, True, SqliteBuildError),
        ("delete", AFFECTED, False, True, SqliteBuildError),
        ("wal", AFFECTED, True, False, SqliteBuildError),
    ],
)
def test_choice_of_the_journal(
    journal: str, version: tuple[int, ...], new: bool, wal: bool, chosen: object
) -> None:
    """An affected build never writes to a WAL file; a sound one creates them."""
    options = SqliteOptions("x.db", journal=journal)
    if chosen is SqliteBuildError:
        with pytest.raises(SqliteBuildError):
            choose_journal(options, version, new=new, wal=wal)
    else:
        assert choose_journal(options, version, new=new, wal=wal) == chosen


async def test_created_in_the_journal_that_the_build_allows(tmp_path: Path) -> None:
    """pysqlite3, sound, creates a WAL file; the interpreter's own, if affected, a rollback journal."""
    await migrate(f"sqlite:///{tmp_path / 'a.db'}", StoreOptions(sqlite_module="pysqlite3"))
    assert journal_of(tmp_path / "a.db") == "wal"
    await migrate(f"sqlite:///{tmp_path / 'b.db'}", StoreOptions(sqlite_module="stdlib"))
    affected = sqlite3.sqlite_version_info < SOUND
    assert journal_of(tmp_path / "b.db") == ("delete" if affected else "wal")


async def test_wal_file_and_affected_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An affected build that would write to a WAL file is refused before it opens it."""
    path = tmp_path / "x.db"
    await migrate(f"sqlite:///{path}", StoreOptions(sqlite_module="pysqlite3"))
    monkeypatch.setattr("ringonce.store.sqlite.SOUND", (99,))
    error = await refused(f"sqlite:///{path}")
    assert isinstance(error, SqliteBuildError)
    assert "pip" in str(error) or "install" in str(error)
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - neither -wal nor -shm was made


async def test_two_libraries_on_one_file(tmp_path: Path) -> None:
    """In one process a second SQLite library on an open file is refused; after it is closed it may come."""
    path = tmp_path / "x.db"
    url = f"sqlite:///{path}"
    await migrate(url, StoreOptions(journal="delete"))
    async with opened(url, sqlite_module="pysqlite3"):
        async with opened(url, sqlite_module="pysqlite3"):
            pass
        assert isinstance(await refused(url, sqlite_module="stdlib"), SqliteBuildError)
    async with opened(url, sqlite_module="stdlib"):
        pass


async def test_files_that_can_not_be_opened(tmp_path: Path) -> None:
    """A missing folder, a missing file and something that is no database each say what to do."""
    assert "folder" in str(await refused(f"sqlite:///{tmp_path}/no/x.db"))
    assert "does not exist" in str(await refused(f"sqlite:///{tmp_path}/x.db"))
    (tmp_path / "x.txt").write_text("hello, I am a text")
    assert "not an SQLite database" in str(await refused(f"sqlite:///{tmp_path}/x.txt"))
    (tmp_path / "cut.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 200)
    assert isinstance(await refused(f"sqlite:///{tmp_path}/cut.db"), StoreUnavailable)


async def test_created_when_asked(tmp_path: Path) -> None:
    """With ``create`` a missing file is made and migrated."""
    async with opened(f"sqlite:///{tmp_path}/x.db", create=True) as store:
        assert await store.take_lease("x", "a", 1) == 1


READ_ONLY = """
import asyncio, os, sys
from ringonce.errors import StoreUnavailable
from ringonce.store import open_store
async def main():
    warm = open_store("sqlite://", decode=None)  # loads everything, while this user may read it
    await warm.open()
    await warm.close()
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    store = open_store("sqlite:///" + sys.argv[1], decode=None)
    try:
        await store.open()
    except StoreUnavailable as error:
        print(error)
asyncio.run(main())
"""


def test_a_read_only_file() -> None:
    """A file that this user may not write is told at once, with the mend."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        asyncio.run(migrate(f"sqlite:///{path}", StoreOptions(journal="delete")))
        path.chmod(0o444)
        Path(folder).chmod(0o555)  # root writes through both, so the child gives root up
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert "read-only" in done.stdout, done.stderr


async def test_a_file_that_another_program_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write waits for the other program for a while, then says who is in the way."""
    monkeypatch.setattr("ringonce.store.sqlite.PATIENCE", 0.0)
    monkeypatch.setattr("ringonce.store.sqlite.BUSY_SECONDS", 0.05)
    path = tmp_path / "x.db"
    await migrate(f"sqlite:///{path}", StoreOptions(journal="delete"))
    async with opened(f"sqlite:///{path}", sqlite_module="stdlib") as store:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="another program"):
                await store.take_lease("x", "a", 1)
            other.execute("ROLLBACK")
        assert await store.take_lease("x", "a", 1) == 1


async def test_waiting_writes_share_a_commit_and_fail_alone(tmp_path: Path) -> None:
    """Calls that wait are carried by one transaction; one that fails takes nothing of the others along."""
    async with opened(f"sqlite:///{tmp_path}/x.db", create=True) as store:

        def broken(connection: sa.Connection) -> None:
            connection.execute(sa.text("DELETE FROM ringonce_leases"))
            raise ValueError("a bug")

        def slow(connection: sa.Connection) -> None:
            time.sleep(0.05)

        calls = [store.backend.run(slow), *(store.take_lease(f"l-{i}", "a", 9) for i in range(20))]
        results = await asyncio.gather(*calls, store.backend.run(broken), return_exceptions=True)
        assert results[1:21] == [1] * 20
        assert isinstance(results[21], ValueError)
        left = await store.backend.run(
            lambda c: c.execute(sa.text("SELECT count(*) FROM ringonce_leases")).scalar(), write=False
        )
        assert left == 20


async def test_the_clock_survives_a_restart(tmp_path: Path) -> None:
    """A wall clock that was set back does not take the store's time back."""
    url = f"sqlite:///{tmp_path}/x.db"
    later = time.time_ns() // 1000 + 10**12
    async with opened(url, create=True) as store:
        world = World(store, now=later)
        await world.one()
        await world.claim()
        assert await store.now() >= later
    async with opened(url) as store:
        assert await store.now() >= later


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_server_that_is_not_there(driver: str) -> None:
    """An unreachable server is told without the password."""
    error = await refused(f"postgresql+{driver}://ann:secret@127.0.0.1:1/x")
    assert isinstance(error, StoreUnavailable)
    assert "secret" not in str(error)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_database_in_another_encoding(pg_server: Database, driver: str) -> None:
    """An encoding that can not hold every text is refused with the statement that makes a good one."""
    with fresh_database(pg_server) as database, pg_server.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {database.name}_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
        try:
            url = database.url(driver) + "_latin"
            assert "UTF8" in str(await refused(url))
        finally:
            connection.execute(f"DROP DATABASE {database.name}_latin WITH (FORCE)")


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_wrong_password_or_database(pg_server: Database, driver: str) -> None:
    """What the server refuses is told in its own words."""
    assert isinstance(await refused_at(pg_server.url(driver) + "_nowhere"), StoreUnavailable)
    wrong = pg_server.url(driver).replace(pg_server.password, "wrong-one")
    error = await refused_at(wrong)
    assert isinstance(error, StoreUnavailable)
    assert "wrong-one" not in str(error)


async def refused_at(url: str) -> StoreError:
    """The error that opening raises; its words are the server's."""
    with pytest.raises(StoreError) as caught:
        async with opened(url):
            pass
    return caught.value


async def test_a_read_only_server(pg_template: Database, pg_server: Database) -> None:
    """A standby or a read-only database is refused at once."""
    with fresh_database(pg_server, pg_template.name) as database:
        with database.connect() as connection:
            connection.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
        assert "read-only" in str(await refused(database.url("asyncpg")))


async def test_a_lost_connection_is_replaced(pg_template: Database, pg_server: Database) -> None:
    """After the server has cut all connections the next call works on a new one."""
    with fresh_database(pg_server, pg_template.name) as database:
        async with opened(database.url("asyncpg")) as store:
            await store.take_lease("x", "a", 10**9)
            with pg_server.connect() as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    [database.name],
                )
            assert await store.take_lease("x", "a", 10**9) == 1


# --- URLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", "postgresql+psycopg2://x/y"])
def test_urls_that_name_no_store(url: str) -> None:
    """An unknown kind or driver is a mistake of the configuration, and says what is known."""
    with pytest.raises(ConfigError) as caught:
        open_store(url, decode=decode)
    assert caught.value.field == "store.url"
    assert caught.value.mend


@pytest.mark.parametrize("option", ["journal", "synchronous", "sqlite_module"])
def test_options_that_are_unknown(option: str) -> None:
    """A wrong option names itself."""
    with pytest.raises(ConfigError) as caught:
        open_store("sqlite://", decode=decode, **{option: "x"})
    assert caught.value.field == f"store.{option}"


@pytest.mark.parametrize("kind", ["sqlite", "asyncpg", "psycopg"])
async def test_a_closed_store_says_so(request: pytest.FixtureRequest, kind: str) -> None:
    """Before ``open`` and after ``close`` every call is refused, not hung."""
    url = "sqlite://" if kind == "sqlite" else request.getfixturevalue("pg_empty").url(kind)
    store = open_store(url, decode=decode)
    with pytest.raises(StoreUnavailable):
        await store.backlog()
    await store.open()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.backlog()
