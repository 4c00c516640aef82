"""What people, the clock and the provider's receipts do to a notification."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringonce.model.notification import Spent, State, Status
from ringonce.model.policy import Budgets
from ringonce.model.transition import (
    Alert,
    Cancel,
    Discard,
    Emit,
    Enqueued,
    Expire,
    Invalidate,
    LeaseLost,
    Read,
    Receipt,
    Resolve,
    Retry,
    Send,
    Step,
    TransitionEvent,
    Verdict,
)
from tests.core.lives import (
    DOWN,
    GONE,
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

HOLD = replace(PLAIN, in_doubt="hold")
HELD = take(begun(ready()), LeaseLost(1), policy=HOLD).state
WAITING = answered(DOWN).state
TERMINAL = answered(GONE).state
SENT = answered(OK).state
CANCELLED = take(ready(), Cancel("shop")).state
SUPPRESSED = take(State(Status.PENDING), Enqueued(NOW, suppressed_by="muted")).state
EXPIRED = take(ready(), Expire()).state
MERGED = State(Status.MERGED, 2)
DRAFT = State(Status.DRAFT, 1)


@pytest.mark.parametrize("state", [ready(), WAITING, HELD, DRAFT])
@pytest.mark.parametrize(
    ("event", "status"),
    [(Cancel("shop", "withdrawn"), Status.CANCELLED), (Expire("max_age"), Status.EXPIRED)],
)
def test_cancel_and_expire_end_what_waits(state: State, event: TransitionEvent, status: Status) -> None:
    """What waits ends, unpublished, with nothing due; an attempt without verdict makes it maybe_sent."""
    made = take(state, event)
    assert (made.state.status, made.state.next_attempt_at, made.effects) == (status, None, ())
    assert made.state.version == state.version + 1
    assert made.state.maybe_sent is (state is HELD)
    assert [n.kind for n in made.notes] == [status.value]


@pytest.mark.parametrize("event", [Cancel("shop"), Expire()])
def test_cancel_loses_to_a_mark(event: TransitionEvent) -> None:
    """Once a call has begun it is too late, and nothing changes."""
    made = take(begun(WAITING), event)
    assert made.refused is not None
    assert (made.refused.code, made.refused.text) == ("too_late", "attempt 2 has started")
    assert (made.state, made.effects, made.notes) == (begun(WAITING), (), ())


@pytest.mark.parametrize("state", [TERMINAL, SENT, CANCELLED, SUPPRESSED, EXPIRED, MERGED])
@pytest.mark.parametrize("event", [Cancel("shop"), Expire(), Resolve(Verdict.SENT, "ann")])
def test_what_has_ended_stays(state: State, event: TransitionEvent) -> None:
    """Cancel, expiry and resolving are refused on what has ended."""
    made = take(state, event)
    assert made.state is state
    assert made.refused is not None
    assert made.refused.code == "already_final"


def test_resolve_sent() -> None:
    """A person says it arrived: sent by fact."""
    made = take(HELD, Resolve(Verdict.SENT, "ann"), policy=HOLD)
    assert (made.state.status, made.state.rests_on, made.state.unknown) == (Status.SENT, 1, ())
    assert emitted(made) == [{"status": "Sent", "revision": 1, "code": None, "assumed": False}]
    assert dict(made.notes[0].detail) == {"verdict": "sent", "by": "ann"}


def test_resolve_assumed() -> None:
    """The end of hold_for assumes: sent, and the doubt stays named."""
    made = take(HELD, Resolve(Verdict.ASSUMED, "hold_for"), policy=HOLD)
    assert (made.state.assumed, made.state.unknown) == (True, (1,))
    assert emitted(made)[0]["assumed"] is True


def test_resolve_not_sent() -> None:
    """A person says it did not arrive: sent again at once, unless the budget is spent."""
    made = take(HELD, Resolve(Verdict.NOT_SENT, "ann"), policy=HOLD)
    assert (made.state.status, made.state.next_attempt_at, made.state.unknown) == (Status.FAILED, NOW, ())
    assert effects(made, Send) == [Send(NOW, armed=True)]
    strict = replace(HOLD, budgets=Budgets(transient=0))
    ended = take(HELD, Resolve(Verdict.NOT_SENT, "ann"), policy=strict)
    assert (ended.state.final, len(emitted(ended)), ended.state.maybe_sent) == (True, 1, False)
    assert len(effects(ended, Alert)) == 1
    older = take(replace(HELD, unknown=(1, 2)), Resolve(Verdict.NOT_SENT, "ann"), policy=strict)
    assert (older.state.unknown, older.state.maybe_sent) == ((1,), True)  # nobody spoke about attempt 1
    blank = take(replace(HELD, last_error=None), Resolve(Verdict.NOT_SENT, "ann"), policy=strict)
    assert emitted(blank)[0]["code"] == "NTF_PROVIDER_TRANSIENT"


@pytest.mark.parametrize("state", [ready(), WAITING, DRAFT])
def test_resolve_needs_a_doubt(state: State) -> None:
    """There is nothing to resolve where nothing is in doubt."""
    refused = take(state, Resolve(Verdict.SENT, "ann")).refused
    assert refused is not None
    assert refused.code == "conflict"


@pytest.mark.parametrize("state", [TERMINAL, WAITING])
def test_retry(state: State) -> None:
    """A person's retry: due now, new revision, new budgets; attempts go on counting."""
    made = take(state, Retry("ann"), now=NOW + 7)
    assert (made.state.status, made.state.revision, made.state.next_attempt_at) == (
        Status.PENDING,
        2,
        NOW + 7,
    )
    assert (made.state.attempts, made.state.spent) == (1, Spent(1))
    assert made.effects == (Send(NOW + 7, armed=True),)
    assert made.state.last_error == state.last_error
    assert dict(made.notes[0].detail) == {"by": "ann", "force": False, "revision": 2}


