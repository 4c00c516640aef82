"""The databases that crash tests run on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirements.conftest import migrated, start, store_url  # noqa: F401 - fixtures
from tests.servers.postgres import Database  # noqa: TC001 - fixtures are typed by it

Url = Callable[[str], str]


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> Url:
    """``url("sqlite")`` or ``url("postgresql")``: a fresh database."""

    def make(store: str) -> str:
        if store == "sqlite":
            return f"sqlite:///{tmp_path / 'ringonce.db'}"
        database: Database = request.getfixturevalue("pg_database")
        return database.url("asyncpg")

    return make
