"""Accept and expand: once per event and recipient, whatever is repeated."""

from typing import Any

import pytest

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Content, Status
from ringonce.ports import LanePause, OutboxRow, Plan, Query
from tests.store.kit import SECOND, World


def people(count: int) -> tuple[Recipient, ...]:
    """Recipients with an e-mail address each."""
    return tuple(Recipient(f"user-{i}", addresses={"email": (f"u{i}@example.com",)}) for i in range(count))


async def test_accepted_event_becomes_due_notifications(world: World) -> None:
    """Each recipient's address gets a pending notification that can be claimed at once, with its content."""
    event = Event("e-1", "order", recipients=people(2), content=Content("t", "x", data={"a": [1]}))
    (accepted,) = await world.accept(event)
    assert [(b.recipient, b.channel, b.status) for b in accepted.notifications] == [
        ("user-0", "email", Status.PENDING),
        ("user-1", "email", Status.PENDING),
    ]
    batch = await world.claim()
    assert {c.row.id for c in batch.rows} == {b.id for b in accepted.notifications}
    claimed = batch.rows[0]
    assert claimed.content == event.content
    assert claimed.row.event_type == "order"
    assert claimed.row.address is not None
    assert claimed.row.address.value == "u0@example.com"
    assert not claimed.address_changed
    assert batch.now == world.now


async def test_same_event_again_is_answered_again(world: World) -> None:
    """A repeat creates nothing, answers with the first notifications as they stand now, and is counted."""
    event = Event("e-1", recipients=people(1))
    (first,) = await world.accept(event)
    await world.send()
    (again,) = await world.accept(event)
    assert again.duplicate
    assert [b.id for b in again.notifications] == [b.id for b in first.notifications]
    assert again.notifications[0].status is Status.SENT
    assert again.notifications[0].final
    report = (await world.store.report())[0]
    assert (report["accepted"], report["duplicates_refused"]) == (1, 1)


async def test_same_id_with_another_body_is_a_conflict(world: World) -> None:
    """Nothing is stored for an event id that is known with another body."""
    await world.accept(Event("e-1", recipients=people(1)))
    (answer,) = await world.accept(Event("e-1", recipients=people(2)))
    assert answer.conflict
    assert len(await world.store.search(Query())) == 1


async def test_repeats_inside_one_batch(world: World) -> None:
    """In one batch the first of an id counts; equal ones are duplicates, others conflicts."""
    event, other = Event("e-1", recipients=people(1)), Event("e-1", recipients=people(2))
    first, same, differs = await world.accept(event, event, other)
    assert (first.duplicate, same.duplicate, differs.conflict) == (False, True, True)
    assert same.notifications == first.notifications
    assert len(await world.store.search(Query())) == 1


async def test_tenants_do_not_share_event_ids(world: World) -> None:
    """The same event id of two tenants is two events."""
    answers = await world.accept(
        Event("e-1", tenant="a", recipients=people(1)), Event("e-1", tenant="b", recipients=people(1))
    )
    assert not any(a.duplicate or a.conflict for a in answers)
    assert len(await world.store.search(Query(tenant="a"))) == 1


async def test_large_event_is_expanded_chunk_by_chunk(world: World) -> None:
    """Beyond 100 recipients an event waits for ``expand``, which ends with everyone told exactly once."""
    (accepted,) = await world.accept(Event("e-1", recipients=people(101)))
    assert accepted.expanding
    assert accepted.notifications == ()
    assert [b.movable for b in await world.store.backlog(now=world.now) if b.channel == ""] == [1]
    sizes = [await world.store.expand(world.plan, world.decide, limit=50, now=world.now) for _ in range(4)]
    assert sizes == [50, 50, 1, 0]
    rows = await world.store.search(Query(limit=500))
    assert sorted(row.recipient for row in rows) == sorted(f"user-{i}" for i in range(101))


async def test_expansion_resumes_after_a_crash(world: World) -> None:
    """A chunk whose transaction failed is expanded again; nobody is lost or told twice."""
    await world.accept(Event("e-1", recipients=people(120)))
    await world.store.expand(world.plan, world.decide, limit=60, now=world.now)

    def crash(*_: object) -> None:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        await world.store.expand(crash, world.decide, limit=60, now=world.now)
    await world.store.expand(world.plan, world.decide, limit=60, now=world.now + 5 * SECOND)
    assert len(await world.store.search(Query(limit=500))) == 120


