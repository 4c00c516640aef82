"""SPEC §9: an address that is dropped is told of, once, in the transaction that drops it."""

import json
from typing import Any

import pytest

from ringonce.core.outbox import INVALIDATED
from ringonce.engine.views import stamp
from ringonce.errors import StoreError
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.receipt import Report, ReportKind
from ringonce.ports import Invalidation
from ringonce.vendors.telegram import TelegramApi
from tests.requirements.conftest import Start, System

TOKEN = "1:x"
DEAD = {"provider": "sandbox", "script": ["invalid_recipient:drop"]}
ALIVE = {"provider": "sandbox", "script": ["ok"]}
Heard = list[str]


async def subscribed(start: Start, **channels: dict[str, Any]) -> tuple[System, Heard]:
    """A system whose outbox keeps such events, and the ids of those that its listener has heard."""
    system = await start(**channels)
    system.config["outbox"] = {"events": [INVALIDATED]}
    await system.reconfigure()
    return system, listening(system)


def listening(system: System) -> Heard:
    """The ids of the events of dropped addresses that a listener hears."""
    heard: Heard = []
    system.ring.subscribe(lambda row: heard.append(row.event_id) if row.kind == INVALIDATED else None)
    return heard


async def told(system: System) -> list[tuple[str, dict[str, Any]]]:
    """(id, data) of the events that are kept."""
    rows = await system.ring.outbox(limit=1000)
    return [(row.event_id, dict(row.payload)["data"]) for _, row in rows]


async def tell(system: System, *recipients: str) -> None:
    """Notify people, and have it done."""
    await system.ring.notify(recipients=list(recipients), content={"text": "hello"})
    await system.work()


async def test_a_verdict_on_a_call_is_told_without_the_address(start: Start) -> None:
    """A dead address is told of by its id, with whose it was, why and when, and never by its value."""
    system, heard = await subscribed(start, box=DEAD)
    address = await system.ring.register("ada", "box", "secret-device")
    await tell(system, "ada")
    ((event_id, data),) = await told(system)
    (shown,) = await system.ring.addresses("ada", invalidated=True)
    assert data.pop("at") == stamp(shown.invalidated_at)
    assert data == {
        "addressId": address.id,
        "contractVersion": 1,
        "tenant": None,
        "channel": "box",
        "recipient": "ada",
        "reason": "NTF_PROVIDER_INVALID_RECIPIENT",
        "moved": False,
    }
    assert heard == [event_id]
    rows = await system.ring.outbox()
    assert "secret-device" not in json.dumps([[row.key, row.event_id, dict(row.payload)] for _, row in rows])


async def test_registered_again_it_is_told_again(start: Start) -> None:
    """Each registration of an address dies once: dropping it twice is told once, a new registration anew."""
    system, heard = await subscribed(start, box=ALIVE)
    for _ in range(2):
        address = await system.ring.register("ada", "box", "a")
        await system.ring.invalidate("ada", "box", "a")
        await system.ring.engine.store.invalidate([Invalidation(address.id, "a", "removed")])
    ids = [event_id for event_id, _ in await told(system)]
    assert ids == heard
    assert len(set(ids)) == len(ids) == 2
    assert ids[1] == f"address-{address.id}.{address.registered_at}"


async def test_it_is_dropped_and_told_or_neither(start: Start) -> None:
    """Where the event can not be written, the address is still in use, and no listener has heard of it."""
    system, heard = await subscribed(start, box=ALIVE)
    await system.ring.register("ada", "box", "a")
    await system.refuse("ringonce_outbox", f"NEW.kind = '{INVALIDATED}'")
    with pytest.raises(StoreError):
        await system.ring.invalidate("ada", "box", "a")
    assert len(await system.ring.addresses("ada")) == 1
    assert heard == []
    await system.allow("ringonce_outbox")


