"""Rescue, sweep, cancel by subject: what no worker reports."""

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.model.notification import Status
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import DAY, InDoubt
from ringonce.model.transition import Retry
from ringonce.ports import AttemptRow, Change, Row, Write
from ringonce.store.rows import attempt_values
from ringonce.store.upkeep import Stuck
from tests.store.kit import LEASE, SECOND, SILENCE, START, UNREACHABLE, World

REFUSED = Outcome(OutcomeClass.INVALID_PAYLOAD, Code.INVALID_PAYLOAD, text="too long")


async def test_unbegun_rows_are_due_again(world: World) -> None:
    """A lease lost before the mark costs nothing: no attempt, due at once."""
    id_ = await world.one()
    await world.claim()
    world.now += LEASE
    assert await world.rescue() == []
    life = await world.life(id_)
    assert life.attempts == ()
    assert life.row.rescued == 1
    assert len((await world.claim(owner="w-2")).rows) == 1


async def test_begun_rows_are_in_doubt(world: World) -> None:
    """A lease lost after the mark leaves an attempt without a verdict, and the policy decides."""
    id_ = await world.one()
    await world.begin()
    world.now += LEASE
    (settled,) = await world.rescue()
    assert settled.lease_held
    life = await world.life(id_)
    (attempt,) = life.attempts
    assert (attempt.number, attempt.outcome, attempt.ended_at) == (1, "unknown", None)
    assert life.row.state.status is Status.FAILED
    assert life.row.state.unknown == (1,)
    assert life.row.lease is None


async def test_assume_sent_never_sends_again(world: World) -> None:
    """Under ``assume_sent`` a begun call that is lost ends as sent, assumed."""
    world.policy = replace(world.policy, in_doubt=InDoubt.ASSUME_SENT)
    id_ = await world.one()
    await world.begin()
    world.now += LEASE
    await world.rescue()
    life = await world.life(id_)
    assert life.row.state.assumed
    assert life.due is None
    report = (await world.store.report())[0]
    assert (report["sent"], report["assumed"]) == (1, 1)


async def test_live_leases_are_not_rescued(world: World) -> None:
    """Nothing happens before the lease's end."""
    await world.one()
    await world.begin()
    world.now += LEASE - 1
    assert await world.rescue() == []


async def test_a_row_that_kills_its_workers_is_given_up(world: World) -> None:
    """After five lost leases in a row the next one is the last."""
    id_ = await world.one()
    for _ in range(5):
        assert len((await world.claim()).rows) == 1
        world.now += LEASE
        assert await world.rescue() == []
    await world.begin()
    world.now += LEASE
    await world.rescue()
    state = (await world.life(id_)).row.state
    assert state.final
    assert state.last_error.code == "NTF_WORKER_CRASH"


async def test_an_answer_clears_the_count_of_crashes(world: World) -> None:
    """The count is of lost leases in a row: a worker that answered was not killed."""
    id_ = await world.one()
    await world.claim()
    world.now += LEASE
    await world.rescue()
    await world.send(UNREACHABLE)
    assert (await world.life(id_)).row.rescued == 0


