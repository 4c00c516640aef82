"""What outlasts notifications: dropped addresses, those that were only named, withdrawn subjects."""

import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa

from ringonce.model.event import Event
from ringonce.model.policy import DAY
from ringonce.model.retention import Retention
from ringonce.ports import Invalidation
from ringonce.store import schema
from tests.store.kit import ACCEPTED, SECOND, World
from tests.store.test_pruning import prune

KEEP = Retention(sent=DAY, journal=None, outbox=None)
DIRECT = Event("direct", to={"email": "named@example.com"})


async def values(world: World) -> set[str]:
    """The addresses that the table holds."""

    def read(connection: sa.Connection) -> set[str]:
        return set(connection.execute(sa.select(schema.addresses.c.value)).scalars())

    return await world.store.backend.run(read)


async def test_a_dropped_address_is_erased_after_its_time(world: World) -> None:
    """A06: reason and date of a dropped address stay for ninety days, then the row goes; who lives, stays."""
    address = await world.store.register("", "ada", "email", "gone@example.com", now=world.now)
    await world.store.register("", "ada", "email", "alive@example.com", now=world.now)
    await world.store.invalidate([Invalidation(address.id, address.value, "dead")], now=world.now)
    world.now += 90 * DAY - 1
    assert "addresses" not in await prune(world, KEEP)
    world.now += 1
    assert (await prune(world, KEEP))["addresses"] == 1
    assert await values(world) == {"alive@example.com"}


async def test_an_address_that_was_only_named_goes_with_its_last_notification(world: World) -> None:
    """Named by ``to`` and never registered, it stays while a notification names it, and not longer than its time."""
    await world.accept(DIRECT)
    world.now += 100 * DAY
    assert "addresses" not in await prune(world, KEEP)
    await world.send(ACCEPTED)
    world.now += DAY
    counts = await prune(world, KEEP)
    assert (counts["notifications"], counts["addresses"]) == (1, 1)
    assert await values(world) == set()


async def test_named_again_it_is_made_again(world: World) -> None:
    """After its row was removed the same address can be named as if for the first time."""
    await world.accept(DIRECT)
    await world.send(ACCEPTED)
    world.now += 100 * DAY
    await prune(world, KEEP)
    assert await values(world) == set()
    await world.accept(replace(DIRECT, event_id="again"))
    assert (await world.send(ACCEPTED)).write.state.final


async def test_quarantined_ones_stay(world: World) -> None:
    """What waits for a person's decision is kept however old it is."""
    address = await world.store.register("", "ada", "email", "doubted@example.com", now=world.now)
    told = Invalidation(address.id, address.value, "dead", by="email", doubted=True)
    await world.store.invalidate([told], now=world.now)
    world.now += 500 * DAY
    assert "addresses" not in await prune(world, KEEP)
    assert len(await world.store.quarantined()) == 1


async def test_a_withdrawn_subject_is_remembered_for_a_year(world: World) -> None:
    """So long nothing of it is sent, whenever it is accepted; then the tombstone goes."""
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    world.now += 365 * DAY - 1
    assert "cancellations" not in await prune(world, KEEP)
    world.now += 1
    assert (await prune(world, KEEP))["cancellations"] == 1


async def test_none_keeps_for_good(world: World) -> None:
    """With `none` neither goes."""
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    await world.accept(DIRECT)
    await world.send(ACCEPTED)
    world.now += 1000 * DAY
    counts = await prune(world, replace(KEEP, addresses=None, cancellations=None))
    assert counts.keys() & {"addresses", "cancellations"} == set()


async def test_a_walk_in_small_pages(world: World) -> None:
    """However small the pages are, a walk comes by each address and each tombstone."""
    for number in range(7):
        await world.accept(Event(f"e-{number}", to={"email": f"{number}@example.com"}))
        await world.send(ACCEPTED)
        await world.store.cancel_subject("", f"order:{number}", world.decide, now=world.now)
    world.now += 400 * DAY
    counts = await prune(world, KEEP, limit=2)
    assert (counts["addresses"], counts["cancellations"]) == (7, 7)


@pytest.mark.parametrize("turn", range(3))
async def test_what_is_named_at_the_same_moment_stays(world: World, turn: int) -> None:
    """An address that is named while its row is removed ends up there, with its notification pointing to it."""
    await world.accept(DIRECT)
    await world.send(ACCEPTED)
    world.now += 100 * DAY + turn * SECOND
    again = replace(DIRECT, event_id="again")
    await asyncio.gather(prune(world, KEEP), world.accept(again))
    (claimed,) = (await world.claim()).rows
    assert (claimed.row.address.value, claimed.address_changed) == ("named@example.com", False)
