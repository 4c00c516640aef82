"""What is over and old is removed; what waits, is in doubt or may be asked for again is not."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.model.policy import DAY, MINUTE, InDoubt
from ringonce.model.retention import Pruned, Retention, Walk
from ringonce.model.transition import Cancel, Note, Retry
from ringonce.ports import PRUNE_LEASE, Change
from ringonce.store import schema
from ringonce.store.enqueue import Statements
from ringonce.store.storage import STORAGE
from tests.store.kit import SILENCE, START, UNREACHABLE, World, new_event
from tests.store.test_sweeps import REFUSED

HOUR = 60 * MINUTE
KEEP = Retention(outbox=7 * DAY)
COUNTED = (
    "notifications",
    "attempts",
    "timeline",
    "inbox",
    "contents",
    "events",
    "event_recipients",
    "outbox",
)


async def term_of(world: World, holder: str = "w-1") -> int:
    """Take the lease."""
    term = await world.store.take_lease(PRUNE_LEASE, holder, HOUR, now=world.now)
    assert term is not None
    return term


async def prune(world: World, keep: Retention = KEEP, limit: int = 500) -> dict[str, int]:
    """A whole walk from the beginning; the rows removed per table."""
    term, walk, total = await term_of(world), None, dict[str, int]()
    for _ in range(1000):
        step = await world.store.prune(term, "w-1", keep, walk=walk, limit=limit, now=world.now)
        assert step.held
        for name, count in step.counts.items():
            total[name] = total.get(name, 0) + count
        walk = step.walk
        if step.done:
            return total
    raise AssertionError("the walk has no end")


async def rows(world: World) -> dict[str, int]:
    """How many rows each table has."""

    def count(connection: sa.Connection) -> dict[str, int]:
        return {
            name: connection.execute(
                sa.select(sa.func.count()).select_from(schema.metadata.tables[schema.PREFIX + name])
            ).scalar_one()
            for name in COUNTED
        }

    return await world.store.backend.run(count)


async def change(world: World, table: sa.Table, **values: Any) -> None:
    """Change all rows of a table behind the store's back."""
    await world.store.backend.run(lambda c: c.execute(sa.update(table).values(**values)))


async def test_everything_of_a_notification_goes(world: World) -> None:
    """Notification, attempts, notes and content of a sent one go after its age, its event and journal later."""
    id_ = await world.one()
    await world.send()
    await world.store.settle([], world.decide, now=world.now)
    world.now += 30 * DAY - 1
    assert await prune(world) == {}
    world.now += 1
    assert await prune(world) == {"notifications": 1, "attempts": 1, "contents": 1}
    assert await world.store.get(id_) is None
    left = await rows(world)
    assert (left["events"], left["event_recipients"]) == (1, 1)
    world.now = START + 91 * DAY - 1
    assert await prune(world) == {}
    world.now += 1
    await change(world, schema.outbox, published_at=START)
    assert await prune(world) == {"events": 1, "event_recipients": 1, "outbox": 1}
    assert set((await rows(world)).values()) == {0}


async def test_a_repeat_of_what_was_pruned_is_still_a_duplicate(world: World) -> None:
    """After its notification is gone, the same event answers duplicate and pruned, another body is a conflict."""
    await world.one()
    await world.send()
    event = Event("e-1", recipients=(Recipient("r-e-1", addresses={"email": ("e-1@example.com",)}),))
    event = replace(event, channels=("email",))
    (before,) = await world.accept(event)
    assert (before.duplicate, before.pruned) == (True, False)
    world.now += 60 * DAY
    await prune(world)
    (again,) = await world.accept(event)
    assert (again.duplicate, again.pruned, again.conflict, again.notifications) == (True, True, False, ())
    (other,) = await world.accept(replace(event, subject="another"))
    assert other.conflict
    assert (await rows(world))["notifications"] == 0


