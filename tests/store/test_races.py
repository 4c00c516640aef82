"""Two connections at once on PostgreSQL: each rule holds whoever comes first."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.model.transition import Cancel
from ringonce.ports import Change
from ringonce.store import open_store
from tests.servers.postgres import Database
from tests.store.kit import KINDS, LEASE, SECOND, UNREACHABLE, World, decode

MANY = 60


@pytest.fixture(params=["asyncpg", "psycopg"])
async def two(request: pytest.FixtureRequest, pg_empty: Database) -> AsyncIterator[tuple[World, World]]:
    """Two stores on one database, as two processes have them."""
    url = pg_empty.url(request.param)
    stores = [open_store(url, decode=decode, outbox_kinds=KINDS, pool_size=8) for _ in "ab"]
    for store in stores:
        await store.open()
    first, second = (World(store) for store in stores)
    second.ids = first.ids
    yield first, second
    for store in stores:
        await store.close()


async def fill(world: World, count: int = MANY) -> None:
    """Due notifications, one per recipient."""
    people = tuple(Recipient(f"u-{i}", addresses={"email": (f"u{i}@example.com",)}) for i in range(count))
    await world.accept(Event("fill", recipients=people))


async def test_claims_never_overlap(two: tuple[World, World]) -> None:
    """Workers that claim at the same moment share the rows without a wait and without a double."""
    one, other = two
    await fill(one)
    batches = await asyncio.gather(*(w.claim(10, f"w-{i}") for i in range(4) for w in (one, other)))
    ids = [c.row.id for batch in batches for c in batch.rows]
    assert len(ids) == len(set(ids))
    rest = await one.claim(MANY, "w-rest")
    assert len(ids) + len(rest.rows) == MANY


async def test_the_same_event_at_once(two: tuple[World, World]) -> None:
    """Of two programs that accept one event at the same moment, one stores it, the other answers with it."""
    one, other = two
    people = (Recipient("u", addresses={"email": ("a@example.com",)}),)
    events = [Event(f"e-{i}", recipients=people) for i in range(20)]
    left, right = await asyncio.gather(one.accept(*events), other.accept(*reversed(events)))
    for mine, theirs in zip(left, reversed(right), strict=True):
        assert mine.duplicate != theirs.duplicate
        assert [b.id for b in mine.notifications] == [b.id for b in theirs.notifications]
    assert (await one.store.report())[0]["accepted"] == 20


async def test_expansion_is_shared(two: tuple[World, World]) -> None:
    """Workers that expand the same large event never tell anybody twice, and together they finish."""
    one, other = two
    people = tuple(Recipient(f"u-{i}", addresses={"email": (f"u{i}@example.com",)}) for i in range(300))
    await one.accept(Event("big", recipients=people))

    async def work(world: World) -> None:
        while any(b.channel == "" for b in await world.store.backlog()):
            await world.store.expand(world.plan, world.decide, limit=40, now=world.now)

    await asyncio.gather(work(one), work(other), work(one))
    assert (await one.store.report())[0]["accepted"] == 300


async def test_cancel_meets_mark(two: tuple[World, World]) -> None:
    """Cancel and mark at the same moment: each row is either begun or cancelled, never both, never neither."""
    one, other = two
    await fill(one)
    claimed = (await one.claim(MANY)).rows
    changes = [Change(c.row.id, Cancel("ann")) for c in claimed]
    halves = [one.mark(*claimed[i : i + 10]) for i in range(0, MANY, 10)]
    marked, *rest = await asyncio.gather(
        halves[0],
        *(other.store.settle(changes[i : i + 7], other.decide, now=one.now) for i in range(0, MANY, 7)),
        *halves[1:],
    )
    begun = set(marked.begun).union(*(set(m.begun) for m in rest if not isinstance(m, list)))
    cancelled = {s.row.id for group in rest if isinstance(group, list) for s in group if not s.write.refused}
    assert begun | cancelled == {c.row.id for c in claimed}
    assert not begun & cancelled


async def test_withdrawal_meets_mark(two: tuple[World, World]) -> None:
    """A subject's cancel that runs into marks ends every row one way: begun, or cancelled."""
    one, other = two
    people = tuple(Recipient(f"u-{i}", addresses={"email": (f"u{i}@example.com",)}) for i in range(MANY))
    await one.accept(Event("e", recipients=people, subject="order:1"))
    claimed = (await one.claim(MANY)).rows
    marks = [one.mark(*claimed[i : i + 5]) for i in range(0, MANY, 5)]
    settled, *marked = await asyncio.gather(
        other.store.cancel_subject("", "order:1", other.decide, now=one.now), *marks
    )
    begun = set().union(*(set(m.begun) for m in marked))
    cancelled = {s.row.id for s in settled if not s.write.refused}
    assert begun | cancelled == {c.row.id for c in claimed}
    assert not begun & cancelled