def test_retry_budgets_start_anew() -> None:
    """After a retry a whole budget is there again, and the end publishes under the new revision."""
    once = replace(PLAIN, max_attempts=2)
    state = answered(DOWN, state=WAITING, attempt=2, policy=once).state
    assert state.final
    state = take(state, Retry("ann")).state
    state = answered(DOWN, state=state, attempt=3, policy=once).state
    assert not state.final
    made = answered(DOWN, state=state, attempt=4, policy=once)
    assert (made.state.final, made.state.attempts) == (True, 4)
    assert emitted(made)[0]["revision"] == 2


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (SENT, "conflict"),
        (ready(), "conflict"),
        (DRAFT, "conflict"),
        (HELD, "in_doubt"),
        (begun(WAITING), "too_late"),
        (CANCELLED, "already_final"),
        (EXPIRED, "already_final"),
        (SUPPRESSED, "already_final"),
        (MERGED, "already_final"),
        (replace(TERMINAL, expires_at=NOW), "expired"),
    ],
)
def test_retry_refused(state: State, code: str) -> None:
    """A retry is refused where it would send twice, is not needed, or comes too late."""
    made = take(state, Retry("ann"))
    assert made.refused is not None
    assert (made.refused.code, made.state) == (code, state)


def test_forced_retry() -> None:
    """Force sends a sent one again, and over a doubt, which stays named."""
    again = take(SENT, Retry("ann", force=True)).state
    assert (again.status, again.revision, again.rests_on, again.message_id) == (Status.PENDING, 2, None, None)
    over = take(HELD, Retry("ann", force=True), policy=HOLD).state
    assert (over.status, over.unknown) == (Status.PENDING, (1,))
    in_time = replace(TERMINAL, expires_at=NOW + 1)
    assert take(in_time, Retry("ann")).state.status is Status.PENDING


@pytest.mark.parametrize(
    "state", [ready(), WAITING, HELD, SENT, CANCELLED, SUPPRESSED, EXPIRED, MERGED, DRAFT]
)
def test_read_is_a_fact(state: State) -> None:
    """Reading changes no status and no version; it is noted."""
    made = take(state, Read())
    assert (made.state, made.effects, made.notes[0].kind) == (state, (), "read")


# --- receipts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["delivered", "read"])
def test_good_receipt_confirms(kind: str) -> None:
    """A10: on what is sent by fact a good receipt changes nothing but the timeline."""
    made = take(SENT, Receipt(1, kind))
    assert (made.state, made.effects) == (SENT, ())
    assert dict(made.notes[0].detail) == {"attempt": 1, "kind": kind, "code": None}


def test_good_receipt_decides_a_doubt() -> None:
    """A08: a receipt that carries our reference settles the doubt to sent."""
    made = take(HELD, Receipt(1, "delivered"), policy=HOLD)
    assert (made.state.status, made.state.assumed, len(emitted(made))) == (Status.SENT, False, 1)
    assert [n.kind for n in made.notes] == ["receipt", "late_verdict"]
    assumed = take(begun(ready()), LeaseLost(1)).state
    confirmed = take(assumed, Receipt(1, "delivered"))
    assert (confirmed.state.assumed, emitted(confirmed)) == (False, [])


def test_failed_receipt_reopens() -> None:
    """A10: sent -> failed, a new revision, back in the loop; published again when it ends again."""
    made = take(SENT, Receipt(1, "failed"))
    assert (made.state.status, made.state.revision, made.state.rests_on) == (Status.FAILED, 2, None)
    assert effects(made, Send) == [Send(NOW + 5 * S, armed=False)]
    assert emitted(made) == []
    assert [n.kind for n in made.notes] == ["receipt", "reopened"]
    ended = take(SENT, Receipt(1, "failed", out("blocked")))
    assert [e["revision"] for e in emitted(ended)] == [2]
    told = take(SENT, Receipt(1, "failed", out("blocked", provider_code="131000"))).notes[0]
    assert told.detail["provider_code"] == "131000"
    assert take(SENT, Receipt(1, "failed", SILENT)).state == SENT
    odd = take(SENT, Receipt(1, "failed", OK)).state
    assert odd.last_error is not None
    assert odd.last_error.code == "NTF_PROVIDER_TRANSIENT"


