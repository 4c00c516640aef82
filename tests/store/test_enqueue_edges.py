"""Where enqueue says no, and what an application may have set its connections to."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pysqlite3.dbapi2
import pytest
import sqlalchemy as sa
from django.db import transaction
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ringonce.app import Ringonce
from ringonce.cli.root import run
from ringonce.errors import ConflictError, InputError, SqliteBuildError
from ringonce.store import libraries
from tests.servers.postgres import Database, fresh_database
from tests.store.callers import Django

TO = {"to": {"ok": "4815162342"}, "content": {"text": "hello"}}
CHANNELS = {"ok": {"provider": "sandbox"}}


@pytest.fixture
def ringonce() -> Ringonce:
    """The library; where its own store is does not matter here."""
    return Ringonce({"channels": CHANNELS})


@pytest.fixture
def file(tmp_path: Path, sqlite_template: Path) -> Path:
    """A file with the tables."""
    return Path(shutil.copy(sqlite_template, tmp_path / "shop.db"))


@pytest.fixture
def database(pg_server: Database, pg_template: Database) -> Iterator[Database]:
    """A database with the tables."""
    with fresh_database(pg_server, pg_template.name) as database:
        yield database


def stored(file: Path) -> int:
    """How many events are committed."""
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT count(*) FROM ringonce_events").fetchone()[0])


# --- outside a transaction ------------------------------------------------------------------------------------------


def outside(call: Callable[[], Any]) -> str:
    """Refused because there is no transaction; the mend."""
    with pytest.raises(InputError, match="no transaction") as caught:
        call()
    assert caught.value.field == "connection"
    return caught.value.mend


def test_sqlite3_in_autocommit(ringonce: Ringonce, file: Path) -> None:
    """With isolation_level None and no BEGIN it is refused, and nothing is stored."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        assert "BEGIN" in outside(lambda: ringonce.enqueue(connection, **TO))
    assert stored(file) == 0


def test_psycopg_in_autocommit(ringonce: Ringonce, database: Database) -> None:
    """Without a transaction block it is refused."""
    with psycopg.connect(database.url(), autocommit=True) as connection:
        assert "connection.transaction()" in outside(lambda: ringonce.enqueue(connection, **TO))
        assert connection.execute("SELECT count(*) FROM ringonce_events").fetchone() == (0,)