async def test_an_enqueued_repeat_is_answered_the_same_way(world: World) -> None:
    """The statements of the caller's transaction tell it, too."""
    await world.one()
    await world.send()
    world.now += 60 * DAY
    await prune(world)
    item = new_event(
        Event(
            "e-1",
            recipients=(Recipient("r-e-1", addresses={"email": ("e-1@example.com",)}),),
            channels=("email",),
        )
    )
    known = Statements(world.store.backend.dialect).known
    values = {"b_key": item.key, "b_body_hash": item.body_hash}
    same, expanded, pruned = await world.store.backend.run(lambda c: c.execute(known, values).one())
    assert (bool(same), bool(expanded), bool(pruned)) == (True, True, True)


async def test_each_status_has_its_age(world: World) -> None:
    """A terminal failure is kept longer than what was sent; ``None`` keeps for good."""
    sent, failed = await world.one("e-1"), await world.one("e-2")
    await world.send()
    await world.send(REFUSED)
    world.now += 30 * DAY
    await prune(world, replace(KEEP, sent=None))
    assert (await rows(world))["notifications"] == 2
    await prune(world)
    assert await world.store.get(sent) is None
    assert (await world.life(failed)).row.state.status is Status.FAILED
    world.now += 60 * DAY
    await prune(world)
    assert await world.store.get(failed) is None


async def test_what_waits_is_never_removed(world: World) -> None:
    """Pending, waiting for a retry, leased, in doubt: whatever its age, it stays with all that belongs to it."""
    world.policy = replace(world.policy, in_doubt=InDoubt.HOLD)
    await world.one("e-1", send_at=START + 2000 * DAY)
    await world.one("e-2")
    await world.send(UNREACHABLE)
    await world.one("e-3")
    await world.send(SILENCE)
    await world.one("e-4")
    await world.begin()
    before = await rows(world)
    world.now += 1000 * DAY
    assert await prune(world) == {}
    assert await rows(world) == before


async def test_an_event_that_is_not_expanded_stays(world: World) -> None:
    """Neither an event with recipients to come nor what has been made of it is removed."""
    people = tuple(Recipient(f"r-{i}", addresses={"email": (f"r-{i}@example.com",)}) for i in range(150))
    await world.accept(Event("big", recipients=people))
    await world.store.expand(world.plan, world.decide, limit=1, now=world.now)
    await world.send()
    before = await rows(world)
    world.now += 1000 * DAY
    assert await prune(world) == {}
    assert await rows(world) == before


async def test_a_row_with_dispatch_stays(world: World) -> None:
    """Whatever its status says: what a worker may touch is not removed."""
    await world.one()
    await change(world, schema.notifications, status="sent")
    world.now += 1000 * DAY
    assert await prune(world) == {}


async def test_shared_contents_stay_as_long_as_one_needs_them(world: World) -> None:
    """The text of a fan-out goes with the last notification that has it, and so does the event's body."""
    people = tuple(Recipient(f"r-{i}", addresses={"email": (f"r-{i}@example.com",)}) for i in range(2))
    (accepted,) = await world.accept(Event("e-1", recipients=people))
    await world.send()
    world.now += 10 * DAY
    await world.send()
    world.now += 20 * DAY
    assert await prune(world) == {"notifications": 1, "attempts": 1}
    (left,) = [one.id for one in accepted.notifications if await world.store.get(one.id) is not None]
    assert (await world.life(left)).content.text == "hello"
    (again,) = await world.accept(Event("e-1", recipients=people))
    assert ([one.id for one in again.notifications], again.pruned) == ([left], False)
    world.now += 10 * DAY
    assert await prune(world) == {"notifications": 1, "attempts": 1, "contents": 1}
    body = await world.store.backend.run(lambda c: c.execute(sa.select(schema.events.c.body)).scalar_one())
    assert body == ""


async def test_unpublished_rows_of_the_outbox_stay(world: World) -> None:
    """Only what was published goes, by the time at which it was; rows of kind ``table`` only by their own age."""
    await world.one()
    await world.send()
    world.now += 1000 * DAY
    await prune(world)
    assert (await rows(world))["outbox"] == 1
    await change(world, schema.outbox, published_at=world.now)
    world.now += 7 * DAY - 1
    await prune(world)
    assert (await rows(world))["outbox"] == 1
    world.now += 1
    assert await prune(world) == {"outbox": 1}


