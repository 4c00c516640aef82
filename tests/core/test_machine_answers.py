"""What an answer in time makes of a notification."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringonce.core.machine import step
from ringonce.core.tally import exhausted
from ringonce.errors import IllegalTransition
from ringonce.model.notification import LastError, Spent, State, Status
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import Backoff, Budgets, InDoubt, OnAuth, Policy
from ringonce.model.transition import Alert, Answered, Enqueued, Invalidate, Pause, Send, Step
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


def test_accepted_is_sent() -> None:
    """An accepted call is sent by fact: id kept, nothing due, one event of each kind."""
    made = answered(OK)
    assert made.state == State(Status.SENT, 2, attempts=1, message_id="m1", rests_on=1)
    assert (made.state.final, made.state.assumed) == (True, False)
    assert emitted(made) == [{"status": "Sent", "revision": 1, "code": None, "assumed": False}]
    assert [e["status"] for e in emitted(made, "notification.status_changed")] == ["Sent"]
    assert effects(made, Send) == []


def test_retriable_failure_waits() -> None:
    """A01: Pending -> Failed, attempts 1, next_attempt_at = now + backoff(1), the code, and no *dispatched*."""
    made = answered(DOWN)
    error = LastError("NTF_PROVIDER_TRANSIENT", "503", "try later")
    assert (made.state.status, made.state.attempts, made.state.last_error) == (Status.FAILED, 1, error)
    assert made.state.next_attempt_at == NOW + 5 * S
    assert effects(made, Send) == [Send(NOW + 5 * S, armed=False)]
    assert (emitted(made), made.state.final) == ([], False)
    assert [e["status"] for e in emitted(made, "notification.status_changed")] == ["Failed"]


def fail_until_end(outcome: Outcome, policy: Policy) -> list[State]:
    """The states after each call, up to the terminal one."""
    states, state = [], ready()
    for attempt in range(1, 100):
        made = answered(outcome, state=state, attempt=attempt, policy=policy)
        state = made.state
        states.append(state)
        if state.final:
            assert len(emitted(made)) == 1
            assert [a.kind for a in effects(made, Alert)] == ["exhausted"]  # type: ignore[attr-defined]
            return states
        assert (emitted(made), effects(made, Alert)) == ([], [])
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    ("outcome", "policy", "calls"),
    [
        (DOWN, PLAIN, 4),
        (LIMITED, PLAIN, 6),
        (DOWN, replace(PLAIN, budgets=Budgets(transient=0)), 1),
        (DOWN, replace(PLAIN, max_attempts=2), 2),
        (DOWN, replace(PLAIN, max_attempts=1), 1),
        (out("transient", ambiguous=True), replace(PLAIN, in_doubt="resend"), 4),
        (SILENT, replace(PLAIN, in_doubt="resend", budgets=Budgets(unknown=1)), 2),
        (out("rate_limited", ambiguous=True), replace(PLAIN, in_doubt="hold"), 6),
    ],
)
def test_budgets(outcome: Outcome, policy: Policy, calls: int) -> None:
    """A class's budget counts retries, max_attempts counts calls; whichever is spent first ends it."""
    states = fail_until_end(outcome, policy)
    assert len(states) == calls
    assert [s.attempts for s in states] == list(range(1, calls + 1))
    assert all(s.next_attempt_at is not None for s in states[:-1])
    assert states[-1].next_attempt_at is None


