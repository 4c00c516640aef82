"""Calls that began and got no verdict, and verdicts that come late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ringonce.model.notification import Spent, State, Status
from ringonce.model.policy import Budgets, InDoubt
from ringonce.model.transition import (
    Alert,
    Answered,
    Cancel,
    Invalidate,
    LateAnswer,
    LeaseLost,
    Lookup,
    Pause,
    Resolve,
    Retry,
    Send,
    Verdict,
    WakeAt,
)
from tests.core.lives import (
    DENIED,
    DOWN,
    GONE,
    LIMITED,
    NOW,
    OK,
    PLAIN,
    SILENT,
    S,
    answered,
    begun,
    effects,
    emitted,
    out,
    ready,
    take,
)

if TYPE_CHECKING:
    from ringonce.model.outcome import Outcome

RESEND = replace(PLAIN, in_doubt=InDoubt.RESEND)
ASSUME = replace(PLAIN, in_doubt=InDoubt.ASSUME_SENT)
HOLD = replace(PLAIN, in_doubt=InDoubt.HOLD)
LOOKUP = replace(PLAIN, in_doubt=InDoubt.LOOKUP)


def held(**facts: object) -> State:
    """A notification in doubt about attempt 1."""
    return take(begun(ready(**facts)), LeaseLost(1), policy=HOLD).state


def resent() -> State:
    """A notification whose attempt 1 was lost and that waits to be sent again."""
    return take(begun(ready()), LeaseLost(1), policy=RESEND).state


def assumed() -> State:
    """A notification that counts as sent by attempt 1, without a verdict."""
    return take(begun(ready()), LeaseLost(1), policy=ASSUME).state


def failed_for_good() -> State:
    """Terminal, although attempt 1 never got a verdict."""
    return answered(GONE, state=resent(), attempt=2).state


# --- the policy decides ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [LeaseLost(1), Answered(1, SILENT)])
def test_resend(event: LeaseLost | Answered) -> None:
    """Under resend a doubt is a transient failure with backoff, and stays named."""
    made = take(begun(ready()), event, policy=RESEND)
    assert (made.state.status, made.state.attempts, made.state.unknown) == (Status.FAILED, 1, (1,))
    assert made.state.next_attempt_at == NOW + 5 * S
    assert made.state.last_error is not None
    assert made.state.last_error.code == "NTF_PROVIDER_TRANSIENT"
    assert effects(made, Send) == [Send(NOW + 5 * S, armed=False)]
    assert emitted(made) == []


def test_resend_spent() -> None:
    """A doubt with no retry left is terminal and says maybe_sent."""
    made = take(begun(ready()), LeaseLost(1), policy=replace(RESEND, budgets=Budgets(unknown=0)))
    assert (made.state.final, made.state.maybe_sent) == (True, True)
    assert emitted(made)[0]["status"] == "Failed"
    assert [a.kind for a in effects(made, Alert)] == ["exhausted"]  # type: ignore[attr-defined]


def test_unknown_shares_the_transient_budget_unless_it_has_its_own() -> None:
    """Without budgets.unknown a doubt uses the transient budget; with it, its own."""
    assert resent().spent == Spent(0, 1, 0, 0)
    own = take(begun(ready()), LeaseLost(1), policy=replace(RESEND, budgets=Budgets(unknown=2))).state
    assert own.spent == Spent(0, 0, 0, 1)


@pytest.mark.parametrize("event", [LeaseLost(1), Answered(1, SILENT)])
def test_assume_sent(event: LeaseLost | Answered) -> None:
    """Silence is better than a siren: sent, assumed, without an id, published as assumed, never sent again."""
    made = take(begun(ready()), event, policy=ASSUME)
    assert (made.state.status, made.state.rests_on, made.state.unknown) == (Status.SENT, 1, (1,))
    assert (made.state.assumed, made.state.message_id) == (True, None)
    assert emitted(made) == [{"status": "Sent", "revision": 1, "code": None, "assumed": True}]
    assert effects(made, Send) == []


def test_hold() -> None:
    """In doubt, nothing is tried by itself; a wake-up at the end of hold_for, or none."""
    made = take(begun(ready()), LeaseLost(1), policy=HOLD)
    assert (made.state.status, made.state.next_attempt_at, made.state.final) == (Status.IN_DOUBT, None, False)
    assert made.effects == (WakeAt(None),)
    timed = take(begun(ready()), Answered(1, SILENT), policy=replace(HOLD, hold_for=600 * S))
    assert timed.effects == (WakeAt(NOW + 600 * S),)


def test_lookup() -> None:
    """In doubt, the provider is asked after a minute."""
    made = take(begun(ready()), LeaseLost(1), policy=LOOKUP)
    assert (made.state.status, made.effects) == (Status.IN_DOUBT, (Lookup(NOW + 60 * S),))


def test_crashed_too_often() -> None:
    """A notification that keeps killing workers ends, whatever the policy, and alerts."""
    for policy in (RESEND, ASSUME, HOLD):
        made = take(begun(ready()), LeaseLost(1, crashed_too_often=True), policy=policy)
        assert (made.state.final, made.state.maybe_sent, made.state.attempts) == (True, True, 1)
        assert emitted(made)[0]["code"] == "NTF_WORKER_CRASH"
        assert [a.kind for a in effects(made, Alert)] == ["worker_crash"]  # type: ignore[attr-defined]


def test_a_lost_lease_told_twice_counts_once() -> None:
    """A rescue that is repeated changes nothing."""
    for state in (resent(), held(), assumed(), failed_for_good()):
        assert take(state, LeaseLost(1), policy=RESEND).state == state


def test_a_call_lost_after_the_end_is_only_named() -> None:
    """A call that ran while the row was decided is counted and named as a doubt, and decides nothing."""
    cancelled = take(ready(), Cancel("x")).state
    for state in (answered(OK).state, cancelled, failed_for_good()):
        made = take(state, LeaseLost(7), policy=RESEND)
        assert (made.state.status, made.effects) == (state.status, ())
        assert (made.state.unknown, made.state.attempts) == ((*state.unknown, 7), state.attempts + 1)
    assert take(held(), LeaseLost(7), policy=HOLD).state.unknown == (7, 1)


# --- late verdicts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [held, resent, lambda: begun(resent())])
def test_late_arrival_decides(make: object) -> None:
    """An arrival ends the waiting, even while a newer attempt is open: sent by fact, nothing due."""
    made = take(make(), LateAnswer(1, OK), policy=HOLD)  # type: ignore[operator]
    assert (made.state.status, made.state.rests_on, made.state.unknown) == (Status.SENT, 1, ())
    assert (made.state.attempts, made.state.message_id, made.state.open) == (1, "m1", False)
    assert emitted(made) == [{"status": "Sent", "revision": 1, "code": None, "assumed": False}]
    assert effects(made, Send) == []
    assert [n.kind for n in made.notes] == ["late_verdict"]


def test_late_arrival_of_a_call_nobody_counted() -> None:
    """An arrival of an attempt that was never rescued counts its call; one that was counted does not again."""
    assert take(ready(), LateAnswer(1, OK)).state.attempts == 1
    not_sent = take(held(), Resolve(Verdict.NOT_SENT, "ann"), policy=HOLD).state
    assert take(not_sent, LateAnswer(1, OK)).state.attempts == 1


def test_late_arrival_after_terminal_failure() -> None:
    """It arrived after all: sent under a new revision, which publishes."""
    made = take(failed_for_good(), LateAnswer(1, OK))
    assert (made.state.status, made.state.revision, made.state.maybe_sent) == (Status.SENT, 2, False)
    assert emitted(made)[0]["revision"] == 2


def test_late_arrival_confirms_an_assumption() -> None:
    """Sent stays sent, the id is kept, the doubt is gone, and nothing is published twice."""
    made = take(assumed(), LateAnswer(1, OK))
    assert (made.state.status, made.state.assumed, made.state.message_id) == (Status.SENT, False, "m1")
    assert (made.effects, made.state.version) == ((), assumed().version + 1)


def test_an_assumption_moves_to_the_attempt_that_arrived() -> None:
    """If an older doubt proves to have arrived, sent rests on that fact, whatever becomes of the assumption."""
    state = take(begun(resent()), LeaseLost(2), policy=ASSUME).state
    assert (state.rests_on, state.unknown) == (2, (1, 2))
    state = take(state, LateAnswer(1, OK)).state
    assert (state.rests_on, state.unknown, state.assumed) == (1, (2,), False)
    assert take(state, LateAnswer(2, GONE)).state.status is Status.SENT


def test_sent_by_fact_only_records() -> None:
    """What is sent by fact is not rolled back by a late answer, and a repeated answer changes nothing."""
    state = answered(OK, state=resent(), attempt=2).state
    for late in (OK, GONE):
        made = take(state, LateAnswer(1, late))
        assert (made.state.status, made.state.rests_on, made.state.unknown) == (Status.SENT, 2, ())
        assert emitted(made) == []
    for late in (OK, GONE, SILENT):
        assert take(state, LateAnswer(2, late)).state == state
        assert take(state, LateAnswer(9, late)).state == state
    assert take(state, LateAnswer(1, GONE)).effects == (Invalidate("NTF_PROVIDER_INVALID_RECIPIENT"),)


def test_resolved_sent_takes_a_late_message_id() -> None:
    """A person said it is sent; the provider's own answer still brings the message id."""
    state = take(held(), Resolve(Verdict.SENT, "ann"), policy=HOLD).state
    assert take(state, LateAnswer(1, OK)).state.message_id == "m1"


