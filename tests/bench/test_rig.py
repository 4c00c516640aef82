"""What the benchmarks measure on: rows made by SQL have to be as good as rows made by ringonce."""

import asyncio
import time
from typing import Any

import asyncpg

from benchmarks.kit import push
from benchmarks.rig import entries, http, programs, rows
from benchmarks.rig.clocked import TOKEN
from benchmarks.rig.fill import Fill
from ringonce import Ringonce
from ringonce.model.records import Claimed
from tests.servers.postgres import Database


def config(database: Database) -> dict[str, Any]:
    """A channel that nothing is sent on."""
    return push.config(entries.UNUSED, database.url("asyncpg"))


def claimed(database: Database) -> list[Claimed]:
    """What a worker would send now."""

    async def claim() -> list[Claimed]:
        async with Ringonce(config(database)) as ringonce:
            return list((await ringonce.store.claim(push.CHANNEL, "w", 100, 60_000_000)).rows)

    return asyncio.run(claim())


def test_multiplied_rows_are_sent_like_their_pattern(pg_database: Database) -> None:
    """Of waiting, future and finished copies a worker claims the waiting ones, each with its own address."""
    pattern = programs.migrated(config(pg_database), push.event(0))[0]
    with pg_database.connect() as connection:
        fill = Fill(connection, pattern, lambda _: None)
        with fill.bulk():
            fill.finished(5)
            fill.future(5)
        fill.waiting(20)
        fill.settled()
    found = claimed(pg_database)
    addresses = {one.row.address.value for one in found if one.row.address}
    assert len(found) == len(addresses) == 21
    assert all(one.content.title == push.CONTENT["title"] for one in found if one.content)
    assert not any(one.address_changed for one in found)


def test_scheduled_rows_are_due_when_it_is_said(pg_database: Database) -> None:
    """The times that are told by token are those in the rows."""
    pattern = programs.migrated(config(pg_database), push.event(0))[0]
    start = time.time_ns() // 1000 + 3_600_000_000
    with pg_database.connect() as connection:
        told = Fill(connection, pattern, lambda _: None).scheduled(4, start, 1_000)
        found = connection.execute(
            "SELECT a.value, d.due_at FROM ringonce_dispatch AS d JOIN ringonce_notifications AS n USING (id)"
            " JOIN ringonce_addresses AS a ON a.id = n.address_id WHERE d.due_at >= %s",
            (start,),
        ).fetchall()
    assert dict(found) == told
    assert sorted(told.values()) == [start + step * 1_000 for step in range(4)]


def test_bare_rows_are_the_same_rows(pg_database: Database) -> None:
    """What the bare INSERTs write is complete: a worker claims it like what was accepted."""
    pattern = programs.migrated(config(pg_database), push.event(0))[0]

    async def insert() -> None:
        connection = await asyncpg.connect(pg_database.url())
        try:
            copies = rows.Copies(await rows.pattern_of(connection, pattern), lite=False)
            made = copies.make(7)
            for table, statement in (await rows.inserts(connection)).items():
                await connection.execute(statement, *made[table])
        finally:
            await connection.close()

    asyncio.run(insert())
    assert len(claimed(pg_database)) == 8


def test_a_request_is_told_apart_by_its_token() -> None:
    """The stub finds the token in the body that the provider sends."""
    body = b'{"message": {"token": "abc", "data": {"token": "other"}}}'
    found = TOKEN.search(http.request("/v1/projects/bench/messages:send", body))
    assert found is not None
    assert found[1] == b"abc"
