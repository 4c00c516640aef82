"""Statements on SQLite's own cursor: the rows that SQLAlchemy gives, planned once, and no failure is another's."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.store import SqlStore, cursors, open_store
from ringonce.store.schema import dispatch, lanes
from tests.store.kit import LEASE, World, decode

NASTY = ("", "NULL", 'say "x"', "back\\slash", "'quoted'", "why?", "\u202eright", "\U0001f514", "a\nb", " ")


@pytest.fixture
async def lite() -> AsyncIterator[SqlStore]:
    """A store in memory."""
    store = open_store("sqlite://", decode=decode)
    await store.open()
    yield store
    await store.close()


def desk(number: int, **values: Any) -> dict[str, Any]:
    """A row of ``dispatch``."""
    return {
        "id": UUID(int=number),
        "lane": "email",
        "priority": 1,
        "due_at": None,
        "purpose": "send",
        "armed": True,
        "leased": False,
        "fence": 2**62 + number,
        "attempt": 0,
        "version": 0,
        "rescued": 0,
        "created_at": number,
        **values,
    }


async def test_rows_are_those_that_sqlalchemy_gives(lite: SqlStore) -> None:
    """Keys, numbers, texts, truth values, digests and nulls have the same values and types on both ways."""

    def work(c: sa.Connection) -> None:
        for number, text in enumerate(NASTY, 1):
            key = bytes([number]) * 16 if number % 2 else None
            row = desk(number, lane=text, armed=number % 3 > 0, subject_key=key, owner=text or None)
            c.execute(dispatch.insert().values(row))
        for wanted in (sa.true(), sa.false()):
            plain = sa.select(dispatch).where(wanted)
            expected = sorted(tuple(row) for row in c.execute(plain))
            found = sorted(tuple(row) for row in cursors.fetch(c, plain, {}))
            assert found == expected
            assert [[type(value) for value in row] for row in found] == [
                [type(value) for value in row] for row in expected
            ]
        ordered = sa.select(dispatch.c.id).order_by(dispatch.c.created_at.desc())
        assert cursors.fetch(c, ordered, {}) == [tuple(row) for row in c.execute(ordered)]
        back = sa.delete(dispatch).returning(dispatch.c.id, dispatch.c.subject_key, dispatch.c.armed)
        assert min(cursors.fetch(c, back, {})) == (UUID(int=1), bytes([1]) * 16, True)

    await lite.backend.run(work)


async def test_constants_are_written_into_the_text_as_they_are(lite: SqlStore) -> None:
    """A constant with quotes or question marks is compared as it is given; what is bound is cleaned."""

    def work(c: sa.Connection) -> None:
        for number, text in enumerate(NASTY, 1):
            c.execute(dispatch.insert().values(desk(number, lane=text)))
            constant = sa.update(dispatch).where(dispatch.c.lane == text).values(attempt=number)
            assert cursors.change(c, constant, {}) == 1
        bound = sa.select(dispatch.c.attempt).where(dispatch.c.lane == sa.bindparam("b_lane"))
        for number, text in enumerate(NASTY, 1):
            assert cursors.fetch(c, bound, {"b_lane": text}) == [(number,)]
        c.execute(dispatch.insert().values(desk(99, lane="a\ufffdb")))
        assert len(cursors.fetch(c, bound, {"b_lane": "a\x00b"})) == 1

    await lite.backend.run(work)


async def test_a_claim_and_its_ends_are_planned_once(lite: SqlStore) -> None:
    """SQLite plans none of the hot statements again when it runs them with other parameters."""
    world = World(lite)
    planned: list[Any] = []

    def watch(c: sa.Connection) -> None:
        raw: Any = c.connection.driver_connection
        raw.set_authorizer(lambda *what: planned.append(what) or 0)  # asked while a statement is planned

    async def deliver(limit: int) -> int:
        claimed = (await lite.claim("email", "w-1", limit, LEASE, begin=True, now=world.now)).rows
        await world.settle(*(world.answer(one, message_id="m-1") for one in claimed))
        world.now += 1
        return len(claimed)

    for number in range(6):
        await world.one(f"e-{number}")
    await lite.backend.run(watch)
    assert await deliver(1) == 1
    assert planned
    await lite.backend.run(lambda _: planned.clear())
    assert await deliver(2) == 2
    assert await deliver(3) == 3
    assert planned == []


async def test_who_fails_beside_others_fails_alone(lite: SqlStore) -> None:
    """Calls that share a commit: what one of them wrote before it failed is gone, what the others wrote is there."""
    gate = threading.Event()
    values = {"paused": True, "changed_at": 1}

    def write(name: str, *, good: bool) -> Any:
        def work(c: sa.Connection) -> str:
            c.execute(lanes.insert().values(lane=name, **values))
            if not good:
                c.execute(lanes.insert().values(lane=name, **values))
            return name

        return work

    first = asyncio.ensure_future(lite.backend.run(lambda _: gate.wait(30)))
    calls = [
        asyncio.ensure_future(lite.backend.run(write(name, good=name != "b"))) for name in ("a", "b", "c")
    ]
    await asyncio.sleep(0)  # they wait in the queue now
    gate.set()
    assert await first
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert [told[0], told[2]] == ["a", "c"]
    assert isinstance(told[1], Exception)
    found = await lite.backend.run(lambda c: c.execute(sa.select(lanes.c.lane)).scalars().all(), write=False)
    assert sorted(found) == ["a", "c"]