@pytest.mark.parametrize(
    ("outcome", "status", "final"),
    [(DOWN, Status.FAILED, False), (GONE, Status.FAILED, True), (DENIED, Status.FAILED, False)],
)
def test_late_refusal_takes_an_assumption_back(outcome: Outcome, status: Status, final: bool) -> None:
    """What was only assumed reopens as a new revision: back in the loop if that can help, else terminal."""
    made = take(assumed(), LateAnswer(1, outcome))
    assert (made.state.status, made.state.final, made.state.revision) == (status, final, 2)
    assert (made.state.unknown, made.state.rests_on, made.state.attempts) == ((), None, 1)
    assert [e["revision"] for e in emitted(made)] == ([2] if final else [])
    assert [n.kind for n in made.notes] == ["reopened"]


def test_reopening_uses_what_is_left_of_the_budgets() -> None:
    """The machine never gives itself new budgets: only a person does."""
    made = take(assumed(), LateAnswer(1, DOWN))
    assert made.state.spent == Spent(0, 1, 0, 0)
    assert take(assumed(), LateAnswer(1, DOWN), policy=replace(PLAIN, max_attempts=1)).state.final


@pytest.mark.parametrize("policy", [HOLD, replace(HOLD, budgets=Budgets(unknown=2))])
def test_late_refusal_decides_a_doubt(policy: object) -> None:
    """In doubt, a late refusal works like one in time, and is charged to its own class."""
    state = take(begun(ready()), LeaseLost(1), policy=policy).state  # type: ignore[arg-type]
    made = take(state, LateAnswer(1, LIMITED), policy=policy)  # type: ignore[arg-type]
    assert (made.state.status, made.state.unknown, made.state.attempts) == (Status.FAILED, (), 1)
    assert made.state.spent == Spent(0, 0, 1, 0)
    assert effects(made, Send) == [Send(NOW + 20 * S, armed=False)]
    ended = take(state, LateAnswer(1, GONE), policy=policy)  # type: ignore[arg-type]
    assert (ended.state.final, len(emitted(ended))) == (True, 1)