async def test_nobody_subscribed_and_nothing_is_kept(start: Start) -> None:
    """By default the outbox has no such event; the program's listeners hear it all the same."""
    system = await start(box=DEAD)
    heard = listening(system)
    await system.ring.register("ada", "box", "a")
    await tell(system, "ada")
    assert await system.ring.outbox(kind=INVALIDATED) == []
    assert len(heard) == 1


async def test_a_late_report_and_a_block_are_told(start: Start) -> None:
    """A failed receipt that proves the address dead, and a person who blocks us, are told like an answer."""
    system, heard = await subscribed(start, box=ALIVE)
    for person in ("ada", "bob"):
        await system.ring.register(person, "box", f"{person}-1")
    made = await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    await system.work()
    gone = Outcome(OutcomeClass.INVALID_RECIPIENT, Code.INVALID_RECIPIENT, drop_address=True)
    bounce = Report(ReportKind.FAILED, reference=str(made.notifications[0].id), outcome=gone)
    block = Report(ReportKind.BLOCKED, address="bob-1")
    for report in (bounce, block, bounce, block):
        await system.ring.engine.receipts.take("box", [report])
    events = await told(system)
    assert [(data["recipient"], data["reason"]) for _, data in events] == [
        ("ada", "NTF_PROVIDER_INVALID_RECIPIENT"),
        ("bob", "NTF_PROVIDER_BLOCKED"),
    ]
    assert heard == [event_id for event_id, _ in events]


async def test_what_a_person_drops_from_the_quarantine_is_told(start: Start) -> None:
    """What is set apart is not told of; when a person drops it, it is, and what was taken back is not told anew."""
    system, heard = await subscribed(start, box={**DEAD, "concurrency": 25})
    people = [f"user-{number}" for number in range(25)]
    for person in people:
        await system.ring.register(person, "box", person)
    await tell(system, *people)
    assert len(await system.ring.quarantined("box")) == len(people)
    assert len(await told(system)) < 20  # those whose verdicts came before it could be known
    await system.ring.drop_quarantined("box")
    await system.work()
    events = await told(system)
    assert sorted(data["recipient"] for _, data in events) == sorted(people)
    assert set(heard) == {event_id for event_id, _ in events}


async def test_moved_is_told_as_a_fact(start: Start) -> None:
    """An address that the provider replaces is told as moved; the event says neither the old nor the new one."""
    with TelegramApi(TOKEN, migrated={"-1": -100777}) as bot:
        system, _ = await subscribed(
            start, chat={"provider": "telegram", "token": TOKEN, "base_url": bot.url}
        )
        await system.ring.register("ada", "chat", "-1")
        await tell(system, "ada")
        ((_, data),) = await told(system)
        assert (data["recipient"], data["reason"], data["moved"]) == ("ada", "moved", True)
        assert "-100777" not in json.dumps(data)


async def test_an_address_named_by_to_stands_for_nobody(start: Start) -> None:
    """Whoever is named by an address alone is not told as a recipient, for that would be the address."""
    system, heard = await subscribed(start, box=DEAD)
    await system.accept("box", "secret-device")
    await system.work()
    ((_, row),) = await system.ring.outbox()
    assert dict(row.payload)["data"]["recipient"] is None
    assert "secret-device" not in json.dumps([row.key, row.event_id, dict(row.payload)])
    assert heard == [row.event_id]


async def test_an_erased_person_is_in_no_event(start: Start) -> None:
    """Erasing tells of no address, and what was told of the person's is removed; what was told of others stays."""
    system, heard = await subscribed(start, box=ALIVE)
    for person in ("ada", "bob"):
        await system.ring.register(person, "box", f"{person}-1")
        await system.ring.invalidate(person, "box", f"{person}-1")
    await system.ring.register("ada", "box", "ada-2")
    await system.ring.erase("ada")
    assert [data["recipient"] for _, data in await told(system)] == ["bob"]
    assert len(heard) == 2
