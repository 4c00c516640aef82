"""Settle: what a batch of changes leaves behind, and what it must not touch."""

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.core.journal import client_reference
from ringonce.errors import IllegalTransition
from ringonce.model.event import Event, Recipient
from ringonce.model.notification import Status
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import InDoubt
from ringonce.model.transition import Cancel, Enqueued, LateAnswer, Note, Receipt, Resolve, Retry, Verdict
from ringonce.ports import AttemptRow, Change, Claimed, LanePause, Query, Row, Write
from ringonce.store.rows import attempt_values
from tests.store.kit import ACCEPTED, LEASE, NOBODY, SECOND, SILENCE, UNREACHABLE, World


async def test_sent(world: World) -> None:
    """An accepted answer ends it: attempt and outbox row stand, the dispatch row is gone."""
    id_ = await world.one()
    settled = await world.send()
    assert settled.lease_held
    life = await world.life(id_)
    assert life.row.state.status is Status.SENT
    assert life.row.state.message_id == "m-1"
    assert life.row.lease is None
    assert life.due is None
    (attempt,) = life.attempts
    assert (attempt.number, attempt.outcome, attempt.late) == (1, "accepted", False)
    ((_, event),) = await world.store.outbox()
    assert event.event_id == f"{id_}.r1"
    assert event.payload["data"]["status"] == "Sent"
    assert (await world.claim()).rows == ()


async def test_failed_is_due_again(world: World) -> None:
    """A transient failure frees the lease; the row is due later and waits to be armed."""
    id_ = await world.one()
    await world.send(UNREACHABLE)
    life = await world.life(id_)
    assert life.row.state.status is Status.FAILED
    assert life.row.state.last_error.code == "NTF_PROVIDER_TRANSIENT"
    assert life.due.at == life.row.state.next_attempt_at == world.now + 10 * SECOND
    assert not life.due.armed
    assert life.row.lease is None


async def test_budgets_end_it(world: World) -> None:
    """What a revision has spent is kept from attempt to attempt, so the last failure is terminal."""
    id_ = await world.one()
    for number in range(1, 5):
        await world.send(UNREACHABLE, number)
        world.now += 10 * SECOND
        await world.arm()
    life = await world.life(id_)
    assert life.row.state.final
    assert life.row.state.status is Status.FAILED
    assert [a.number for a in life.attempts] == [1, 2, 3, 4]
    assert (await world.store.report())[0]["failed"] == {"NTF_PROVIDER_TRANSIENT": 1}


async def test_hold_waits_without_a_time(world: World) -> None:
    """Under ``hold`` a doubt is not due by itself; a person's word ends it."""
    world.policy = replace(world.policy, in_doubt=InDoubt.HOLD)
    id_ = await world.one()
    await world.send(SILENCE)
    life = await world.life(id_)
    assert life.row.state.status is Status.IN_DOUBT
    assert life.row.state.unknown == (1,)
    assert (life.due.purpose, life.due.at) == ("hold", None)
    await world.settle(Change(id_, Resolve(Verdict.SENT, "ann")))
    life = await world.life(id_)
    assert life.row.state.status is Status.SENT
    assert life.due is None


async def test_lost_lease_makes_the_answer_late(world: World) -> None:
    """A worker that lost its lease is told so; its attempt stands, marked late, and decides nothing newer."""
    id_ = await world.one()
    slow = await world.begin("w-1")
    world.now += LEASE
    await world.rescue()
    world.now += 10 * SECOND
    await world.arm()
    fast = await world.begin("w-2")
    (settled,) = await world.settle(world.answer(slow, UNREACHABLE))
    assert not settled.lease_held
    assert settled.row.lease.owner == "w-2"
    life = await world.life(id_)
    assert life.row.lease.owner == "w-2"
    assert (life.attempts[0].outcome, life.attempts[0].late) == ("transient", True)
    (settled,) = await world.settle(world.answer(fast, ACCEPTED, 2, "w-2"))
    assert settled.lease_held
    report = (await world.store.report())[0]
    assert (report["late_answers"], report["repeats"]) == (1, 0)


async def test_late_acceptance_stops_the_newer_lease(world: World) -> None:
    """The first call did arrive: the dispatch row is removed under the second worker, whose mark fails."""
    id_ = await world.one()
    slow = await world.begin("w-1")
    world.now += LEASE
    await world.rescue()
    world.now += 10 * SECOND
    await world.arm()
    (second,) = (await world.claim(owner="w-2")).rows
    await world.settle(world.answer(slow))
    assert (await world.mark(second, owner="w-2")).begun == {}
    life = await world.life(id_)
    assert life.row.state.status is Status.SENT
    assert life.due is None