async def test_asyncpg_outside_a_transaction(ringonce: Ringonce, database: Database) -> None:
    """Without a transaction block it is refused."""
    connection = await asyncpg.connect(database.url())
    with pytest.raises(InputError, match="no transaction"):
        await ringonce.enqueue_async(connection, **TO)
    assert await connection.fetchval("SELECT count(*) FROM ringonce_events") == 0
    await connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_sqlalchemy_in_autocommit(ringonce: Ringonce, kind: str, request: pytest.FixtureRequest) -> None:
    """With the isolation level AUTOCOMMIT it is refused."""
    if kind == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('file')}"
    else:
        url = request.getfixturevalue("database").url("psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        assert "AUTOCOMMIT" in outside(lambda: ringonce.enqueue(connection, **TO))
        assert connection.execute(sa.text("SELECT count(*) FROM ringonce_events")).scalar_one() == 0
    engine.dispose()


async def test_django_outside_atomic(ringonce: Ringonce, file: Path) -> None:
    """In Django's autocommit it is refused; with autocommit switched off by hand it is not."""
    django = Django()
    await django.open(f"sqlite:///{file}")
    assert "atomic" in await django.run(outside, lambda: ringonce.enqueue(django.connection, **TO))

    def by_hand() -> None:
        transaction.set_autocommit(autocommit=False, using=django.alias)
        ringonce.enqueue(django.alias, **TO)
        transaction.commit(using=django.alias)
        transaction.set_autocommit(autocommit=True, using=django.alias)

    await django.run(by_hand)
    await django.close()
    assert stored(file) == 1


# --- what is no connection ------------------------------------------------------------------------------------------


def test_what_is_no_connection_is_named(ringonce: Ringonce, file: Path) -> None:
    """An engine, a cursor, nothing, an unknown alias of Django: refused with the list of what is known."""
    engine = sa.create_engine(f"sqlite:///{file}")
    for wrong in (None, engine, object(), 5):
        with pytest.raises(InputError, match="psycopg, asyncpg and sqlite3"):
            ringonce.enqueue(wrong, **TO)
    with pytest.raises(InputError, match="there are default"):
        ringonce.enqueue("nowhere", **TO)


async def test_the_other_method_is_named(ringonce: Ringonce, file: Path) -> None:
    """A blocking connection to ``enqueue_async`` and the reverse: the error names the right method."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    async with AsyncSession(engine) as session:
        with pytest.raises(InputError, match="await enqueue_async"):
            ringonce.enqueue(session, **TO)
    await engine.dispose()
    with closing(sqlite3.connect(file)) as connection, pytest.raises(InputError, match="without await"):
        await ringonce.enqueue_async(connection, **TO)


async def test_a_pool_is_not_a_connection(ringonce: Ringonce, database: Database) -> None:
    """A pool of asyncpg is refused, a connection lent by it is not."""
    async with asyncpg.create_pool(database.url(), min_size=1, max_size=1) as pool:
        with pytest.raises(InputError, match="no connection"):
            await ringonce.enqueue_async(pool, **TO)
        async with pool.acquire() as connection, connection.transaction():
            await ringonce.enqueue_async(connection, **TO)
        assert await pool.fetchval("SELECT count(*) FROM ringonce_events") == 1


# --- an application's own settings ----------------------------------------------------------------------------------


def test_row_factories_do_not_matter(ringonce: Ringonce, file: Path, database: Database) -> None:
    """Rows as mappings, and client-side cursors: the known event is found all the same."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        ringonce.enqueue(connection, event_id="e-1", **TO)
        assert ringonce.enqueue(connection, event_id="e-1", **TO).duplicate
    with psycopg.connect(
        database.url(), row_factory=dict_row, cursor_factory=psycopg.ClientCursor
    ) as connection:
        ringonce.enqueue(connection, event_id="e-1", **TO)
        assert ringonce.enqueue(connection, event_id="e-1", **TO).duplicate


def test_inside_a_savepoint_of_the_caller(ringonce: Ringonce, database: Database) -> None:
    """What is enqueued in a nested transaction shares its fate, not that of the outer one."""
    with psycopg.connect(database.url()) as connection:
        with connection.transaction():
            ringonce.enqueue(connection, event_id="outer", **TO)
            with connection.transaction() as inner:
                ringonce.enqueue(connection, event_id="inner", **TO)
                raise psycopg.Rollback(inner)
        found = connection.execute("SELECT event_id FROM ringonce_events").fetchall()
    assert found == [("outer",)]
    engine = sa.create_engine(database.url("psycopg"))
    with Session(engine) as session, session.begin():
        with session.begin_nested():
            ringonce.enqueue(session, event_id="kept", **TO)
        with session.begin_nested() as inner:
            ringonce.enqueue(session, event_id="dropped", **TO)
            inner.rollback()
    with psycopg.connect(database.url()) as connection:
        found = connection.execute("SELECT event_id FROM ringonce_events ORDER BY event_id").fetchall()
    engine.dispose()
    assert found == [("kept",), ("outer",)]


def test_scoped_session(ringonce: Ringonce, file: Path) -> None:
    """The session registry that web frameworks hand out is a session."""
    engine = sa.create_engine(f"sqlite:///{file}")
    session = scoped_session(sessionmaker(engine))
    ringonce.enqueue(session, **TO)
    session.commit()
    session.remove()
    engine.dispose()
    assert stored(file) == 1


def test_sqlite_failure_before_anything_begins_nothing(ringonce: Ringonce, file: Path) -> None:
    """A refused event leaves no transaction behind that nobody began."""
    with closing(sqlite3.connect(file)) as connection:
        ringonce.enqueue(connection, event_id="e-1", **TO)
        connection.commit()
        with pytest.raises(ConflictError):
            ringonce.enqueue(connection, event_id="e-1", to=TO["to"], content={"text": "other"})
        assert not connection.in_transaction


def test_the_driver_s_errors_are_the_caller_s(ringonce: Ringonce, file: Path) -> None:
    """A lock that is not to be had is told by the driver's own exception, which the caller's retries know."""
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as rival,
        closing(sqlite3.connect(file, timeout=0)) as connection,
    ):
        rival.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            ringonce.enqueue(connection, **TO)


