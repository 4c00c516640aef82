"""A snapshot that is held: who is named, and what a claim reads while it is."""

from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from ringonce.model.policy import SECOND
from ringonce.store import SqlStore, migrate, open_store
from tests.servers.postgres import Database
from tests.store.kit import KINDS, START, World, decode
from tests.store.test_plans import Explained

DEAD, LIVE, BATCH = 60_000, 200, 10
FILL = f"""
INSERT INTO ringonce_events SELECT '\\x01', '', 'e', 't', NULL, NULL, NULL, 'normal', NULL, '\\x00', '{{}}', 1, 1, true,
    {START};
INSERT INTO ringonce_contents VALUES ('\\x01', NULL, 'hello', NULL, '{{}}', {START});
INSERT INTO ringonce_addresses (id, key, tenant, recipient, channel, value, registered_at, generation)
    VALUES (1, '\\x01', '', 'u', 'email', 'u@example.com', {START}, 0);
INSERT INTO ringonce_notifications SELECT md5('n' || i)::uuid, '', '\\x01', 'u', 'email', '', 1, 0, '\\x01', {START},
    {START}, 'pending', 1, 1, 1, 0, 0, 0, 0, '', {START} + i, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, {START}
    FROM generate_series({DEAD} + 1, {DEAD} + {LIVE}) i;
INSERT INTO ringonce_dispatch SELECT md5('n' || i)::uuid, 'email', 1, {START} + i, 'send', true, false, NULL, NULL, 0,
    0, 1, 0, NULL, {START}, NULL, NULL FROM generate_series(1, {DEAD} + {LIVE}) i
"""


async def named(store: SqlStore) -> dict[str, int | None]:
    """Who holds one now."""
    return {one.who: one.age for one in await store.snapshots()}


async def test_sqlite_has_none() -> None:
    """A reader of SQLite keeps no dead rows."""
    store = open_store("sqlite://", decode=decode, create=True)
    await store.open()
    assert await store.snapshots() == []
    await store.close()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_the_session_that_holds_one_is_named(pg_empty: Database, driver: str) -> None:
    """A session with a snapshot, and one with a transaction id, are named by pid and application, without a query."""
    store = open_store(pg_empty.url(driver), decode=decode)
    await store.open()
    with pg_empty.connect() as reader, pg_empty.connect() as writer:
        reader.execute("SET application_name = 'month-end report'")
        assert not any("month-end" in who for who in await named(store))
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 'ada@example.com' FROM ringonce_events")
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")
        found = await named(store)
        assert found[f"session {reader.info.backend_pid} (month-end report)"] >= 0
        assert found[f"session {writer.info.backend_pid}"] >= 0
        assert not any("ada" in who for who in found)
        reader.execute("ROLLBACK")
        writer.execute("ROLLBACK")
        left = await named(store)
        assert not any(str(one.info.backend_pid) in who for one in (reader, writer) for who in left)
    await store.close()


@pytest.fixture
async def behind(pg_database: Database) -> AsyncIterator[tuple[World, Explained]]:
    """A store whose index of due rows is full of dead entries that somebody's snapshot keeps."""
    await migrate(pg_database.url("psycopg"))
    with pg_database.connect() as reader, pg_database.connect() as other:
        for statement in FILL.split(";\n"):
            other.execute(statement)
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM ringonce_dispatch")
        other.execute(
            f"UPDATE ringonce_dispatch SET leased = true, owner = 'w' WHERE due_at <= {START + DEAD}"
        )
        other.execute("DELETE FROM ringonce_dispatch WHERE leased")
        other.execute("VACUUM ANALYZE ringonce_dispatch")
        store = open_store(pg_database.url("psycopg"), decode=decode, outbox_kinds=KINDS, pool_size=1)
        await store.open()
        explained = Explained()

        def listen(connection: sa.Connection) -> None:
            for statement in (
                "LOAD 'auto_explain'",
                "SET auto_explain.log_min_duration = 0",
                "SET auto_explain.log_analyze = on",
                "SET auto_explain.log_buffers = on",
                "SET auto_explain.log_format = 'json'",
                "SET client_min_messages = 'log'",
            ):
                connection.exec_driver_sql(statement)
            raw = connection.connection.driver_connection
            raw.add_notice_handler(explained.hear)

        await store.backend.run(listen)
        world = World(store, now=START + 60 * SECOND)
        yield world, explained
        await store.close()
        reader.execute("ROLLBACK")


async def test_a_floor_spares_claims_the_dead(behind: tuple[World, Explained]) -> None:
    """While a snapshot is held, a claim above the floor reads a quarter at most of what one from the bottom reads."""
    world, explained = behind

    async def blocks() -> int:
        explained.plans.clear()
        assert len((await world.claim(BATCH)).rows) == BATCH
        plans, explained.plans = explained.plans, []
        return sum(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in plans)

    bottom = min([await blocks() for _ in range(3)])
    world.store.shorten(on=True)
    first = await blocks()
    above = max([await blocks() for _ in range(3)])
    assert first > bottom / 2
    assert above < bottom / 4