async def _overtaken(world: World) -> tuple[UUID, Claimed, Claimed]:
    """The first call lost its lease, the second one is under way: the row and both claims."""
    id_ = await world.one()
    slow = await world.begin("w-1")
    world.now += LEASE
    await world.rescue()
    world.now += 10 * SECOND
    await world.arm()
    return id_, slow, await world.begin("w-2")


async def test_a_call_under_way_is_not_forgotten_by_a_late_acceptance(world: World) -> None:
    """What ends a notification while a newer call runs leaves that call as an attempt without a verdict."""
    id_, slow, fast = await _overtaken(world)
    begun = world.now
    world.now += SECOND
    (settled,) = await world.settle(world.answer(slow))
    life = await world.life(id_)
    state = life.row.state
    assert (state.status, state.rests_on, state.attempts, state.unknown) == (Status.SENT, 1, 2, (2,))
    assert settled.write.state == state
    assert life.due is None
    second = life.attempts[1]
    assert (second.number, second.outcome, second.rule, second.late) == (2, "unknown", "overtaken", False)
    assert (second.started_at, second.ended_at) == (begun, None)
    assert (second.fence, second.revision) == (fast.row.lease.fence, 1)
    assert second.reference == client_reference(id_, 1)
    report = (await world.store.report())[0]
    assert (report["sent"], report["repeats"], report["late_answers"]) == (1, 1, 1)


@pytest.mark.parametrize("outcome", [ACCEPTED, UNREACHABLE], ids=["accepted", "refused"])
@pytest.mark.parametrize("together", [False, True], ids=["later", "in one batch"])
async def test_an_overtaken_call_is_told_later(world: World, outcome: Outcome, together: bool) -> None:
    """The answer to a call that was overtaken becomes the verdict of its attempt, and changes nothing else."""
    id_, slow, fast = await _overtaken(world)
    late, answer = world.answer(slow), world.answer(fast, outcome, 2, "w-2")
    if together:
        await world.settle(late, answer)
    else:
        await world.settle(late)
        (settled,) = await world.settle(answer)
        assert not settled.lease_held
    life = await world.life(id_)
    state = life.row.state
    assert (state.status, state.revision, state.rests_on, state.attempts) == (Status.SENT, 1, 1, 2)
    assert (state.unknown, state.message_id, life.due) == ((), "m-1", None)
    assert [(a.number, a.outcome, a.late) for a in life.attempts] == [
        (1, "accepted", True),
        (2, outcome.cls.value, True),
    ]
    assert len(await world.store.outbox()) == 1


async def test_a_report_on_the_call_under_way_is_no_doubt(world: World) -> None:
    """A provider that reports the arrival before its answer is stored leaves no doubt about that call."""
    id_ = await world.one()
    claimed = await world.begin()
    await world.settle(Change(id_, Receipt(1, "delivered")))
    assert (await world.life(id_)).row.state.unknown == ()
    await world.settle(world.answer(claimed))
    life = await world.life(id_)
    assert (life.row.state.status, life.row.state.attempts) == (Status.SENT, 1)
    assert [a.outcome for a in life.attempts] == ["accepted"]


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
async def test_an_answer_after_the_erasure_brings_nothing_back(world: World, late: bool) -> None:
    """Of an answer to a call that ran during the erasure, verdict and codes are stored, and no word of it."""
    words = "no mailbox of ada@secret.example"
    outcome = Outcome(OutcomeClass.INVALID_PAYLOAD, Code.INVALID_PAYLOAD, "5.6.0", text=words)
    for event_id in ("e-1", "e-2"):
        await world.one(event_id, recipient="ada", address="ada@secret.example")
    one, two = await world.begin(), await world.begin()
    if late:
        world.now += LEASE
        await world.rescue()
    await world.store.erase("", "ada", world.decide, now=world.now)
    told = {"answer": words, "message_id": "<ada@secret.example>"}
    await world.settle(
        world.answer(one, outcome, **told),
        world.answer(two, replace(ACCEPTED, message_id="<ada@secret.example>"), **told),
    )
    lives = [await world.life(claimed.row.id) for claimed in (one, two)]
    assert "secret" not in repr(lives)
    assert [[a.outcome for a in life.attempts] for life in lives] == [["invalid_payload"], ["accepted"]]
    states = [life.row.state for life in lives]
    ended = [Status.CANCELLED] * 2 if late else [Status.FAILED, Status.SENT]
    assert [state.status for state in states] == ended
    assert [state.maybe_sent for state in states] == [False, late]
    if not late:
        assert states[0].last_error.provider_code == "5.6.0"


