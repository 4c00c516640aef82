"""Drafts: one for each key, whoever asks at once; a text is replaced under its lock; they are kept."""

import asyncio
import itertools
from collections.abc import Sequence
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.core.drafts import state_of
from ringonce.model.draft import Draft, DraftMode, DraftQuery, DraftState, NewDraft
from ringonce.model.event import Event
from ringonce.model.notification import Content, State, Status
from ringonce.model.policy import DAY
from ringonce.model.retention import Retention
from ringonce.model.transition import (
    Approved,
    Cancel,
    Enqueued,
    Regenerated,
    Rejected,
    TransitionEvent,
)
from ringonce.ports import Change, NewContent, NewNotification, Plan, RecipientFacts
from ringonce.store import schema
from ringonce.store.schema import contents, drafts, notifications
from ringonce.store.values import digest
from tests.store.kit import START, World, new_event, step_new
from tests.store.test_pruning import prune

IDS = itertools.count(1)


def an_id() -> UUID:
    """Another one, later than those before."""
    return UUID(int=(next(IDS) << 64) | 7 << 76 | 2 << 62)


async def put(
    world: World, key: str = "feedback:1", text: str = "hello", *events: TransitionEvent, tenant: str = ""
) -> Draft:
    """Save a text; what is to happen to a draft that exists: by default its text is replaced."""
    id_ = an_id()
    event = Event(f"d-{id_}", "draft", tenant, to={"email": key}, content=Content(text=text))
    new = NewDraft(
        id_, tenant, "email", key, "praise", DraftMode.MANUAL, new_event(event), Content(text=text)
    )

    def plan(event: Event, facts: Sequence[RecipientFacts], cancelled: bool, now: int) -> Plan:
        write = world.lower(None, None, step_new(Enqueued(now, drafted_by="ann"), now, world.policy))
        (one,) = facts
        made = NewNotification(id_, one.id, "email", "", one.addresses[0], "email", write)
        return Plan((NewContent("email", Content(text=text)),), (made,))

    def renew(draft: Draft, now: int) -> Sequence[TransitionEvent]:
        return events or ((Regenerated("ann"),) if draft.row.id != id_ else ())

    draft, _ = await world.store.put_draft(new, plan, world.decide, renew, now=world.now)
    return draft


async def set_(world: World, id_: UUID, **values: object) -> None:
    """Write columns of a notification."""
    statement = sa.update(notifications).where(notifications.c.id == id_).values(values)
    await world.store.backend.run(lambda c: c.execute(statement))


async def count(world: World, table: sa.Table) -> int:
    """How many rows it has."""
    query = sa.select(sa.func.count()).select_from(table)
    return int(await world.store.backend.run(lambda c: c.execute(query).scalar_one()))


async def test_one_for_a_key_whoever_asks_at_once(world: World) -> None:
    """CONC-04: ten PUTs of a new key at the same time make one draft, and each is answered with it."""
    made = await asyncio.gather(*(put(world, text=f"text {n}") for n in range(10)))
    assert len({draft.row.id for draft in made}) == 1
    assert (await count(world, drafts), await count(world, notifications)) == (1, 1)
    assert await count(world, contents) == 1


async def test_another_text_replaces_the_first(world: World) -> None:
    """The text is that of the last step which allowed it; the row of the one before is gone."""
    first = await put(world)
    second = await put(world, text="better")
    assert (second.row.id, second.content.text, second.row.state.version) == (first.row.id, "better", 2)
    refused = await put(world, "feedback:1", "worse", Regenerated("eve", version=1))
    assert (refused.content.text, refused.row.state.version) == ("better", 2)
    assert await count(world, contents) == 1


async def test_approved_in_the_same_breath(world: World) -> None:
    """A text that is saved and approved in one transaction is due with that text."""
    await put(world)
    draft = await put(world, "feedback:1", "better", Regenerated("ann"), Approved("ann", 2, auto=True))
    assert draft.row.state.status is Status.PENDING
    (claimed,) = (await world.store.claim("email", "w", 10, DAY, now=world.now)).rows
    assert (claimed.row.id, claimed.content.text) == (draft.row.id, "better")
    assert [note.kind for note in draft.notes] == ["draft_created", "draft_regenerated", "draft_approved"]


async def test_a_draft_that_is_written_anew_has_no_job(world: World) -> None:
    """Back to draft: the dispatch row is gone, whoever holds it."""
    await put(world, "feedback:1", "hello", Approved("ann"))
    await world.store.claim("email", "w", 10, DAY, now=world.now)
    await put(world, text="better")
    assert await count(world, schema.dispatch) == 0


@pytest.mark.parametrize("due", [None, START])
@pytest.mark.parametrize("status", list(Status))
async def test_the_states_that_are_looked_for(world: World, status: Status, due: int | None) -> None:
    """Looking for a state finds exactly the drafts whose reader sees it."""
    draft = await put(world)
    await set_(world, draft.row.id, status=status.value, next_attempt_at=due)
    seen = state_of(State(status, next_attempt_at=due))
    for state in DraftState:
        found = await world.store.drafts(DraftQuery(states=(state,)))
        assert bool(found) is (state is seen)