async def test_an_event_that_can_not_be_expanded_holds_up_no_other(world: World) -> None:
    """What fails in one event's expansion is left alone for a while, longer each time, and the next has its turn."""
    await world.accept(Event("bad", recipients=people(101)))
    await world.accept(Event("good", recipients=people(101)))

    def plan(event: Event, *rest: Any) -> Plan:
        if event.event_id == "bad":
            raise ValueError("no rule for this")
        return world.plan(event, *rest)

    with pytest.raises(ValueError, match="no rule"):
        await world.store.expand(plan, world.decide, limit=200, now=world.now)
    assert await world.store.expand(plan, world.decide, limit=200, now=world.now) == 101
    assert await world.store.expand(plan, world.decide, limit=200, now=world.now) == 0
    with pytest.raises(ValueError, match="no rule"):
        await world.store.expand(plan, world.decide, limit=200, now=world.now + 5 * SECOND)
    assert await world.store.expand(plan, world.decide, limit=200, now=world.now + 14 * SECOND) == 0
    assert await world.store.expand(world.plan, world.decide, limit=200, now=world.now + 15 * SECOND) == 101


async def test_a_recipient_named_twice_is_told_once(world: World) -> None:
    """The journal's row of (event, recipient) lets one set of notifications through."""
    twice = Recipient("user-1", addresses={"email": ("a@example.com",)})
    (accepted,) = await world.accept(Event("e-1", recipients=(twice, twice)))
    assert len(accepted.notifications) == 1


async def test_direct_addresses_stand_for_their_recipients(world: World) -> None:
    """``to`` reaches an address that belongs to nobody, and does not take one from its owner."""
    owned = await world.store.register("", "user-1", "email", "a@example.com", now=world.now)
    to = {"email": "a@example.com", "telegram": "4815"}
    (accepted,) = await world.accept(Event("e-1", to=to))
    assert [b.channel for b in accepted.notifications] == ["email", "telegram"]
    (claimed,) = (await world.claim()).rows
    assert claimed.row.address is not None
    assert claimed.row.address.id == owned.id
    assert claimed.row.address.recipient == "user-1"
    assert not claimed.address_changed


async def test_a_channel_without_an_address_says_so(world: World) -> None:
    """A notification without an address is final from the start and never claimed."""
    (accepted,) = await world.accept(Event("e-1", recipients=(Recipient("user-1"),), channels=("email",)))
    assert accepted.notifications[0].status is Status.SUPPRESSED
    assert (await world.claim()).rows == ()


async def test_profile_is_kept_until_it_is_given_anew(world: World) -> None:
    """Locale and time zone of a recipient survive events that do not name them."""
    seen = []

    def plan(event, facts, cancelled, now):  # noqa: ANN001, ANN202
        seen.extend((f.locale, f.timezone) for f in facts)
        return world.plan(event, facts, cancelled, now)

    from tests.store.kit import new_event

    for number, who in enumerate([Recipient("u", "ru", "Asia/Omsk"), Recipient("u"), Recipient("u", "en")]):
        event = new_event(Event(f"e-{number}", recipients=(who,)))
        await world.store.accept([event], plan, world.decide, now=world.now)
    assert seen == [("ru", "Asia/Omsk"), ("ru", "Asia/Omsk"), ("en", "Asia/Omsk")]


async def test_scheduled_event_waits(world: World) -> None:
    """``send_at`` keeps a notification from being claimed before its time."""
    await world.one(send_at=world.now + 60 * SECOND)
    assert (await world.claim()).rows == ()
    world.now += 60 * SECOND
    assert len((await world.claim()).rows) == 1


async def test_a_withdrawn_subject_is_told_to_the_planner(world: World) -> None:
    """An event of a subject that is already cancelled becomes cancelled notifications."""
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    await world.one(subject="order:1")
    (row,) = await world.store.search(Query())
    assert row.state.status is Status.CANCELLED
    assert (await world.claim()).rows == ()


async def test_newer_event_collapses_older_ones(world: World) -> None:
    """A newer event of a collapse key cancels older ones that are not marked, of the same recipient only."""
    old = await world.one("e-1", collapse="k", recipient="user-1", address="a@example.com")
    other = Recipient("user-2", addresses={"email": ("b@example.com",)})
    (kept,) = await world.accept(Event("e-2", recipients=(other,), channels=("email",), collapse="k"))
    world.now += SECOND
    new = await world.one("e-3", collapse="k", recipient="user-1", address="a@example.com")
    life = await world.life(old)
    assert life.row.state.status is Status.CANCELLED
    assert [note.detail["by"] for note in life.notes] == ["collapse"]
    assert life.due is None
    assert {c.row.id for c in (await world.claim()).rows} == {new, kept.notifications[0].id}