async def test_settle_again_after_a_lost_reply(world: World) -> None:
    """Telling a result twice has no second effect, whatever became of the row in between."""
    id_ = await world.one()
    claimed = await world.begin()
    change = world.answer(claimed, UNREACHABLE)
    (first,) = await world.settle(change)
    life = await world.life(id_)
    (again,) = await world.settle(change)
    assert first.lease_held
    assert again.lease_held
    assert not again.write.changed
    assert await world.life(id_) == life


async def test_version_moved_under_the_lease(world: World) -> None:
    """A fact that changed between claim and settle is read anew: the step builds on it."""
    id_ = await world.one()
    first = await world.begin()
    world.now += LEASE
    await world.rescue()
    world.now += 10 * SECOND
    await world.arm()
    second = await world.begin()
    refused = Change(id_, LateAnswer(1, UNREACHABLE))
    await world.settle(refused)
    assert (await world.life(id_)).row.state.unknown == ()
    (settled,) = await world.settle(world.answer(second, UNREACHABLE, 2))
    assert settled.lease_held
    state = (await world.life(id_)).row.state
    assert state.version == second.row.state.version + 2
    assert state.attempts == 2
    assert first.row.id == id_


async def test_a_moved_version_stops_the_mark(world: World) -> None:
    """What was claimed with older facts is not begun."""
    id_ = await world.one()
    await world.begin()
    world.now += LEASE
    await world.rescue()
    world.now += 10 * SECOND
    await world.arm()
    (claimed,) = (await world.claim()).rows
    await world.settle(Change(id_, LateAnswer(1, UNREACHABLE)))
    assert (await world.mark(claimed)).begun == {}


async def test_cancel_beats_a_claim_and_loses_to_a_mark(world: World) -> None:
    """A claimed row is cancelled under its worker; a begun one answers that it is too late."""
    first, second = await world.one("e-1"), await world.one("e-2")
    one, two = (await world.claim()).rows
    await world.mark(two)
    cancelled, late = await world.settle(Change(first, Cancel("ann")), Change(second, Cancel("ann")))
    assert cancelled.write.state.status is Status.CANCELLED
    assert late.write.refused.code == "too_late"
    assert (await world.mark(one)).begun == {}
    assert (await world.settle(world.answer(two)))[0].lease_held


async def test_changes_of_one_row_in_a_batch_are_applied_in_order(world: World) -> None:
    """The second change of a batch sees what the first one did."""
    id_ = await world.one()
    claimed = await world.begin()
    sent, retried = await world.settle(world.answer(claimed), Change(id_, Retry("ann", force=True)))
    assert sent.write.state.status is Status.SENT
    assert retried.row.state.status is Status.SENT
    assert retried.row.lease is None
    life = await world.life(id_)
    assert (life.row.state.status, life.row.state.revision) == (Status.PENDING, 2)
    assert life.due.at == world.now
    assert len((await world.claim()).rows) == 1


async def test_unknown_notification(world: World) -> None:
    """A change of something that does not exist is answered with no row, its neighbours are settled."""
    from uuid import uuid4

    id_ = await world.one()
    claimed = await world.begin()
    nothing, sent = await world.settle(Change(uuid4(), Cancel("ann")), world.answer(claimed))
    assert nothing.row is None
    assert sent.row.id == id_


async def test_one_outbox_row_per_revision(world: World) -> None:
    """Each end of a revision is published once; kinds that nobody subscribed to are not written."""
    id_ = await world.one()
    await world.send()
    await world.settle(Change(id_, Retry("ann", force=True)))
    await world.send(NOBODY, 2)
    events = [event.event_id for _, event in await world.store.outbox()]
    assert events == [f"{id_}.r1", f"{id_}.r2"]
    numbers = [number for number, _ in await world.store.outbox()]
    assert [e.event_id for _, e in await world.store.outbox(after=numbers[0])] == [f"{id_}.r2"]


async def test_invalid_recipient_drops_the_address(world: World) -> None:
    """A proof that is younger than the registration drops the address in the same transaction."""
    await world.one()
    await world.send(NOBODY)
    assert await world.store.addresses("", "r-e-1") == []
    (address,) = await world.store.addresses("", "r-e-1", all_=True)
    assert address.invalidated_at == world.now