def test_failed_receipts_exhaust() -> None:
    """AC7: a provider that accepts and then reports failure can not keep it in the loop for ever."""
    state, revision = ready(), 1
    for attempt in range(1, 20):
        state = answered(OK, state=state, attempt=attempt).state
        state = take(state, Receipt(attempt, "failed")).state
        revision += 1
        assert state.revision == revision
        if state.final:
            break
    assert (state.status, state.attempts) == (Status.FAILED, 4)


def test_a_report_of_having_sent_only_ends_a_doubt() -> None:
    """That the call was taken settles a doubt about it; on anything else it says nothing new."""
    made = take(HELD, Receipt(1, "sent", replace(OK, message_id="m-7")), policy=HOLD)
    assert (made.state.status, made.state.assumed, made.state.message_id) == (Status.SENT, False, "m-7")
    failed = take(SENT, Receipt(1, "failed")).state
    for state in (SENT, failed, ready()):
        assert take(state, Receipt(1, "sent")) == Step(state)


def test_an_arrival_wins_over_a_failure() -> None:
    """Failed before delivered or after it: the end is the same, sent."""
    assert take(SENT, Receipt(1, "failed", confirmed=True)).state == SENT
    failed = take(SENT, Receipt(1, "failed", out("blocked"))).state
    arrived = take(failed, Receipt(1, "delivered")).state
    assert (arrived.status, arrived.rests_on, arrived.revision) == (Status.SENT, 1, 3)


def test_a_second_failure_still_tells_of_the_address() -> None:
    """HOOK-05: a hard bounce after a soft one drops the address, a soft one after a hard one nothing."""
    dead = replace(out("invalid_recipient"), drop_address=True)
    soft = take(SENT, Receipt(1, "failed")).state
    hard = take(soft, Receipt(1, "failed", dead))
    assert hard.state == soft
    assert effects(hard, Invalidate) == [Invalidate("NTF_PROVIDER_INVALID_RECIPIENT")]
    ended = take(SENT, Receipt(1, "failed", dead)).state
    assert take(ended, Receipt(1, "failed")).effects == ()


def test_receipt_belongs_to_an_attempt() -> None:
    """A failed receipt of an attempt that the status does not rest on reopens nothing."""
    state = answered(OK, state=WAITING, attempt=2).state
    assert take(state, Receipt(1, "failed")).state == state
    twice = take(take(SENT, Receipt(1, "failed")).state, Receipt(1, "failed"))
    assert twice.state.revision == 2


@pytest.mark.parametrize("state", [SUPPRESSED, MERGED, DRAFT, CANCELLED])
def test_stray_receipt(state: State) -> None:
    """A receipt for what was not sent is noted, and no more."""
    made = take(state, Receipt(1, "failed"))
    assert (made.state, made.effects, made.notes[0].kind) == (state, (), "receipt")


@pytest.mark.parametrize("state", [TERMINAL, replace(TERMINAL, unknown=(1,))])
def test_a_failure_is_discarded(state: State) -> None:
    """A person lets a terminal failure be: cancelled, nothing published, told by whom; a doubt stays named."""
    made = take(state, Discard("ann", "known outage"))
    assert (made.state.status, made.state.final, made.effects) == (Status.CANCELLED, True, ())
    assert (made.notes[0].kind, made.notes[0].detail) == (
        "discarded",
        {"by": "ann", "reason": "known outage"},
    )
    assert made.state.maybe_sent == bool(state.unknown)
    assert take(made.state, Retry("ann", force=True)).refused is not None


def test_a_draft_that_is_let_be_is_rejected() -> None:
    """Whoever follows drafts is told when one that failed is discarded."""
    made = take(TERMINAL, Discard("ann", "known outage", draft=True))
    (told,) = [effect for effect in made.effects if isinstance(effect, Emit)]
    assert (made.state.status, told.kind) == (Status.CANCELLED, "draft.rejected")
    assert (told.data["by"], told.data["reason"], told.data["version"]) == (
        *("ann", "known outage"),
        made.state.version,
    )
    assert made.notes[0].kind == "draft_rejected"


@pytest.mark.parametrize(
    "state", [ready(), WAITING, HELD, SENT, CANCELLED, SUPPRESSED, EXPIRED, MERGED, DRAFT]
)
def test_nothing_else_is_discarded(state: State) -> None:
    """What is no terminal failure stays as it is, and the person learns why."""
    made = take(state, Discard("ann"))
    assert (made.state, made.refused and made.refused.code) == (state, "conflict")


def test_a_reply_in_doubt_is_not_sent_again_by_force() -> None:
    """C06: what may be published is looked at before anything else; a person resolves the doubt first."""
    made = take(HELD, Retry("ann", force=True, reply=True), policy=HOLD)
    assert (made.refused and made.refused.code, made.state) == ("in_doubt", HELD)
    assert take(HELD, Retry("ann", force=True), policy=HOLD).refused is None