async def test_a_search(world: World) -> None:
    """Newest first, page by page; by tenant, key, channel and scenario."""
    for number in range(5):
        world.now += 1
        await put(world, f"feedback:{number}", tenant="acme" if number == 4 else "")
    keys = [draft.key for draft in await world.store.drafts(DraftQuery(tenant=""))]
    assert keys == [f"feedback:{number}" for number in (3, 2, 1, 0)]
    page = await world.store.drafts(DraftQuery(limit=2))
    following = await world.store.drafts(DraftQuery(limit=2, after=page[-1].row.id))
    assert [draft.key for draft in (*page, *following)] == [f"feedback:{number}" for number in (4, 3, 2, 1)]
    assert len(await world.store.drafts(DraftQuery(tenant="acme", key="feedback:4", scenario="praise"))) == 1
    assert not await world.store.drafts(DraftQuery(channel="push"))
    assert not await world.store.drafts(DraftQuery(scenario="other"))


async def test_those_that_wait_are_found_among_many(world: World) -> None:
    """What waits for approval is marked as such, by each decision anew; another end is passed by."""

    async def marked() -> set[str]:
        query = sa.select(drafts.c.name).where(drafts.c.waiting)
        return set(await world.store.backend.run(lambda c: c.execute(query).scalars().all()))

    kept, sent, gone = [await put(world, f"feedback:{name}") for name in "abc"]
    await world.store.change_draft(Change(sent.row.id, Approved("ann")), world.decide, now=world.now)
    assert await marked() == {"feedback:a", "feedback:c"}
    await world.store.change_draft(Change(gone.row.id, Rejected("ann")), world.decide, now=world.now)
    assert await marked() == {"feedback:a"}
    await put(world, "feedback:b", "better")
    await put(world, "feedback:c", "better", Regenerated("ann"), Approved("ann"))
    assert await marked() == {"feedback:a", "feedback:b"}
    await world.store.settle([Change(kept.row.id, Cancel("shop"))], world.decide, now=world.now)
    found = await world.store.drafts(DraftQuery(states=(DraftState.DRAFT,)))
    assert [draft.key for draft in found] == ["feedback:b"]


async def test_a_draft_is_kept(world: World) -> None:
    """What was answered is not forgotten with other notifications: else it could be answered once more."""
    draft = await put(world)
    await set_(world, draft.row.id, status="sent", next_attempt_at=None)
    other = await world.one()
    await set_(world, other, status="sent", next_attempt_at=None)
    await world.store.settle([], world.decide, now=world.now)
    remove = sa.delete(schema.dispatch)
    await world.store.backend.run(lambda c: c.execute(remove))
    world.now += 400 * DAY
    assert (await prune(world, Retention(attempts=DAY)))["notifications"] == 1
    assert [found.row.id for found in await world.store.drafts(DraftQuery())] == [draft.row.id]
    removed = await prune(world, Retention(drafts=300 * DAY, sent=None))
    assert (removed["notifications"], removed["drafts"]) == (1, 1)
    assert await count(world, drafts) == 0


async def test_an_open_draft_is_never_pruned(world: World) -> None:
    """However old, what waits for approval stays."""
    await put(world)
    world.now += 4_000 * DAY
    await prune(world, Retention(drafts=DAY))
    assert await count(world, drafts) == 1


async def test_an_erased_person(world: World) -> None:
    """Whom it was for is forgotten, key and text too, but not that this key has its draft."""
    draft = await put(world, "ada@example.com", "Dear Ada")
    await world.store.erase("", "email:ada@example.com", world.decide, by="api", now=world.now)
    (left,) = await world.store.drafts(DraftQuery())
    assert (left.key, left.scenario, left.content.text, left.row.address) == ("(erased)", None, None, None)
    assert left.row.state.status is Status.CANCELLED
    again = await put(world, "ada@example.com", "Dear Ada", Approved("ann"))
    assert (again.row.id, again.row.state.status) == (draft.row.id, Status.CANCELLED)


async def test_a_withdrawn_subject(world: World) -> None:
    """A draft of a subject that is withdrawn is cancelled like what waits to be sent."""
    draft = await put(world)
    subject = sa.update(schema.events).values(subject="order:1", subject_key=digest("", "order:1"))
    await world.store.backend.run(lambda c: c.execute(subject))
    (settled,) = await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    assert settled.change.id == draft.row.id
    (left,) = await world.store.drafts(DraftQuery())
    assert left.row.state.status is Status.CANCELLED


async def test_two_decide_at_once(world: World) -> None:
    """CONC-03: of two steps at the same time each sees what the other has left."""
    draft = await put(world)
    changes = [Change(draft.row.id, Approved("ann")), Change(draft.row.id, Regenerated("eve", version=1))]
    settled = await asyncio.gather(
        *(world.store.settle([change], world.decide, now=world.now) for change in changes)
    )
    done = [one.write.changed for (one,) in settled if one.write is not None]
    assert sorted(done) == [False, True] or done == [True, True]
    (left,) = await world.store.drafts(DraftQuery())
    assert left.row.state.version == 1 + sum(done)