async def test_an_older_proof_spares_a_newer_registration(world: World) -> None:
    """An address registered again after the proof stays alive."""
    await world.one()
    claimed = await world.begin()
    outcome = replace(NOBODY, proof_at=world.now)
    world.now += SECOND
    await world.store.register("", "r-e-1", "email", "e-1@example.com", now=world.now)
    await world.settle(world.answer(claimed, outcome))
    assert len(await world.store.addresses("", "r-e-1")) == 1


async def test_rate_limit_of_a_channel_pauses_its_lane(world: World) -> None:
    """A limit whose scope is the channel stops the lane in the same transaction."""
    await world.one("e-1")
    await world.one("e-2")
    limited = Outcome(OutcomeClass.RATE_LIMITED, Code.RATE_LIMITED, retry_after_s=30, scope="channel")
    await world.send(limited)
    (lane,) = await world.store.lanes()
    assert lane.lane == "email"
    assert (await world.claim()).rows == ()
    world.now += 30 * SECOND
    assert len((await world.claim()).rows) == 1


async def test_refused_change_leaves_the_row_alone(world: World) -> None:
    """A refused change without a lease touches neither facts nor due work."""
    id_ = await world.one()
    before = await world.life(id_)
    (settled,) = await world.settle(Change(id_, Retry("ann")))
    assert settled.write.refused.code == "conflict"
    assert await world.life(id_) == before


async def test_unchanged_write_gives_the_lease_back(world: World) -> None:
    """A decision that nothing follows still ends the lease and keeps the attempt and the notes."""
    id_ = await world.one()
    claimed = await world.begin()

    def nothing(row: Row, change: Change, held: bool, now: int) -> Write:
        return Write(row.state, changed=False, attempt=change.attempt, notes=(Note("seen"),))

    await world.store.settle([world.answer(claimed)], nothing, now=world.now)
    life = await world.life(id_)
    assert life.row.lease is None
    assert len(life.attempts) == 1
    assert [note.kind for note in life.notes] == ["seen"]
    assert len((await world.claim()).rows) == 1


async def test_nothing_open_is_left_without_due_work(world: World) -> None:
    """A change that ends the lease but names no due work parks the row where the sweep finds it."""
    id_ = await world.one()
    claimed = await world.begin()

    def vague(row: Row, change: Change, held: bool, now: int) -> Write:
        return Write(replace(row.state, version=row.state.version + 1))

    await world.store.settle([world.answer(claimed)], vague, now=world.now)
    assert (await world.life(id_)).due.purpose == "hold"
    swept = await world.store.sweep(world.decide, max_age={"email": SECOND}, now=world.now + SECOND)
    assert swept[0].write.state.status is Status.EXPIRED


async def test_bad_text_in_an_answer(world: World) -> None:
    """U+0000 and lone surrogates from a provider are replaced, in every text of the row."""
    id_ = await world.one()
    outcome = Outcome(OutcomeClass.INVALID_PAYLOAD, Code.INVALID_PAYLOAD, "a\x00", text="b\udfff\x00")
    claimed = await world.begin()
    await world.settle(world.answer(claimed, outcome, answer="\x00{\ud800", provider_code="\x00"))
    life = await world.life(id_)
    assert life.attempts[0].answer == "\ufffd{\ufffd"
    assert life.row.state.last_error.provider_code == "a\ufffd"