def test_time_never_runs_back(ringonce: Ringonce, file: Path) -> None:
    """An event is not older than the latest time that the store has given out."""
    with closing(sqlite3.connect(file)) as connection:
        later = 4_000_000_000_000_000
        connection.execute("UPDATE ringonce_ticks SET at = ?", (later,))
        ringonce.enqueue(connection, **TO)
        assert connection.execute("SELECT created_at FROM ringonce_events").fetchone() == (later,)


# --- two SQLite libraries -------------------------------------------------------------------------------------------


async def test_two_libraries_on_one_file_are_refused_by_enqueue(file: Path) -> None:
    """Where the store has the file open with pysqlite3, a connection of sqlite3 is refused, with the mend."""
    store = {"url": f"sqlite:///{file}", "sqlite_module": "pysqlite3"}
    async with Ringonce({"store": store, "channels": CHANNELS}) as ringonce:
        with closing(sqlite3.connect(file)) as connection:
            with pytest.raises(SqliteBuildError, match='sqlite_module = "stdlib"'):
                ringonce.enqueue(connection, **TO)
            assert not connection.in_transaction
        with closing(pysqlite3.dbapi2.connect(str(file))) as connection:
            ringonce.enqueue(connection, **TO)
            connection.commit()


async def test_two_libraries_on_one_file_are_refused_by_open(ringonce: Ringonce, file: Path) -> None:
    """Where the application has enqueued with sqlite3, a store with pysqlite3 does not open, one with sqlite3 does."""
    with closing(sqlite3.connect(file)) as connection:
        ringonce.enqueue(connection, **TO)
        connection.commit()
    for module in ("pysqlite3", "stdlib"):
        one = Ringonce({"store": {"url": f"sqlite:///{file}", "sqlite_module": module}})
        if module == "pysqlite3":
            with pytest.raises(SqliteBuildError, match='sqlite_module = "stdlib"'):
                await one.open()
        else:
            await one.open()
            await one.close()