async def test_settle_meets_rescue(two: tuple[World, World]) -> None:
    """An answer and a rescue at the same moment: every row keeps exactly one verdict on its attempt."""
    one, other = two
    await fill(one)
    claimed = (await one.claim(MANY)).rows
    await one.mark(*claimed)
    one.now = other.now = one.now + LEASE
    answers = [one.answer(c) for c in claimed]
    settled, *rescued = await asyncio.gather(
        one.settle(*answers),
        *(other.store.rescue(other.decide, limit=20, now=other.now) for _ in range(4)),
    )
    assert all(s.write is not None for s in settled)
    lost = {s.row.id for group in rescued for s in group}
    held = {s.row.id for s in settled if s.lease_held}
    assert not lost & held
    report = (await one.store.report())[0]
    assert (report["accepted"], report["sent"]) == (MANY, MANY)
    assert report["late_answers"] == len(lost)


async def test_rescuers_share_the_work(two: tuple[World, World]) -> None:
    """Rescuers that meet leave each other's rows alone: each doubt is told once."""
    one, other = two
    await fill(one)
    await one.mark(*(await one.claim(MANY)).rows)
    one.now = other.now = one.now + LEASE
    groups = await asyncio.gather(*(w.rescue() for _ in range(3) for w in two))
    ids = [s.row.id for group in groups for s in group]
    assert len(ids) == len(set(ids))
    rest = await one.rescue()
    assert len(ids) + len(rest) == MANY


async def test_settles_in_any_order_do_not_deadlock(two: tuple[World, World]) -> None:
    """Batches that share rows in opposite orders are all applied."""
    one, other = two
    await fill(one)
    claimed = (await one.claim(MANY)).rows
    await one.mark(*claimed)
    answers = [one.answer(c, UNREACHABLE) for c in claimed]
    forward, backward = await asyncio.gather(one.settle(*answers), other.settle(*reversed(answers)))
    assert all(a.lease_held for a in (*forward, *backward))
    assert (await one.store.report())[0]["pending"] == MANY
    states = {(await one.life(c.row.id)).row.state.attempts for c in claimed[:5]}
    assert states == {1}


async def test_one_holder_of_a_lease(two: tuple[World, World]) -> None:
    """Of many that want a lease at once exactly one gets it."""
    worlds = [*two] * 5
    terms = await asyncio.gather(
        *(w.store.take_lease("x", f"h-{i}", SECOND, now=w.now) for i, w in enumerate(worlds))
    )
    assert [t for t in terms if t is not None] == [1]


async def test_addresses_move_in_any_order(two: tuple[World, World]) -> None:
    """Events that take the same addresses in opposite orders wait for each other, not in a circle."""
    one, other = two
    values = [f"a{i}@example.com" for i in range(20)]

    def event(name: str, order: list[str]) -> Event:
        people = tuple(Recipient(f"{name}-{v}", addresses={"email": (v,)}) for v in order)
        return Event(name, recipients=people)

    await asyncio.gather(one.accept(event("a", values)), other.accept(event("b", values[::-1])))
    assert (await one.store.report())[0]["accepted"] == 40


async def test_the_outbox_is_read_without_gaps(two: tuple[World, World]) -> None:
    """A reader that follows the numbers misses nothing that commits later with a lower number."""
    one, other = two
    await fill(one)
    claimed = (await one.claim(MANY)).rows
    await one.mark(*claimed)
    seen: list[str] = []

    async def read() -> None:
        after = 0
        while len(seen) < MANY:
            for number, row in await other.store.outbox(after=after, limit=7):
                after = number
                seen.append(row.event_id)

    parts = [claimed[i : i + 6] for i in range(0, MANY, 6)]
    await asyncio.wait_for(
        asyncio.gather(read(), *(one.settle(*(one.answer(c) for c in part)) for part in parts)), 60
    )
    assert len(set(seen)) == MANY


async def test_a_store_without_a_given_time_uses_the_servers(two: tuple[World, World]) -> None:
    """Workers with skewed clocks do not matter: due, lease and attempt times are the server's."""
    one, _ = two
    await one.store.accept([], one.plan, one.decide)
    from tests.store.kit import new_event

    person = Recipient("u", addresses={"email": ("a@example.com",)})
    await one.store.accept([new_event(Event("e", recipients=(person,)))], one.plan, one.decide)
    batch = await one.store.claim("email", "w-1", 1, LEASE)
    (claimed,) = batch.rows
    marked = await one.store.mark(
        "w-1", [(claimed.row.id, claimed.row.lease.fence, claimed.row.state.version)]
    )
    assert batch.now <= marked.now
    assert claimed.row.lease.until >= batch.now
    assert await one.store.extend("w-1", LEASE) == {claimed.row.id}
    assert await one.store.rescue(one.decide) == []
    (settled,) = await one.store.settle([one.answer(claimed)], one.decide)
    assert settled.write.state.status is Status.SENT
    server = await one.store.backend.run(
        lambda c: c.execute(sa.text("SELECT (extract(epoch FROM now()) * 1000000)::bigint")).scalar()
    )
    assert abs(server - marked.now) < 60 * SECOND