async def test_a_row_the_database_refuses_does_not_harm_its_neighbours(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When values are refused, rows are settled one by one; the bad one keeps its verdict without the answer."""
    monkeypatch.setattr("ringonce.store.settle.attempt_values", _poisonous)
    bad, good, hopeless = [await world.one(f"e-{number}") for number in range(3)]
    claimed = (await world.claim()).rows
    await world.mark(*claimed)
    texts = ["poison", "fine", "poison"]
    changes = [world.answer(c, answer=text) for c, text in zip(claimed, texts, strict=True)]
    changes[2] = replace(changes[2], attempt=replace(changes[2].attempt, account=None))
    settled = await world.settle(*changes)
    assert [s.write and s.write.state.status for s in settled] == [Status.SENT, Status.SENT, None]
    answers = [[a.answer for a in (await world.life(id_)).attempts] for id_ in (bad, good, hopeless)]
    assert answers == [[""], ["fine"], []]
    assert (await world.life(hopeless)).row.lease is not None
    assert "can not be stored" in caplog.text


def _poisonous(id_: UUID, row: AttemptRow) -> tuple[object, ...]:
    """As if the database did not take this raw answer: a null where none may be."""
    values = attempt_values(id_, row)
    return (*values[:4], None, *values[5:]) if row.answer == "poison" else values


async def test_a_row_that_can_not_be_decided_does_not_harm_its_neighbours(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in one decision is logged and leaves that row as it was; alone, it is raised."""
    id_ = await world.one("e-1")
    await world.one("e-2")
    bug = Change(id_, Enqueued(world.now))
    one, two = (await world.claim()).rows
    await world.mark(one, two)
    broken, sent = await world.settle(bug, world.answer(two))
    assert broken.write is None
    assert sent.write.state.status is Status.SENT
    assert "can not be settled" in caplog.text
    with pytest.raises(IllegalTransition):
        await world.settle(bug)


async def test_counters_of_a_write_are_kept(world: World) -> None:
    """Durable counters named by a decision are added up per day, tenant and channel."""
    id_ = await world.one()
    await world.store.count("", "email", "duplicates_refused", 2, now=world.now)
    change = Change(id_, Cancel("ann"))

    def counting(row: Row, change: Change, held: bool, now: int) -> Write:
        return replace(world.decide(row, change, held, now), counters=("duplicates_refused",))

    await world.store.settle([change], counting, now=world.now)
    assert (await world.store.report(channel="email"))[0]["duplicates_refused"] == 3


async def test_repeats_are_counted(world: World) -> None:
    """A call after one that may have arrived is a repeat, unless that one proves not to have arrived."""
    id_ = await world.one()
    await world.send(SILENCE)
    world.now += 10 * SECOND
    await world.arm()
    await world.send(ACCEPTED, 2)
    assert (await world.store.report())[0]["repeats"] == 1
    denied = world.answer((await _claimed_like(world, id_)), UNREACHABLE)
    await world.settle(replace(denied, guard=("gone", 1)))
    assert (await world.store.report())[0]["repeats"] == 0


async def _claimed_like(world: World, id_):  # noqa: ANN001, ANN202
    from ringonce.ports import Lease

    life = await world.life(id_)
    row = replace(life.row, lease=Lease("gone", 1, 0), state=replace(life.row.state, revision=1))
    return Claimed(row, life.content)


async def test_a_large_batch_is_one_transaction(world: World) -> None:
    """Hundreds of results of one flush are settled together."""
    who = tuple(Recipient(f"u-{i}", addresses={"email": (f"u{i}@example.com",)}) for i in range(100))
    await world.accept(*(Event(f"e-{i}", recipients=who, channels=("email",)) for i in range(3)))
    claimed = (await world.claim(300)).rows
    assert len(claimed) == 300
    marked = await world.mark(*claimed)
    assert len(marked.begun) == 300
    settled = await world.settle(*(world.answer(c) for c in claimed))
    assert all(s.lease_held for s in settled)
    assert (await world.store.report())[0]["sent"] == 300


async def test_longer_pauses_win(world: World) -> None:
    """A pause never shortens one that stands, and an indefinite one stays until it is resumed."""
    await world.store.pause([LanePause("email", "auth")], now=world.now)
    await world.store.pause([LanePause("email", "rate_limited", world.now + 1)], now=world.now)
    (lane,) = await world.store.lanes()
    assert (lane.paused, lane.until, lane.reason) == (True, None, "auth")
    assert await world.store.resume("email")
    assert not await world.store.resume("email")
    assert not (await world.store.lanes())[0].paused


async def test_bad_text_everywhere(world: World) -> None:
    """Names from outside with U+0000 or lone surrogates never make the database refuse a call."""
    bad = "x\x00\ud800"
    store, now = world.store, world.now
    await store.register(bad, bad, bad, bad, now=now)
    assert [a.value for a in await store.addresses(bad, bad, bad)] == ["x\ufffd\ufffd"]
    await store.cancel_subject(bad, bad, world.decide, by=bad, now=now)
    await store.pause([LanePause(bad, bad)], now=now)
    assert await store.resume(bad, now=now)
    await store.take_lease(bad, bad, 1, now=now)
    await store.override(bad, {bad: bad}, now=now)
    await store.count(bad, bad, bad, now=now)
    await store.search(Query(tenant=bad, recipient=bad, event_id=bad, event_type=bad, subject=bad, code=bad))
    id_ = await world.one()
    claimed = (await world.claim()).rows[0]
    lease = [(id_, claimed.row.lease.fence)]
    assert await store.release("w-1", lease, note=Note(bad, {bad: bad}), now=now) == 1
    assert (await store.claim(bad, bad, 1, LEASE, now=now)).rows == ()
    assert (await world.life(id_)).notes[0].kind == "x\ufffd\ufffd"
