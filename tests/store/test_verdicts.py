"""Ends written by what the worker knows: the same as by the long way, and only while its knowledge stands."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.model.notification import Status
from ringonce.store.schema import attempts, dispatch, notifications, outbox
from tests.store.kit import LEASE, SECOND, World

SAME = {
    notifications: (
        *(
            "status",
            "version",
            "revision",
            "attempts",
            "unknown",
            "next_attempt_at",
            "message_id",
            "rests_on",
        ),
        *("last_attempt", "changed_at", "address_generation", "spent_base", "error_code"),
    ),
    attempts: tuple(c.name for c in attempts.c if c.name not in {"notification_id", "fence"}),
    outbox: ("kind", "created_at", "published_at"),
}


async def left_of(world: World, id_: UUID) -> list[list[tuple[Any, ...]]]:
    """What a settle has written of one notification, but for what differs from one to the other."""
    keys = {notifications: notifications.c.id, attempts: attempts.c.notification_id, outbox: outbox.c.key}

    def read(c: sa.Connection) -> list[list[tuple[Any, ...]]]:
        found = [
            [
                tuple(row)
                for row in c.execute(
                    sa.select(*(table.c[name] for name in names)).where(
                        keys[table] == (str(id_) if table is outbox else id_)
                    )
                )
            ]
            for table, names in SAME.items()
        ]
        return [*found, list(c.execute(sa.select(dispatch.c.id).where(dispatch.c.id == id_)))]

    return await world.store.backend.run(read)


@pytest.mark.parametrize("begin", [True, False], ids=["begun by the claim", "marked"])
async def test_the_short_way_writes_what_the_long_way_writes(world: World, begin: bool) -> None:
    """An accepted answer leaves the same rows behind, whether the facts were read again or not."""
    left = []
    for known in (True, False):
        world.known = known
        id_ = await world.one(f"e-{known}")
        (claimed,) = (await world.store.claim("email", "w-1", 1, LEASE, begin=begin, now=world.now)).rows
        if not begin:
            await world.mark(claimed)
        answer = world.answer(claimed, answer="ok", message_id="m-1", reference="r")
        assert bool(world.store._changes._verdicts.ends([answer], world.decide)) is known
        (settled,) = await world.settle(answer)
        assert settled.write.state.status is Status.SENT
        left.append(await left_of(world, id_))
    assert left[0] == left[1]
    assert [len(rows) for rows in left[0]] == [1, 1, 1, 0]


async def expire_and_retake(world: World, claimed: Any) -> None:
    """Another worker takes the lease over."""
    world.now += LEASE + SECOND
    await world.rescue()


async def another_fence(world: World, claimed: Any) -> None:
    """The same owner holds it under another lease."""
    await world.store.backend.run(lambda c: c.execute(sa.update(dispatch).values(fence=dispatch.c.fence + 1)))


async def another_owner(world: World, claimed: Any) -> None:
    """Another owner holds it."""
    await world.store.backend.run(lambda c: c.execute(sa.update(dispatch).values(owner="w-2")))


async def another_version(world: World, claimed: Any) -> None:
    """Facts changed."""
    await world.store.backend.run(
        lambda c: c.execute(sa.update(notifications).values(version=notifications.c.version + 1))
    )


async def erased(world: World, claimed: Any) -> None:
    """The person was erased."""
    await world.store.erase("", claimed.row.recipient, world.decide, now=world.now)


@pytest.mark.parametrize("change", [expire_and_retake, another_fence, another_owner, another_version, erased])
async def test_what_changed_meanwhile_goes_the_long_way(
    world: World, change: Callable[[World, Any], Awaitable[None]]
) -> None:
    """Knowledge that does not hold any more writes nothing by itself, and harms no neighbour."""
    await world.one("e-1")
    await world.one("e-2")
    claimed = (await world.store.claim("email", "w-1", 2, LEASE, begin=True, now=world.now)).rows
    await change(world, claimed[0])
    changes = [world.answer(one, answer="words") for one in claimed]
    ended = world.store._changes._verdicts.ends(changes, world.decide)
    done = await world.store.backend.run(lambda c: world.store._changes._verdicts.write(c, ended, world.now))
    assert claimed[0].row.id not in done
    assert (claimed[1].row.id in done) == (change is erased)
    settled = await world.settle(*changes)
    assert [one.row is not None for one in settled] == [True, True]


async def test_a_claim_whose_reply_was_lost_is_given_up(world: World) -> None:
    """What an owner holds of a lane without knowing it, begun or not, is due again; the rest stays."""
    for number in range(3):
        await world.one(f"e-{number}")
    (known,) = (await world.store.claim("email", "w-1", 1, LEASE, now=world.now)).rows
    (begun,) = (await world.store.claim("email", "w-1", 1, LEASE, begin=True, now=world.now)).rows
    (other,) = (await world.store.claim("email", "w-2", 1, LEASE, now=world.now)).rows
    assert await world.store.give_up("w-1", "email", [known.row.id], now=world.now) == 1
    (again,) = (await world.store.claim("email", "w-3", 9, LEASE, now=world.now)).rows
    assert again.row.id == begun.row.id
    assert again.row.lease.attempt == 1
    assert dict((await world.mark(known)).begun) == {known.row.id: 1}
    assert dict((await world.mark(other, owner="w-2")).begun) == {other.row.id: 1}


async def test_a_bad_value_takes_the_long_way(world: World) -> None:
    """What the database refuses in the short way is found by the long one, and its neighbours are stored."""
    await world.one("e-1")
    await world.one("e-2")
    claimed = (await world.store.claim("email", "w-1", 2, LEASE, begin=True, now=world.now)).rows
    bad = world.answer(claimed[0])
    bad = replace(bad, attempt=replace(bad.attempt, started_at=2**70))
    settled = await world.settle(bad, world.answer(claimed[1]))
    assert settled[1].write.state.status is Status.SENT
    assert (await world.life(claimed[1].row.id)).row.state.status is Status.SENT
