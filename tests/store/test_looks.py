"""Leases on doubts whose provider is to be asked."""

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.model.looking import Finding, Presence
from ringonce.model.notification import Status
from ringonce.model.policy import MINUTE, InDoubt
from ringonce.model.transition import LookedUp
from ringonce.ports import Change, LanePause, Life
from tests.store.kit import LEASE, SECOND, SILENCE, World

ABSENT = Finding(Presence.ABSENT)


async def doubt(world: World, event_id: str = "e-1", channel: str = "email") -> UUID:
    """A call without a verdict whose provider is to be asked."""
    world.policy = replace(world.policy, in_doubt=InDoubt.LOOKUP)
    id_ = await world.one(event_id, channel)
    await world.send(SILENCE, lane=channel)
    return id_


async def claim(world: World, owner: str = "w-1", *channels: str, limit: int = 10) -> list[Life]:
    """Claim what is due now."""
    at, lives = await world.store.claim_lookups(owner, channels or ("email",), limit, LEASE, now=world.now)
    assert at == (world.now if lives else 0)
    return lives


def told(life: Life, finding: Finding, at: int, owner: str = "w-1") -> Change:
    """What a look found."""
    guard = (owner, life.row.lease.fence if life.row.lease else 0)
    return Change(life.row.id, LookedUp(1, finding, at), guard)


async def test_due_after_its_time(world: World) -> None:
    """A doubt is claimed when its look is due, with its attempt and without waiting for any lane."""
    id_ = await doubt(world)
    assert await claim(world) == []
    world.now += MINUTE
    (life,) = await claim(world)
    assert (life.row.id, life.row.state.status) == (id_, Status.IN_DOUBT)
    assert [attempt.outcome for attempt in life.attempts] == ["unknown"]
    assert (await world.claim()).rows == ()


async def test_two_workers_never_look_at_once(world: World) -> None:
    """What one has claimed no other gets, until its lease is over and the row is rescued."""
    await doubt(world)
    world.now += MINUTE
    (first,) = await claim(world, "w-1")
    assert await claim(world, "w-2") == []
    world.now += LEASE
    assert await world.rescue() == []
    (second,) = await claim(world, "w-2")
    assert second.row.lease is not None
    assert first.row.lease is not None
    assert second.row.lease.fence > first.row.lease.fence


async def test_only_of_its_channels_and_no_more_than_asked(world: World) -> None:
    """Channels that are not named are left alone, and the oldest come first."""
    ids = [await doubt(world, f"e-{n}") for n in range(3)]
    await doubt(world, "other", "push")
    world.now += MINUTE
    assert {life.row.id for life in await claim(world, "w-1", "email", limit=2)} <= set(ids)
    assert [life.row.channel for life in await claim(world, "w-1", "push")] == ["push"]


async def test_absent_looks_again_later(world: World) -> None:
    """A look that decides nothing gives the lease up, and the row waits for the next one; the note stays."""
    id_ = await doubt(world)
    world.now += MINUTE
    (life,) = await claim(world)
    await world.settle(told(life, ABSENT, world.now))
    after = await world.life(id_)
    assert after.row.lease is None
    assert after.due is not None
    assert (after.due.purpose, after.due.at) == ("lookup", world.now + 155 * SECOND)
    assert [note.detail["told"] for note in after.notes] == ["absent"]
    assert after.row.state == life.row.state


async def test_a_release_keeps_the_purpose(world: World) -> None:
    """A look that could not be made is given back, and stays one."""
    await doubt(world)
    world.now += MINUTE
    (life,) = await claim(world)
    assert life.row.lease is not None
    await world.store.release(
        "w-1", [(life.row.id, life.row.lease.fence)], due_at=world.now + 5, now=world.now
    )
    assert await claim(world) == []
    world.now += 5
    assert len(await claim(world)) == 1


async def test_cancelled_while_it_is_looked_for(world: World) -> None:
    """A withdrawn subject ends a doubt that is being looked at; the look then finds nothing to change."""
    world.policy = replace(world.policy, in_doubt=InDoubt.LOOKUP)
    id_ = await world.one(subject="order:1")
    await world.send(SILENCE)
    world.now += MINUTE
    (life,) = await claim(world)
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    state = (await world.life(id_)).row.state
    assert (state.status, state.maybe_sent) == (Status.CANCELLED, True)
    assert life.row.state.status is Status.IN_DOUBT


@pytest.mark.parametrize(
    ("reason", "movable", "paused"), [(None, 1, 0), ("rate_limited", 1, 0), ("auth", 0, 1)]
)
async def test_backlog(world: World, reason: str | None, movable: int, paused: int) -> None:
    """The worker moves looks on by itself; a refused credential keeps them until a person has looked."""
    await doubt(world)
    if reason is not None:
        await world.store.pause([LanePause("email", reason, world.now + MINUTE)], now=world.now)
    (item,) = await world.store.backlog(now=world.now)
    assert (item.movable, item.looking, item.held, item.paused) == (movable, 1, 0, paused)
    assert item.future == item.retrying == 0
