"""Addresses, duties, search, report, backlog."""

import pytest

from ringonce.errors import StoreError
from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.ports import Invalidation, LanePause, Query
from tests.store.kit import NOBODY, SECOND, SILENCE, UNREACHABLE, World


async def test_one_owner_per_address(world: World) -> None:
    """Registering a value for somebody else moves it; a dead one lives again under the same id."""
    first = await world.store.register("", "a", "email", "x@example.com", now=world.now)
    await world.store.invalidate([Invalidation(first.id, first.value, "bounced")], now=world.now)
    second = await world.store.register("", "b", "email", "x@example.com", now=world.now + 1)
    assert (second.id, second.recipient, second.invalidated_at) == (first.id, "b", None)
    assert second.registered_at == world.now + 1
    assert await world.store.addresses("", "a", all_=True) == []
    other = await world.store.register("acme", "a", "email", "x@example.com", now=world.now)
    assert other.id != first.id


@pytest.mark.parametrize("what", ["value", "tenant", "newer"])
async def test_invalidation_is_guarded(world: World, what: str) -> None:
    """An address is dropped only under its value, in its tenant, if it is older than the proof."""
    address = await world.store.register("", "a", "email", "x@example.com", now=world.now)
    value = "y@example.com" if what == "value" else address.value
    proof = address.registered_at if what == "newer" else None
    tenant = "acme" if what == "tenant" else None
    item = Invalidation(address.id, value, "bounced", proof)
    assert await world.store.invalidate([item], tenant=tenant, now=world.now) == 0
    assert len(await world.store.addresses("", "a", "email")) == 1


async def test_addresses_of_a_channel(world: World) -> None:
    """A channel narrows the list."""
    await world.store.register("", "a", "email", "x@example.com", now=world.now)
    await world.store.register("", "a", "push", "t", now=world.now)
    assert [a.value for a in await world.store.addresses("", "a", "push")] == ["t"]
    assert len(await world.store.addresses("", "a")) == 2


async def test_lease_terms(world: World) -> None:
    """A term grows with each takeover and with nothing else; a live lease is not taken."""
    take = world.store.take_lease
    assert await take("x", "a", 10, now=100) == 1
    assert await take("x", "b", 10, now=109) is None
    assert await take("x", "a", 10, now=109) == 1
    assert await take("x", "b", 10, now=119) == 2
    await world.store.drop_lease("x", "a")
    assert await take("x", "a", 10, now=120) is None
    await world.store.drop_lease("x", "b")
    assert await take("x", "a", 10, now=121) == 3


async def test_overrides(world: World) -> None:
    """Changes are merged; None takes one back."""
    await world.store.override("email", {"enabled": False, "max_attempts": 3}, now=world.now)
    await world.store.override("email", {"enabled": None}, now=world.now)
    await world.store.override("push", {"enabled": None}, now=world.now)
    assert await world.store.overrides() == {"email": {"max_attempts": 3}}


async def test_search(world: World) -> None:
    """Filters combine; the newest come first; ``after`` continues a page."""
    ids = []
    for number in range(3):
        ids.append(await world.one(f"e-{number}", type="order", subject=f"order:{number}"))
        world.now += 1
    await world.one("e-9", channel="push", tenant="acme")
    search = world.store.search
    assert [r.id for r in await search(Query(tenant=""))] == ids[::-1]
    page = await search(Query(tenant="", limit=2))
    assert [r.id for r in await search(Query(tenant="", limit=2, after=page[-1].id))] == ids[:1]
    assert [r.event_id for r in await search(Query(channel="push"))] == ["e-9"]
    assert [r.id for r in await search(Query(subject="order:1", event_type="order"))] == [ids[1]]
    assert [r.id for r in await search(Query(recipient="r-e-2"))] == [ids[2]]
    assert [r.id for r in await search(Query(event_id="e-0", since=world.now - 3))] == [ids[0]]
    assert await search(Query(since=world.now + 1)) == []


async def test_search_of_failures(world: World) -> None:
    """Terminal failures are those that nothing will move any more; a code narrows them."""
    terminal = await world.one("e-1")
    await world.send(NOBODY)
    retried = await world.one("e-2")
    await world.send(UNREACHABLE)
    search = world.store.search
    assert [r.id for r in await search(Query(terminal_failures=True))] == [terminal]
    assert [r.id for r in await search(Query(code="NTF_PROVIDER_TRANSIENT"))] == [retried]
    assert {r.id for r in await search(Query(status=("failed", "sent")))} == {terminal, retried}