def test_late_wait_of_a_doubt() -> None:
    """In doubt, a late "bad credential" lets it wait for a good one."""
    made = take(held(), LateAnswer(1, DENIED), policy=HOLD)
    assert (made.state.status, made.state.next_attempt_at) == (Status.FAILED, NOW)
    assert [p.reason for p in effects(made, Pause)] == ["auth"]  # type: ignore[attr-defined]
    assert (made.state.attempts, made.state.spent) == (1, Spent(1))
    off = take(held(), LateAnswer(1, out("disabled")), policy=HOLD)
    assert off.state.next_attempt_at == NOW


def test_late_answer_without_verdict_decides_nothing() -> None:
    """An answer that is itself ambiguous leaves the doubt as it is."""
    for state in (held(), resent(), assumed(), failed_for_good()):
        made = take(state, LateAnswer(1, SILENT), policy=HOLD)
        assert (made.state, made.effects) == (state, ())


def test_late_refusal_only_ends_its_doubt_where_the_row_goes_on() -> None:
    """Waiting to be sent again, or failed for good: a refusal of the old attempt is recorded."""
    for state in (resent(), failed_for_good()):
        made = take(state, LateAnswer(1, GONE))
        assert (made.state.status, made.state.next_attempt_at) == (state.status, state.next_attempt_at)
        assert (made.state.unknown, made.state.version) == ((), state.version + 1)
        assert made.effects == (Invalidate("NTF_PROVIDER_INVALID_RECIPIENT"),)
    assert take(ready(), LateAnswer(1, GONE)).state == ready()
    assert take(begun(resent()), LateAnswer(1, GONE)).state.open


def test_the_doubt_is_about_the_newest_attempt() -> None:
    """A verdict on an attempt that was passed over does not send the doubtful one again."""
    state = take(begun(resent()), LeaseLost(2), policy=HOLD).state
    assert take(state, LateAnswer(1, DOWN), policy=HOLD).state.status is Status.IN_DOUBT
    assert take(state, LateAnswer(2, DOWN), policy=HOLD).state.status is Status.FAILED
    assert take(state, LateAnswer(1, OK), policy=HOLD).state.unknown == (2,)


def test_cancelled_stays_but_tells() -> None:
    """A cancelled one stays so; a late arrival shows as maybe_sent, a refusal clears the doubt."""
    cancelled = take(held(), Cancel("shop"), policy=HOLD).state
    assert cancelled.maybe_sent
    arrived = take(cancelled, LateAnswer(1, OK)).state
    assert (arrived.status, arrived.rests_on, arrived.maybe_sent) == (Status.CANCELLED, 1, True)
    assert arrived.message_id == "m1"
    refused = take(cancelled, LateAnswer(1, GONE)).state
    assert (refused.status, refused.maybe_sent) == (Status.CANCELLED, False)


def test_forced_retry_over_a_doubt_ends_by_its_arrival() -> None:
    """After a forced retry the old attempt's arrival still stops the second send."""
    state = take(held(), Retry("ann", force=True), policy=HOLD).state
    made = take(state, LateAnswer(1, OK))
    assert (made.state.status, made.state.revision) == (Status.SENT, 2)
