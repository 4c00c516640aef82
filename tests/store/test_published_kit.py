"""The published kit for stores on the server database."""

from typing import Any

import pytest

from ringonce.store import SqlStore, open_store
from ringonce.store.schema import metadata
from ringonce.testing import check_store
from tests.servers.postgres import Database
from tests.store.kit import KINDS


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_ours_on_a_server(pg_shared: Database, driver: str) -> None:
    """The store passes on PostgreSQL with either driver; the tables are emptied before each rule."""
    names = ", ".join(table.name for table in metadata.sorted_tables if table.name != "ringonce_ticks")

    def fresh(decode: Any) -> SqlStore:
        with pg_shared.connect() as connection:
            connection.execute(f"TRUNCATE {names}")
        return open_store(pg_shared.url(driver), decode=decode, outbox_kinds=KINDS)

    await check_store(fresh)