async def test_get_knows_its_tenant(world: World) -> None:
    """Another tenant's notification does not exist."""
    id_ = await world.one(tenant="acme")
    assert await world.store.get(id_, tenant="other") is None
    assert (await world.store.get(id_, tenant="acme")).row.id == id_


async def test_report(world: World) -> None:
    """Totals per group add up; days, tenants and channels are the groups; times narrow them."""
    await world.one("e-1")
    await world.send()
    await world.one("e-2", tenant="acme")
    await world.send(UNREACHABLE)
    await world.one("e-3", channel="push")
    await world.send(NOBODY, lane="push")
    await world.accept(Event("e-3", recipients=(), channels=("push",)))
    report = world.store.report
    (total,) = await report()
    assert (total["accepted"], total["sent"], total["pending"]) == (3, 1, 1)
    assert total["failed"] == {"NTF_PROVIDER_INVALID_RECIPIENT": 1}
    assert [(r["channel"], r["accepted"]) for r in await report(by=("channel",))] == [
        ("email", 2),
        ("push", 1),
    ]
    assert [r["tenant"] for r in await report(by=("tenant",))] == ["", "acme"]
    (day,) = await report(by=("day",))
    assert day["day"] == "2027-01-15"
    assert (await report(tenant="acme"))[0]["accepted"] == 1
    assert (await report(since=world.now + 1))[0]["accepted"] == 0
    assert (await report(until=world.now))[0]["accepted"] == 0
    with pytest.raises(StoreError):
        await report(by=("colour",))


async def test_report_of_doubt(world: World) -> None:
    """A doubt under ``hold`` is counted as one, and its subject's cancel makes it cancelled."""
    from dataclasses import replace

    from ringonce.model.policy import InDoubt

    world.policy = replace(world.policy, in_doubt=InDoubt.HOLD)
    await world.one(subject="s")
    await world.send(SILENCE)
    assert (await world.store.report())[0]["in_doubt"] == 1
    await world.store.cancel_subject("", "s", world.decide, now=world.now)
    assert (await world.store.report())[0]["cancelled"] == 1


async def test_backlog(world: World) -> None:
    """What a worker could move on, and what waits for time, a person, or a lane."""
    await world.one("e-1")
    await world.one("e-2", send_at=world.now + 60 * SECOND)
    await world.one("e-3")
    await world.begin()
    (email,) = await world.store.backlog(now=world.now)
    assert (email.movable, email.future, email.leased, email.held) == (2, 1, 1, 0)
    assert email.oldest_due == world.now
    await world.store.pause([LanePause("email", "rate_limited", world.now + SECOND)], now=world.now)
    (email,) = await world.store.backlog(now=world.now)
    assert (email.paused, email.movable) == (2, 2)
    assert email.next_due == world.now + SECOND
    await world.store.pause([LanePause("email", "circuit")], now=world.now)
    (email,) = await world.store.backlog(now=world.now)
    assert (email.paused, email.movable, email.next_due) == (2, 1, email.next_due)


async def test_backlog_of_retries(world: World) -> None:
    """A retry moves by itself later, whether it is released already or not."""
    await world.one()
    await world.send(UNREACHABLE)
    (email,) = await world.store.backlog(now=world.now)
    assert (email.movable, email.retrying, email.future) == (1, 1, 0)
    assert email.next_due == world.now + 10 * SECOND


async def test_backlog_is_empty_at_the_end(world: World) -> None:
    """Finished notifications are in nobody's backlog."""
    await world.one()
    await world.send()
    assert await world.store.backlog(now=world.now) == []
    assert (await world.store.search(Query()))[0].state.status is Status.SENT


async def test_the_stores_clock(world: World) -> None:
    """Without a given time the store uses its own, which does not go backwards."""
    first = await world.store.now()
    assert first <= await world.store.now()
    recipient = Recipient("u", addresses={"email": ("a@example.com",)})
    from tests.store.kit import new_event

    await world.store.accept([new_event(Event("e", recipients=(recipient,)))], world.plan, world.decide)
    batch = await world.store.claim("email", "w", 5, SECOND)
    assert batch.now >= first
    assert len(batch.rows) == 1