async def test_one_row_that_fails_does_not_stop_the_rescue(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """When a batch can not be decided, rows are rescued one by one."""
    bad, good = await world.one("e-1"), await world.one("e-2")
    await world.begin()
    await world.begin()
    world.now += LEASE

    def decide(row: Row, change: Change, held: bool, now: int) -> Write:
        if row.id == bad:
            raise KeyError("a bug")
        return world.decide(row, change, held, now)

    (settled,) = await world.store.rescue(decide, now=world.now)
    assert settled.row.id == good
    assert "can not be moved on" in caplog.text


@pytest.mark.parametrize("duty", ["rescue", "sweep"])
async def test_rows_that_fail_hold_up_no_others(world: World, duty: str) -> None:
    """The oldest rows, if they can not be moved on, are passed over for a while: those behind them get their turn."""
    ids = [await world.one(f"e-{number}", expires_at=world.now + LEASE) for number in range(6)]
    bad = set(ids[:4])
    if duty == "rescue":
        for _ in ids:
            await world.begin()
            world.now += 1
    world.now += LEASE

    def decide(row: Row, change: Change, held: bool, now: int) -> Write:
        if row.id in bad:
            raise KeyError("a bug")
        return world.decide(row, change, held, now)

    async def turn() -> list[UUID]:
        if duty == "rescue":
            done = await world.store.rescue(decide, limit=2, now=world.now)
        else:
            done = await world.store.sweep(decide, max_age={}, limit=2, now=world.now)
        return [one.row.id for one in done]

    assert [await turn() for _ in range(3)] == [[], [], ids[4:]]
    bad.clear()
    world.store._stuck = Stuck(lambda: 0.0)
    assert [await turn() for _ in range(2)] == [ids[:2], ids[2:4]]


def test_a_row_that_fails_again_waits_longer() -> None:
    """It is passed over for 5 s, then for 10, for 5 minutes at last; when it went on, it is as new."""
    now, id_ = 0.0, UUID(int=1)
    stuck = Stuck(lambda: now)
    waits = []
    for _ in range(8):
        stuck.failed(id_)
        began = now
        while stuck.now():
            now += 2.5
        waits.append(now - began)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    stuck.moved(id_)
    stuck.failed(id_)
    now += 5
    assert stuck.now() == []


async def test_a_refused_row_is_logged_without_its_values(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that the database refuses stay out of the log: it names the notification and the error, no trace."""
    bad, good = await world.one("e-1"), await world.one("e-2")
    await world.begin()
    await world.begin()
    world.now += LEASE

    def poisonous(id_: UUID, row: AttemptRow) -> tuple[object, ...]:
        values = attempt_values(id_, row)
        return (*values[:4], None, *values[5:]) if id_ == bad else values

    monkeypatch.setattr("ringonce.store.settle.attempt_values", poisonous)
    (settled,) = await world.rescue()
    assert settled.row.id == good
    (record,) = (r for r in caplog.records if r.name == "ringonce.store" and r.levelname == "ERROR")
    assert record.getMessage() == f"notification {bad} can not be moved on: DataRefusedError"
    assert record.exc_info is None


async def test_expiry(world: World) -> None:
    """A row past ``expires_at`` ends, also in a paused lane; a leased one is left to its worker."""
    first = await world.one("e-1", expires_at=world.now + SECOND)
    second = await world.one("e-2", expires_at=world.now + SECOND)
    await world.one("e-3")
    await world.claim(1)
    world.now += SECOND
    swept = await world.store.sweep(world.decide, max_age={}, now=world.now)
    assert [s.row.id for s in swept] == [second]
    assert (await world.life(second)).row.state.status is Status.EXPIRED
    assert (await world.life(first)).row.state.status is Status.PENDING


async def test_max_age(world: World) -> None:
    """Rows older than their channel allows end; ``None`` allows any age."""
    await world.one("e-1")
    other = await world.one("e-2", channel="push")
    world.now += SECOND
    ages = {"email": None, "push": SECOND}
    swept = await world.store.sweep(world.decide, max_age=ages, now=world.now)
    assert [(s.row.id, s.change.event.reason) for s in swept] == [(other, "max_age")]


async def test_max_age_counts_from_the_time_something_is_due(world: World) -> None:
    """What is scheduled for later than its channel's ``max_age`` is as old as it has been due."""
    id_ = await world.one(send_at=world.now + 14 * DAY)
    ages = {"email": 7 * DAY}
    for days in (8, 14, 20):
        assert await world.store.sweep(world.decide, max_age=ages, now=START + days * DAY) == []
    (swept,) = await world.store.sweep(world.decide, max_age=ages, now=START + 21 * DAY)
    assert (swept.row.id, swept.change.event.reason) == (id_, "max_age")


@pytest.mark.parametrize("doubt", [False, True], ids=["failed", "in doubt"])
async def test_a_persons_retry_begins_the_age_anew(world: World, doubt: bool) -> None:
    """What is older than ``max_age`` and retried by a person has that time once more."""
    world.policy = replace(world.policy, in_doubt=InDoubt.HOLD)
    id_ = await world.one()
    await world.send(SILENCE if doubt else REFUSED)
    world.now += 8 * DAY
    await world.settle(Change(id_, Retry("ann", force=doubt)))
    ages = {"email": 7 * DAY}
    assert await world.store.sweep(world.decide, max_age=ages, now=world.now + 7 * DAY - 1) == []
    (swept,) = await world.store.sweep(world.decide, max_age=ages, now=world.now + 7 * DAY)
    assert swept.write.state.status is Status.EXPIRED


async def test_a_retry_by_itself_keeps_the_age(world: World) -> None:
    """What the machine tries again within one revision grows older all the same."""
    await world.one()
    await world.send(UNREACHABLE)
    (swept,) = await world.store.sweep(world.decide, max_age={"email": 7 * DAY}, now=START + 7 * DAY)
    assert swept.change.event.reason == "max_age"


async def test_hold_for_ends_a_doubt(world: World) -> None:
    """When the time of a hold is over, it is assumed sent."""
    world.policy = replace(world.policy, in_doubt=InDoubt.HOLD, hold_for=SECOND)
    id_ = await world.one()
    await world.send(SILENCE)
    assert await world.store.sweep(world.decide, max_age={}, now=world.now) == []
    world.now += SECOND
    await world.store.sweep(world.decide, max_age={}, now=world.now)
    life = await world.life(id_)
    assert life.row.state.assumed
    assert life.notes[-1].detail["by"] == "hold_for"


async def test_cancel_by_subject(world: World) -> None:
    """Everything of a subject that is not over is cancelled; what has begun answers that it is too late."""
    begun = await world.one("e-1", subject="order:1")
    await world.begin()
    waiting = await world.one("e-2", subject="order:1", send_at=world.now + SECOND)
    other = await world.one("e-3", subject="order:2")
    tenant = await world.one("e-4", subject="order:1", tenant="acme")
    settled = await world.store.cancel_subject("", "order:1", world.decide, by="ann", now=world.now)
    refused = {s.row.id: s.write.refused.code if s.write.refused else None for s in settled}
    assert refused == {begun: "too_late", waiting: None}
    for id_ in (other, tenant):
        assert (await world.life(id_)).row.state.status is Status.PENDING


async def test_cancel_by_subject_again(world: World) -> None:
    """Cancelling twice finds nothing more to do."""
    await world.one(subject="order:1")
    await world.store.cancel_subject("", "order:1", world.decide, now=world.now)
    assert await world.store.cancel_subject("", "order:1", world.decide, now=world.now) == []
