"""Everything works behind PgBouncer in transaction mode, where each transaction may run on another connection."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ringonce.store import SqlStore, StoreOptions, make_wakeup, migrate, open_store, wakeup
from ringonce.store.schema import metadata
from ringonce.store.wakeup import PostgresWakeup
from ringonce.telemetry import Telemetry
from ringonce.testing import check_store
from tests.servers.pgbouncer import pgbouncer, planned, prepared
from tests.servers.postgres import Database
from tests.store.kit import KINDS, told

pytestmark = pytest.mark.debian

PATIENCE = 60.0
DRIVERS = ("asyncpg", "psycopg")


@pytest.fixture
def pooled(pg_database: Database) -> Iterator[Database]:
    """An empty database behind a PgBouncer with two connections to the server."""
    with pgbouncer(pg_database) as front:
        yield front


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_store_passes_the_published_kit(
    pooled: Database, pg_database: Database, driver: str
) -> None:
    """Every rule that a store has to keep holds through the pooler, migrations included, without a setting."""
    await migrate(pooled.url(driver))
    names = ", ".join(table.name for table in metadata.sorted_tables if table.name != "ringonce_ticks")

    def fresh(decode: Any) -> SqlStore:
        with pg_database.connect() as connection:
            connection.execute(f"TRUNCATE {names}")
        return open_store(pooled.url(driver), decode=decode, outbox_kinds=KINDS)

    await check_store(fresh)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint that does not come is not waited for long."""
    monkeypatch.setattr(wakeup, "ECHO_WITHIN", 1.0)


async def test_who_insists_is_alerted(
    pooled: Database, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    """With ``listen = true`` a pooler in the way is an alert, and is tried again."""
    telemetry, alerted = Telemetry(), told(caplog, "not_listening")
    made = make_wakeup(pooled.url("asyncpg"), StoreOptions(listen="true"), telemetry)
    assert isinstance(made, PostgresWakeup)
    made.listen(lambda _: None)
    async with asyncio.timeout(PATIENCE):
        await alerted.wait()
    assert telemetry.value("ringonce_alerts_total", kind="not_listening") == 1
    assert made._listening is not None
    assert not made._listening.done()
    await made.close()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_pooler_is_noticed(pooled: Database, pg_database: Database, driver: str) -> None:
    """Directly, statements stay prepared and are planned once, and not behind a pooler; a setting decides instead."""
    await migrate(pg_database.url(driver))
    for database, setting, unprepared in (
        (pooled, "auto", True),
        (pg_database, "auto", False),
        (pg_database, "true", True),
    ):
        store = open_store(database.url(driver), decode=lambda _: None, pgbouncer=setting)
        await store.open()

        assert (await store.backend.run(prepared) == 0) is unprepared, (database.port, setting)
        assert (await store.backend.run(planned) == "auto") is unprepared, (database.port, setting)
        await store.close()
