"""What all tests share: one PostgreSQL for the whole run, a fresh database in it for each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.postgres import URL_VARIABLE, Database, PostgresServer, fresh_database

# A busy machine is no fault: examples have no deadline of their own, nor has making them; a test has its timeout.
settings.register_profile("ringonce", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ringonce")

# Rooms whose tests never need a database: a run of these alone starts none.
WITHOUT_DATABASE = (
    "api",
    "app",
    "arch",
    "bench",
    "cli",
    "config",
    "core",
    "demo",
    "model",
    "providers",
    "vendors",
    "wire",
)
SERVER = pytest.StashKey[PostgresServer]()


def _needs_database(config: pytest.Config) -> bool:
    if config.option.collectonly or os.environ.get(URL_VARIABLE):
        return False
    here = Path(__file__).parent
    quiet = [here / name for name in WITHOUT_DATABASE]
    targets = [
        Path(config.invocation_params.dir, str(arg).split("::", 1)[0]).resolve() for arg in config.args
    ]
    return not all(any(target.is_relative_to(folder) for folder in quiet) for target in targets)


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the controller; xdist's workers inherit its address from the environment."""
    if hasattr(config, "workerinput") or not _needs_database(config):
        return
    server = config.stash[SERVER] = PostgresServer(fsync=False)
    server.start()
    os.environ[URL_VARIABLE] = server.database.url()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop it, however the run ended."""
    server = config.stash.get(SERVER, None)
    if server is not None:
        os.environ.pop(URL_VARIABLE, None)
        server.remove()


@pytest.fixture(scope="session")
def pg_server() -> Database:
    """The run's PostgreSQL: its maintenance database, as superuser."""
    url = os.environ.get(URL_VARIABLE)
    assert url, "this folder is listed in WITHOUT_DATABASE (tests/conftest.py), so no PostgreSQL was started"
    return Database.parse(url)


@pytest.fixture
def pg_database(pg_server: Database) -> Iterator[Database]:
    """A fresh, empty database; ``.url("asyncpg")`` and ``.url("psycopg")`` address it."""
    with fresh_database(pg_server) as database:
        yield database