async def test_rows_of_kind_table_go_by_their_own_age(world: World) -> None:
    """With ``outbox_table`` set, what nobody publishes is removed, and not before."""
    await world.one()
    await world.send()
    keep = replace(KEEP, outbox_table=7 * DAY)
    world.now += 7 * DAY - 1
    await prune(world, keep)
    assert (await rows(world))["outbox"] == 1
    world.now += 1
    assert await prune(world, keep) == {"outbox": 1}


async def test_inbox_copies_have_ages_of_their_own(world: World) -> None:
    """A copy is in its inbox longer than its status demands, and an unread one longest."""
    read, unread = await world.one("e-1"), await world.one("e-2")
    await world.send()
    await world.send()

    def file(connection: sa.Connection) -> None:
        world.store._inboxes.write(connection, [("", "ada", read), ("", "ada", unread)])
        world.store._inboxes.write(connection, (), [("", "ada", read)])

    await world.store.backend.run(file)
    world.now += 90 * DAY - 1
    await prune(world)
    assert (await rows(world))["inbox"] == 2
    world.now += 1
    assert (await prune(world))["inbox"] == 1
    assert await world.store.unread("", "ada") == 1
    assert await world.store.get(read) is None
    world.now += 275 * DAY
    assert (await prune(world))["inbox"] == 1
    assert await world.store.copies("", "ada") == []


async def test_attempts_may_go_earlier(world: World) -> None:
    """With an age of their own, attempts of what is over go and the notification stays; of what waits, none goes."""
    over = await world.one("e-1")
    await world.send()
    await world.one("e-2")
    await world.send(UNREACHABLE)
    keep = replace(KEEP, attempts=DAY)
    world.now += DAY - 1
    assert await prune(world, keep) == {}
    world.now += 1
    assert await prune(world, keep) == {"attempts": 1}
    assert (await world.life(over)).attempts == ()
    assert (await rows(world))["attempts"] == 1


async def test_a_small_batch_walks_to_the_end(world: World) -> None:
    """Page by page, past what stays, nothing is missed and nothing is looked at twice."""
    for number in range(9):
        await world.one(f"e-{number}")
        await (world.send(UNREACHABLE) if number % 3 == 0 else world.send())
    world.now += 30 * DAY
    assert (await prune(world, limit=2))["notifications"] == 6
    assert (await rows(world))["notifications"] == 3


async def test_a_walk_goes_on_where_it_was(world: World) -> None:
    """The next walk begins behind what was looked at, one from the beginning finds what has become old enough."""
    failed, _ = await world.one("e-1"), await world.send(REFUSED)
    world.now += 30 * DAY
    term, walk = await term_of(world), Walk()
    done = False
    while not done:
        step = await world.store.prune(term, "w-1", KEEP, walk=walk, now=world.now)
        walk, done = step.walk, step.done
    world.now += 60 * DAY
    term = await term_of(world)
    step = await world.store.prune(term, "w-1", KEEP, walk=walk, now=world.now)
    assert (step.looked, step.counts) == (0, {})
    step = await world.store.prune(term, "w-1", KEEP, walk=None, now=world.now)
    assert (step.looked, step.counts["notifications"]) == (1, 1)
    assert await world.store.get(failed) is None


async def test_only_the_holder_prunes(world: World) -> None:
    """Without the lease, under another term, or when its time is over, nothing is removed."""
    await world.one()
    await world.send()
    world.now += 365 * DAY
    old = await term_of(world)
    world.now += HOUR
    nobody = Pruned(walk=Walk(), held=False)
    assert await world.store.prune(old, "w-1", KEEP, now=world.now) == nobody
    new = await term_of(world, "w-2")
    assert new == old + 1
    assert await world.store.prune(old, "w-1", KEEP, now=world.now) == nobody
    assert await world.store.prune(old, "w-2", KEEP, now=world.now) == nobody
    assert (await world.store.prune(new, "w-2", KEEP, now=world.now)).counts["notifications"] == 1