async def test_collapse_spares_what_has_begun(world: World) -> None:
    """A marked notification is not cancelled by a newer one of its collapse key."""
    old = await world.one("e-1", collapse="k", recipient="user-1")
    claimed = await world.begin()
    await world.one("e-2", collapse="k", recipient="user-1", address="e-1@example.com")
    await world.settle(world.answer(claimed))
    assert (await world.life(old)).row.state.status is Status.SENT


async def test_collapse_spares_siblings(world: World) -> None:
    """Two devices of one recipient get the same event both."""
    who = Recipient("user-1", addresses={"push": ("t-1", "t-2")})
    await world.accept(Event("e-1", recipients=(who,), collapse="k"))
    assert len((await world.claim(lane="push")).rows) == 2


async def test_bad_text_does_not_harm_the_batch(world: World) -> None:
    """U+0000 and lone surrogates in an event are replaced; its neighbours are stored."""
    bad = Event("e-1", "t\x00", recipients=(Recipient("u\x00", addresses={"email": ("a@b\ud800",)}),))
    bad_content = Event("e-2", recipients=people(1), content=Content("a\x00b", "\ud83d", data={"k": "\x00"}))
    from tests.store.kit import NewEvent, event_key

    events = [NewEvent(e, event_key("", e.event_id), b"h", b"{}") for e in (bad, bad_content)]
    answers = await world.store.accept(events, world.plan, world.decide, now=world.now)
    assert [len(a.notifications) for a in answers] == [1, 1]
    contents = [c.content for c in (await world.claim()).rows]
    assert Content("a\ufffdb", "\ufffd", data={"k": "\x00"}) in contents


async def test_outbox_rows_of_the_plan_are_stored_once(world: World) -> None:
    """What the planner publishes is in the outbox when its kind is subscribed to."""
    from dataclasses import replace

    from ringonce.ports import Plan
    from tests.store.kit import new_event

    def plan(event, facts, cancelled, now):  # noqa: ANN001, ANN202
        made = world.plan(event, facts, cancelled, now)
        rows = (OutboxRow("x", "notification.dispatched", "k", {"a": 1}), OutboxRow("y", "other", "k", {}))
        new = made.notifications[0]
        return Plan(made.contents, (replace(new, write=replace(new.write, outbox=rows)),))

    await world.store.accept([new_event(Event("e", recipients=people(1)))], plan, world.decide, now=world.now)
    assert [row.event_id for _, row in await world.store.outbox()] == ["x"]


async def test_pause_stops_a_lane(world: World) -> None:
    """Nothing is claimed from a paused lane; a timed pause ends by itself."""
    await world.one()
    await world.store.pause([LanePause("email", "rate_limited", world.now + 5 * SECOND)], now=world.now)
    assert (await world.claim()).rows == ()
    world.now += 5 * SECOND
    assert len((await world.claim()).rows) == 1


async def test_a_batch_of_different_beginnings(world: World) -> None:
    """In one transaction each notification begins as its own event has it: now, later, suppressed, with an end."""
    later, end = world.now + SECOND, world.now + 9 * SECOND
    events = [
        Event("now", recipients=people(1)),
        Event("nobody", recipients=(Recipient("without"),), channels=("email",)),
        Event("later", recipients=people(2), send_at=later),
        Event("urgent", recipients=people(1), priority="high", expires_at=end),
        Event("also nobody", recipients=(Recipient("other"),), channels=("email",)),
    ]
    accepted = await world.accept(*events)
    found = {}
    for item in accepted:
        for brief in item.notifications:
            life = await world.store.get(brief.id)
            assert life is not None
            state = life.row.state
            found.setdefault(item.event_id, set()).add(
                (state.status, state.next_attempt_at, state.expires_at)
            )
    assert found == {
        "now": {(Status.PENDING, world.now, None)},
        "nobody": {(Status.SUPPRESSED, None, None)},
        "later": {(Status.PENDING, later, None)},
        "urgent": {(Status.PENDING, world.now, end)},
        "also nobody": {(Status.SUPPRESSED, None, None)},
    }
    assert {claimed.row.event_id for claimed in (await world.claim()).rows} == {"now", "urgent"}