def test_classes_have_their_own_budgets() -> None:
    """Three transient failures and five rate limits may follow each other; the delays count per class."""
    state, delays = ready(), []
    for attempt, outcome in enumerate([DOWN, LIMITED, DOWN, LIMITED, DOWN, LIMITED, LIMITED, LIMITED], 1):
        state = answered(outcome, state=state, attempt=attempt).state
        delays.append((state.next_attempt_at or 0) - NOW)
    assert [d // S for d in delays] == [5, 20, 10, 40, 20, 80, 160, 320]
    assert state.spent == Spent(0, 3, 5, 0)
    assert not state.final
    assert answered(DOWN, state=state, attempt=9).state.final


def test_a_retry_that_would_expire_ends_it() -> None:
    """No retry is planned at or after expires_at."""
    late = answered(DOWN, state=ready(expires_at=NOW + 5 * S))
    assert (late.state.final, late.state.status) == (True, Status.FAILED)
    assert "expires_at" in effects(late, Alert)[0].text  # type: ignore[attr-defined]
    assert not answered(DOWN, state=ready(expires_at=NOW + 5 * S + 1)).state.final


def test_retry_after_and_floor() -> None:
    """Retry-After and the named floor reach the delay; a channel-wide limit pauses the channel for the hint."""
    limited = Answered(1, out("rate_limited", retry_after_s=600, scope="channel"))
    made = take(begun(ready()), limited, jitter=0.5)
    assert made.state.next_attempt_at == NOW + 630 * S
    assert effects(made, Pause) == [Pause("channel", "rate_limited", NOW + 600 * S)]
    unhinted = answered(out("rate_limited", scope="channel"))
    assert effects(unhinted, Pause) == [Pause("channel", "rate_limited", NOW + 20 * S)]
    assert effects(answered(out("rate_limited", scope="address")), Pause) == []
    assert answered(out("transient", floor="greylist")).state.next_attempt_at == NOW + 300 * S


@pytest.mark.parametrize(
    ("outcome", "drops"),
    [
        (GONE, [Invalidate("NTF_PROVIDER_INVALID_RECIPIENT")]),
        (out("invalid_recipient"), []),
        (out("blocked", drop_address=True, proof_at=7), [Invalidate("NTF_PROVIDER_BLOCKED", 7)]),
        (out("invalid_payload"), []),
        (out("invalid_payload", code=Code.TEMPLATE_INVALID), []),
    ],
)
def test_definite_refusal_ends_at_once(outcome: Outcome, drops: list[Invalidate]) -> None:
    """AC3: one call, terminal, published; the address goes when the answer proves it; no alert."""
    made = answered(outcome)
    assert (made.state.status, made.state.final, made.state.attempts) == (Status.FAILED, True, 1)
    assert emitted(made) == [{"status": "Failed", "revision": 1, "code": str(outcome.code), "assumed": False}]
    assert effects(made, Invalidate) == drops
    assert effects(made, Alert) == []
    notes = ["code_error"] if outcome.cls is OutcomeClass.INVALID_PAYLOAD else []
    assert [n.kind for n in made.notes] == notes


def test_auth_waits() -> None:
    """A refused credential pauses its scope and alerts; the notification waits, uncounted, as it was."""
    made = answered(DENIED, now=NOW + 3)
    assert (made.state.status, made.state.attempts, made.state.spent) == (Status.PENDING, 0, Spent())
    assert made.state.next_attempt_at == NOW + 3
    assert made.state.last_error == LastError("NTF_PROVIDER_AUTH", None, "bad token")
    assert effects(made, Send) == [Send(NOW + 3, armed=True)]
    assert effects(made, Pause) == [Pause("channel", "auth", NOW + 3 + 300 * S)]
    assert [a.kind for a in effects(made, Alert)] == ["auth"]  # type: ignore[attr-defined]
    failed = answered(DOWN).state
    again = answered(replace(DENIED, scope="sender"), state=failed, attempt=2)
    assert (again.state.status, again.state.attempts) == (Status.FAILED, 1)
    assert [p.scope for p in effects(again, Pause)] == ["sender"]  # type: ignore[attr-defined]


def test_auth_may_fail() -> None:
    """B01: under on_auth = fail a refused credential is terminal, counted, and alerted."""
    made = answered(DENIED, policy=replace(PLAIN, on_auth=OnAuth.FAIL))
    assert (made.state.final, made.state.attempts) == (True, 1)
    assert [a.kind for a in effects(made, Alert)] == ["auth"]  # type: ignore[attr-defined]
    assert effects(made, Pause) == []


@pytest.mark.parametrize("cls", ["disabled", "not_implemented"])
def test_a_channel_that_is_off_waits(cls: str) -> None:
    """A07: no attempt is counted and nobody is alerted; the row waits and the channel is paused."""
    made = take(begun(ready()), Answered(1, out(cls), begun=False))
    assert (made.state.status, made.state.attempts, made.state.final) == (Status.PENDING, 0, False)
    assert effects(made, Pause) == [Pause("channel", cls)]
    assert effects(made, Alert) == []
    assert effects(made, Send) == [Send(NOW, armed=True)]
    assert answered(out(cls)).state.attempts == 0


def test_waiting_again_at_the_same_moment_changes_nothing() -> None:
    """The version grows only when a fact changes; the lease is given up all the same."""
    first = answered(out("disabled")).state
    again = answered(out("disabled"), state=first)
    assert again.state == first
    assert again.state.open is False
    assert answered(out("disabled"), state=first, now=NOW + 1).state.version == first.version + 1


def test_what_never_began_counts_nothing() -> None:
    """A call that was not made (local limit, open circuit) delays the row and spends no budget."""
    state = answered(DOWN).state
    for outcome, wait in ((DOWN, 10 * S), (out("rate_limited", retry_after_s=9), 20 * S), (SILENT, 10 * S)):
        made = take(begun(state), Answered(2, outcome, begun=False))
        assert (made.state.attempts, made.state.spent) == (1, state.spent)
        assert made.state.next_attempt_at == NOW + wait
        assert effects(made, Send) == [Send(NOW + wait, armed=True)]
        assert not made.state.final


def test_a_dead_address_found_before_the_call() -> None:
    """Refused before any call: terminal, and no call is counted."""
    made = take(begun(ready()), Answered(1, GONE, begun=False))
    assert (made.state.final, made.state.attempts) == (True, 0)
    assert len(emitted(made)) == 1


def test_stored_without_a_call_is_sent() -> None:
    """A channel without dispatch is sent without a counted call."""
    made = take(ready(), Answered(1, OK, begun=False))
    assert (made.state.status, made.state.attempts) == (Status.SENT, 0)


def test_lowered_max_attempts_ends_without_a_call() -> None:
    """A19: a row that waits is bound by a lowered max_attempts; it ends with the error that it had."""
    state = answered(out("transient", provider_code="502")).state
    lowered = replace(PLAIN, max_attempts=1)
    assert (exhausted(state, PLAIN), exhausted(state, lowered)) == (False, True)
    made = take(begun(state), Answered(2, DOWN, begun=False), policy=lowered)
    assert (made.state.final, made.state.attempts) == (True, 1)
    assert made.state.last_error == state.last_error
    assert [a.kind for a in effects(made, Alert)] == ["exhausted"]  # type: ignore[attr-defined]
    fresh = take(ready(attempts=1), Answered(1, DOWN, begun=False), policy=lowered).state
    assert (fresh.final, fresh.last_error) == (True, LastError("NTF_PROVIDER_TRANSIENT", "503", "try later"))


@pytest.mark.parametrize("kind", ["invalid_recipient", "blocked"])
def test_a_doubted_verdict_waits(kind: str) -> None:
    """Too many addresses are called dead: it waits, uncounted, the address is set apart, the channel stops."""
    doubted = out(kind, drop_address=True, doubted=True, proof_at=7)
    for policy in (PLAIN, replace(PLAIN, on_auth=OnAuth.FAIL, max_attempts=1)):
        made = answered(doubted, policy=policy)
        assert (made.state.status, made.state.attempts, made.state.final) == (Status.PENDING, 0, False)
        assert effects(made, Invalidate) == [Invalidate(str(doubted.code), 7, doubted=True)]
        assert effects(made, Pause) == [Pause("channel", "mass_invalidation")]
        assert effects(made, Alert) == []
        assert [note.kind for note in made.notes] == ["verdict_doubted"]


def test_re_address_goes_to_the_new_address() -> None:
    """The same notification goes to the address's new form at once, twice per revision, then it is a refusal."""
    moved = out("invalid_recipient", re_address="-100200", text="upgraded")
    state = ready()
    for attempt in (1, 2):
        made = answered(moved, state=state, attempt=attempt)
        state = made.state
        assert (state.status, state.attempts, state.spent) == (Status.PENDING, attempt, Spent())
        assert effects(made, Invalidate) == [Invalidate("moved", None, "-100200")]
        assert effects(made, Send) == [Send(NOW, armed=True)]
    assert answered(moved, state=state, attempt=3).state.final


def test_re_address_is_bound_by_max_attempts() -> None:
    """A new address gives no call beyond max_attempts; other failures do not count as moves."""
    moved = out("invalid_recipient", re_address="-100200")
    assert answered(moved, policy=replace(PLAIN, max_attempts=1)).state.final
    state = answered(DOWN, state=answered(LIMITED).state, attempt=2).state
    assert not answered(moved, state=state, attempt=3).state.final


def test_last_error_survives_success() -> None:
    """A18: after a later success attempts and last_error still tell the history."""
    state = answered(OK, state=answered(DOWN).state, attempt=2).state
    assert (state.status, state.attempts, state.next_attempt_at) == (Status.SENT, 2, None)
    assert state.last_error == LastError("NTF_PROVIDER_TRANSIENT", "503", "try later")


def test_code_is_never_missing() -> None:
    """An outcome without a code gets that of its class."""
    error = answered(Outcome(OutcomeClass.BLOCKED)).state.last_error
    assert error is not None
    assert error.code == "NTF_PROVIDER_BLOCKED"


def test_jitter_reaches_the_delay() -> None:
    """Randomness is an argument."""
    policy = Policy(backoff=Backoff(jitter=1 * S))
    made = step(begun(ready()), Answered(1, DOWN), NOW, 0.5, policy)
    assert made.state.next_attempt_at == NOW + 5_500_000


def test_an_answer_after_the_end_is_late() -> None:
    """An answer that meets a decided row is a late one, whoever holds the lease; what never began says nothing."""
    cancelled = take(State(Status.PENDING), Enqueued(NOW, cancelled=True)).state
    assert take(cancelled, Answered(1, OK)).state.rests_on == 1
    assert take(cancelled, Answered(1, OK, begun=False)).state == cancelled
    ended = answered(GONE).state
    assert take(ended, Answered(1, GONE)).state == ended


def test_accepted_is_no_refusal() -> None:
    """A bug that treats success as failure raises instead of losing the notification."""
    from ringonce.core.machine import _refused

    with pytest.raises(IllegalTransition):
        _refused(ready(), OK, NOW, 0.0, PLAIN)


def test_auth_of_one_receiver_stops_nobody_else() -> None:
    """A refused credential of one endpoint delays its own row by the probe's time and pauses no lane."""
    made = answered(replace(DENIED, scope="endpoint"))
    assert effects(made, Pause) == []
    assert effects(made, Send) == [Send(NOW + 300 * S, armed=True)]


def test_an_expired_credential_is_renewed_once() -> None:
    """A call refused for a credential that may have expired is made again at once, uncounted, but not twice."""
    expired = replace(DENIED, refresh=True)
    for policy in (PLAIN, replace(PLAIN, on_auth=OnAuth.FAIL)):
        made = answered(expired, policy=policy, now=NOW + 3)
        assert (made.state.status, made.state.attempts, made.state.spent) == (Status.PENDING, 0, Spent())
        assert made.effects == (Send(NOW + 3, armed=True),)
        again = answered(expired, state=made.state, attempt=2, policy=policy)
        assert [a.kind for a in effects(again, Alert)] == ["auth"]  # type: ignore[attr-defined]
        assert (again.state.final, again.state.attempts) == ((False, 0) if policy is PLAIN else (True, 1))
    other = answered(expired, state=replace(ready(), last_error=LastError("NTF_PROVIDER_TRANSIENT")))
    assert effects(other, Alert) == []


def test_auth_of_one_platform_stops_no_other() -> None:
    """A refused credential of one platform pauses the platform only; the row is due, and waits with it."""
    made = answered(replace(DENIED, scope="platform"))
    assert effects(made, Pause) == [Pause("platform", "auth", NOW + 300 * S)]
    assert effects(made, Send) == [Send(NOW, armed=True)]
    assert made.state.attempts == 0


def excused(outcome: Outcome, policy: Policy = PLAIN, *, state: State | None = None) -> Step:
    """The answer to a call that met a provider which is down as a whole."""
    return take(begun(state or ready()), Answered(1, outcome, excused=True), policy=policy)


def test_a_failed_probe_burns_nothing() -> None:
    """A failure that is the provider's own leaves attempts and budgets; the row waits, and can not end by it."""
    last = ready(attempts=3, spent=Spent(transient=3))
    made = excused(DOWN, state=last)
    assert (made.state.attempts, made.state.spent, made.state.final) == (3, Spent(transient=3), False)
    assert made.state.last_error == LastError("NTF_PROVIDER_TRANSIENT", "503", "try later")
    assert effects(made, Send) == [Send(NOW + 40 * S, armed=True)]
    assert take(begun(last), Answered(1, DOWN)).state.final


def test_a_probe_without_a_verdict_keeps_its_doubt() -> None:
    """Under resend the attempt is named unknown, no budget and no call is used; the other policies decide as ever."""
    policy = replace(PLAIN, in_doubt=InDoubt.RESEND, max_attempts=1, budgets=Budgets(0, 0, 0))
    made = excused(SILENT, policy)
    assert (made.state.status, made.state.unknown) == (Status.PENDING, (1,))
    assert (made.state.attempts, made.state.spent) == (1, Spent(base=1))
    assert not exhausted(made.state, policy)
    assert effects(made, Send) == [Send(NOW + 5 * S, armed=True)]
    assert excused(SILENT, replace(policy, in_doubt=InDoubt.ASSUME_SENT)).state.assumed


def test_only_a_transient_failure_is_excused() -> None:
    """A refusal is about the notification, and an accepted probe is sent, whoever was down before."""
    assert excused(GONE).state.final
    assert excused(OK).state.attempts == 1
    limited = excused(LIMITED).state
    assert (limited.attempts, limited.spent) == (1, Spent(rate_limited=1))


def test_one_endpoint_that_lacks_it_stops_nobody_else() -> None:
    """A receiver of its own that answers "not implemented" delays its own row and pauses no lane."""
    absent = Outcome(OutcomeClass.NOT_IMPLEMENTED, scope="endpoint")
    made = answered(absent)
    assert effects(made, Pause) == []
    assert effects(made, Send) == [Send(NOW + 300 * S, armed=True)]
    assert made.state.attempts == 0


@pytest.mark.parametrize("refusal", [DOWN, out("rate_limited", scope="channel")])
def test_elsewhere_it_is_sent_at_once(refusal: Outcome) -> None:
    """Where another provider can be asked, a refusal counts like any, and the next call is due now and armed."""
    made = take(begun(ready()), Answered(1, refusal, elsewhere=True))
    alone = take(begun(ready()), Answered(1, refusal))
    assert (made.state.attempts, made.state.spent) == (alone.state.attempts, alone.state.spent)
    assert effects(made, Send) == [Send(NOW, armed=True)]
    assert effects(made, Pause) == effects(alone, Pause)


def test_elsewhere_a_refused_credential_is_no_end() -> None:
    """Under on_auth = fail, too, another provider is asked before it ends."""
    fails = replace(PLAIN, on_auth=OnAuth.FAIL)
    made = take(begun(ready()), Answered(1, DENIED, elsewhere=True), policy=fails)
    assert effects(made, Send) == [Send(NOW, armed=True)]
    assert take(begun(ready()), Answered(1, DENIED), policy=fails).state.final
