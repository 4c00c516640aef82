"""Moving what waits for a provider that is stopped to another one of its channel."""

from dataclasses import replace

from ringonce.model.policy import MINUTE, InDoubt
from ringonce.ports import LanePause
from tests.store.kit import SECOND, SILENCE, UNREACHABLE, World

OTHER = "email~other"


async def move(world: World, limit: int = 10) -> int:
    """From the first to the other."""
    return await world.store.move("email", OTHER, limit=limit, now=world.now)


async def test_what_is_due_moves(world: World) -> None:
    """Due rows change their lane, the oldest first and no more than asked; nobody claims them from the old one."""
    ids = []
    for n in range(3):
        ids.append(await world.one(f"e-{n}"))
        world.now += SECOND
    assert await move(world, limit=2) == 2
    moved = (await world.claim(lane=OTHER)).rows
    assert [claimed.row.id for claimed in moved] == ids[:2]
    assert [claimed.row.id for claimed in (await world.claim()).rows] == ids[2:]


async def test_what_is_held_or_not_due_stays(world: World) -> None:
    """A row under a lease, and one that is due later, are not moved."""
    await world.one("held")
    await world.claim()
    await world.one("later", send_at=world.now + MINUTE)
    assert await move(world) == 0


async def test_what_failed_with_a_verdict_moves(world: World) -> None:
    """A retry that is due moves, armed or not."""
    await world.one()
    await world.send(UNREACHABLE)
    assert await move(world) == 0
    world.now += MINUTE
    assert await move(world) == 1


async def test_a_doubt_stays(world: World) -> None:
    """A call without a verdict keeps its notification with the provider that was asked, however long it waits."""
    world.policy = replace(world.policy, in_doubt=InDoubt.RESEND)
    await world.one()
    await world.send(SILENCE)
    world.now += MINUTE
    assert await move(world) == 0


async def test_the_backlog_knows_who_is_stopped(world: World) -> None:
    """A pause of the first provider stops what lies with it, and not what lies with the other."""
    await world.one("first")
    await move(world)
    await world.one("second")
    await world.store.pause([LanePause("email", "auth")], now=world.now)
    (item,) = await world.store.backlog(now=world.now)
    assert (item.movable, item.paused) == (1, 1)
    await world.store.pause([LanePause(OTHER, "auth")], now=world.now)
    (item,) = await world.store.backlog(now=world.now)
    assert (item.movable, item.paused) == (0, 2)