def test_two_libraries_are_told_by_check(
    ringonce: Ringonce, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``ringonce check`` run inside the application fails and names the mend."""
    config = file.with_name("ringonce.toml")
    config.write_text(
        f'[store]\nurl = "sqlite:///{file}"\nsqlite_module = "pysqlite3"\n[channels.ok]\nprovider = "sandbox"\n'
    )
    with closing(sqlite3.connect(file)) as connection:
        ringonce.enqueue(connection, **TO)
        connection.commit()
    assert run(["--config", str(config), "check"]) == 1
    assert 'sqlite_module = "stdlib"' in capsys.readouterr().out.replace("\n", " ")


def test_a_new_file_in_the_place_of_an_old_one(ringonce: Ringonce, file: Path, tmp_path: Path) -> None:
    """A file that is gone binds nobody: another one may have its inode."""
    with closing(sqlite3.connect(file)) as connection:
        ringonce.enqueue(connection, **TO)
    other = tmp_path / "other.db"
    file.rename(other)
    with libraries.one_library(str(other), "pysqlite3"):
        pass


def test_an_affected_build_does_not_write_to_a_wal_file(
    ringonce: Ringonce, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that can lose commits in WAL mode is refused there; a sound one is not."""
    with closing(pysqlite3.dbapi2.connect(str(file))) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    monkeypatch.setattr("ringonce.store.enqueue.SOUND", (99,))
    with closing(sqlite3.connect(file)) as connection:
        with pytest.raises(SqliteBuildError, match="journal_mode=DELETE"):
            ringonce.enqueue(connection, **TO)
        monkeypatch.setattr("ringonce.store.enqueue.SOUND", (3,))
        ringonce.enqueue(connection, **TO)
        connection.commit()
    assert stored(file) == 1


def test_looking_at_a_file_keeps_its_locks(file: Path) -> None:
    """Reading a file's header while SQLite holds a lock on it in this process leaves the lock in place."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert libraries.header(str(file)).startswith(b"SQLite format 3")
        code = f"import sqlite3; sqlite3.connect({str(file)!r}, 0, isolation_level=None).execute('BEGIN IMMEDIATE')"
        rival = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
        assert "database is locked" in rival.stderr


# --- a crash --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_before_the_commit(kind: str, request: pytest.FixtureRequest) -> None:
    """A process that is killed between enqueue and commit leaves nothing."""
    if kind == "sqlite":
        target = f"sqlite3.connect({str(request.getfixturevalue('file'))!r})"
    else:
        target = f"psycopg.connect({request.getfixturevalue('database').url()!r})"
    code = (
        "import os, psycopg, signal, sqlite3\nfrom ringonce.app import Ringonce\n"
        f"connection = {target}\n"
        f"Ringonce({{'channels': {CHANNELS!r}}}).enqueue(connection, event_id='e-1', **{TO!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    if kind == "sqlite":
        assert stored(request.getfixturevalue("file")) == 0
    else:
        with psycopg.connect(request.getfixturevalue("database").url()) as connection:
            assert connection.execute("SELECT count(*) FROM ringonce_events").fetchone() == (0,)


async def test_cancelled_while_it_waits(ringonce: Ringonce, database: Database) -> None:
    """An enqueue that is cancelled while another transaction holds its id stores nothing."""
    with psycopg.connect(database.url()) as rival:
        ringonce.enqueue(rival, event_id="e-1", **TO)
        connection = await asyncpg.connect(database.url())
        block = connection.transaction()
        await block.start()
        task = asyncio.create_task(ringonce.enqueue_async(connection, event_id="e-1", **TO))
        with psycopg.connect(database.url(), autocommit=True) as admin:
            waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            while not admin.execute(waits).fetchone():  # noqa: ASYNC110 - a server has no event for it
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await block.rollback()
        await connection.close()
        rival.rollback()
    with psycopg.connect(database.url()) as rival:
        assert rival.execute("SELECT count(*) FROM ringonce_events").fetchone() == (0,)


def test_serialization_failure_is_the_driver_s(ringonce: Ringonce, database: Database) -> None:
    """Under REPEATABLE READ an event that came in meanwhile is a serialization failure, which callers repeat on."""
    with psycopg.connect(database.url()) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM ringonce_events")
        with psycopg.connect(database.url()) as rival:
            ringonce.enqueue(rival, event_id="e-1", **TO)
        with pytest.raises(psycopg.errors.SerializationFailure):
            ringonce.enqueue(connection, event_id="e-1", **TO)
        connection.rollback()
        assert ringonce.enqueue(connection, event_id="e-1", **TO).duplicate


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3.connect has no autocommit before Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
def test_sqlite3_with_the_new_autocommit(ringonce: Ringonce, file: Path, autocommit: bool) -> None:
    """Since Python 3.12: ``autocommit=True`` is outside a transaction, ``False`` always inside one."""
    with closing(sqlite3.connect(file, autocommit=autocommit)) as connection:
        if autocommit:
            outside(lambda: ringonce.enqueue(connection, **TO))
        else:
            ringonce.enqueue(connection, **TO)
            connection.rollback()
            ringonce.enqueue(connection, **TO)
            connection.commit()
    assert stored(file) == (0 if autocommit else 1)