async def test_a_row_reopened_between_look_and_lock_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person reopened after the page was read has another version, and is not removed."""
    id_ = await world.one()
    await world.send(REFUSED)
    world.now += 90 * DAY
    pruning = world.store._pruning
    still = pruning._still

    def reopened(connection: sa.Connection, wanted: dict[UUID, Any]) -> list[UUID]:
        locked, time = world.store._settler.lock(connection, [id_], world.now)
        world.store._settler.apply(connection, locked, [Change(id_, Retry("ann"))], world.decide, time)
        return still(connection, wanted)

    monkeypatch.setattr(pruning, "_still", reopened)
    assert "notifications" not in await prune(world)
    monkeypatch.undo()
    assert (await world.life(id_)).row.state.status is not None
    assert len((await world.claim()).rows) == 1


async def test_a_row_that_ended_again_between_look_and_lock_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reopened and stopped meanwhile, it is final again, and young: its time begins anew."""
    id_ = await world.one()
    await world.send(REFUSED)
    world.now += 90 * DAY
    pruning = world.store._pruning
    still = pruning._still

    def ended(connection: sa.Connection, wanted: dict[UUID, Any]) -> list[UUID]:
        locked, time = world.store._settler.lock(connection, [id_], world.now)
        changes = [Change(id_, Retry("ann")), Change(id_, Cancel("ann"))]
        world.store._settler.apply(connection, locked, changes, world.decide, time)
        return still(connection, wanted)

    monkeypatch.setattr(pruning, "_still", ended)
    assert await prune(world) == {}
    assert (await world.life(id_)).row.state.status is Status.CANCELLED


async def test_a_failed_row_that_will_be_retried_is_not_over(world: World) -> None:
    """``failed`` with a next attempt waits, even where its dispatch row is missing."""
    await world.one()
    await world.send(UNREACHABLE)
    await world.store.backend.run(lambda c: c.execute(sa.delete(schema.dispatch)))
    world.now += 1000 * DAY
    assert await prune(world) == {}


async def test_notes_go_too(world: World) -> None:
    """The timeline of a notification is removed with it."""
    id_ = await world.one()
    await world.send()
    await world.store.backend.run(
        lambda c: world.store._settler.note(c, [(id_, Note("sent_again", {}))], world.now)
    )
    noted = (await rows(world))["timeline"]
    assert noted
    world.now += 30 * DAY
    assert (await prune(world))["timeline"] == noted


async def test_the_once_report_still_counts_what_was_removed(world: World) -> None:
    """Retention changes no total: not of a day, a channel or a tenant, and not the calls that were repeated."""
    world.policy = replace(world.policy, in_doubt=InDoubt.ASSUME_SENT)
    await world.one("e-1")
    await world.send(SILENCE)
    await world.one("e-2")
    await world.send(REFUSED)
    world.policy = replace(world.policy, in_doubt=InDoubt.RESEND)
    await world.one("e-3")
    await world.send(SILENCE)
    world.now += DAY
    await world.arm()
    await world.send(number=2)
    await world.one("e-4", channel="push")
    await world.send(lane="push")
    groups = [(), ("tenant", "channel", "day")]
    before = [await world.store.report(by=by) for by in groups]
    assert (before[0][0]["assumed"], before[0][0]["repeats"]) == (1, 1)
    world.now += 365 * DAY
    assert (await prune(world))["notifications"] == 4
    assert [await world.store.report(by=by) for by in groups] == before
    assert (await world.store.report(channel="push"))[0]["sent"] == 1
    assert (await world.store.report(since=world.now))[0]["accepted"] == 0


async def test_the_storage_parameters_are_those_of_the_tables(pg_template: Any) -> None:
    """After all migrations each hot table has the storage parameters that ``STORAGE`` gives reasons for."""
    with pg_template.connect() as connection:
        found = connection.execute(
            "SELECT c.relname, c.reloptions, t.reloptions FROM pg_class c LEFT JOIN pg_class t "
            "ON t.oid = c.reltoastrelid WHERE c.relkind = 'r' AND c.relname LIKE 'ringonce%'"
        ).fetchall()
    parameters = {}
    for name, own, toast in found:
        listed = [*(own or ()), *(f"toast.{one}" for one in toast or ())]
        if listed:
            parameters[name.removeprefix(schema.PREFIX)] = dict(one.split("=") for one in listed)
    assert parameters == STORAGE
