"""The life of a notification: one literal table, and the only place that assigns a status.

``step(state, event, now, jitter, policy)`` looks the pair (status, event type) up in ``TABLE`` and returns what
follows. The table is total; a pair that can only be a bug is ``ILLEGAL`` and raises IllegalTransition. What a
person or a race may well try (a cancel after a mark) is a ``Refusal`` in the Step, never an exception.

* ``version`` grows by one exactly when a fact changed. ``open`` belongs to the lease and is no fact.
* ``attempts`` counts calls begun. ``spent`` is what they used of the budgets since these last began anew: at
  creation, or when a person retries. Reopening by the machine takes what is left, so that a provider that
  accepts and then reports a failure can not keep a notification in the loop for ever.
* ``unknown`` holds the attempts without a verdict. Under ``in_doubt`` the doubt is about the newest of them.
* A verdict that says "it arrived" wins, however late; nothing is sent after it.
* A draft that is written anew rests on the attempt that published its earlier text, until another text takes its place.
* ``next_attempt_at`` is None exactly when nothing more will be tried by itself.
* A revision that ends as sent or terminally failed emits ``notification.dispatched`` once; a later end has a higher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, assert_never

from ringonce.core import looking, refusals, scope, tally
from ringonce.core.backoff import delay
from ringonce.core.standing import BUG, illegal, no_doubt, noted, over, read, refuse, unready, unsure
from ringonce.errors import IllegalTransition
from ringonce.model.notification import LastError, Spent, State, Status
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import InDoubt, OnAuth, Policy
from ringonce.model.transition import (
    Alert,
    Answered,
    Approved,
    Cancel,
    Discard,
    Effect,
    Enqueued,
    Expire,
    Fold,
    LateAnswer,
    LeaseLost,
    LookedUp,
    Lookup,
    Note,
    Pause,
    Read,
    Receipt,
    Regenerated,
    Rejected,
    Resolve,
    Retry,
    Send,
    Step,
    TransitionEvent,
    Verdict,
    WakeAt,
)

Handler: TypeAlias = Callable[[State, Any, int, float, Policy], Step]

NEW: Final = State(Status.PENDING)
"""What Enqueued steps: a notification that does not exist yet."""


def step(state: State, event: TransitionEvent, now: int, jitter: float, policy: Policy) -> Step:
    """What follows from ``event``.

    Args:
        state: The facts as they are.
        event: What happened.
        now: Microseconds UTC by the store's clock.
        jitter: Uniform in [0, 1).
        policy: The channel's settings as they are now.

    Raises:
        IllegalTransition: The table has no entry for this status and event: a bug of the caller.
    """
    return TABLE[state.status, type(event)](state, event, now, jitter, policy)


# --- what a handler can build ------------------------------------------------------------------------------------


def _sent(
    s: State,
    attempts: int,
    rests_on: int | None,
    message_id: str | None,
    unknown: tuple[int, ...],
    *,
    spent: Spent | None = None,
    last_error: LastError | None = None,
    notes: tuple[Note, ...] = (),
) -> Step:
    """It is sent, by fact or (``rests_on`` in ``unknown``) by assumption. After an end it is a new revision."""
    revision = s.revision + 1 if s.final else s.revision
    state = State(
        Status.SENT, s.version + 1, revision, attempts, spent or s.spent, unknown, tally.CLOSED, None,
        last_error or s.last_error, message_id, rests_on, s.expires_at,
    )  # fmt: skip
    return Step(state, (tally.changed("Sent", state), tally.dispatched("Sent", state)), notes)


# --- a call that did not succeed: ``g``, the ground, is the old state with the call accounted for -----------------


def _end(
    g: State, spent: Spent, error: LastError, effects: tuple[Effect, ...], notes: tuple[Note, ...]
) -> Step:
    """It failed for good: a person must look."""
    state = tally.on(g, Status.FAILED, spent, None, error)
    emits = (tally.changed("Failed", state, error.code), tally.dispatched("Failed", state, error.code))
    return Step(state, (*emits, tally.AUDIT, *effects), notes)


def _wait(g: State, due: int, error: LastError, effects: tuple[Effect, ...], notes: tuple[Note, ...]) -> Step:
    """Nothing was proved against the notification: it goes on waiting, and no budget is touched."""
    status = Status.PENDING if g.status is Status.PENDING else Status.FAILED
    return Step(tally.on(g, status, g.spent, due, error), (Send(due, armed=True), *effects), notes)


def _retry(
    g: State,
    spent: Spent,
    used: int,
    budget: int,
    due: int,
    error: LastError,
    policy: Policy,
    effects: tuple[Effect, ...],
    notes: tuple[Note, ...],
    *,
    armed: bool = False,
) -> Step:
    """Again if its class has budget left, a call is left, and it would not come too late; else the end."""
    why = tally.no_retry(g, used, budget, due, policy)
    if why is None:
        state = tally.on(g, Status.FAILED, spent, due, error)
        return Step(state, (Send(due, armed), tally.changed("Failed", state, error.code), *effects), notes)
    return _end(g, spent, error, (*effects, Alert("exhausted", f"{why}; last error {error.code}")), notes)


def _refused(
    g: State,
    outcome: Outcome,
    now: int,
    jitter: float,
    policy: Policy,
    notes: tuple[Note, ...] = (),
    *,
    begun: bool = True,
    elsewhere: bool = False,
) -> Step:
    """The provider said no, or we did before the call: what the outcome's class makes of it."""
    error, effects, spent = tally.error_of(outcome), tally.address_effects(outcome), g.spent
    hint = tally.hint(outcome)
    if tally.follows(g, outcome, policy):
        return _wait(g, now, error, effects, notes)
    if outcome.doubted:  # until a person has decided whether the address is dead
        return _wait(g, now, error, effects, (*notes, tally.DOUBTED))
    match outcome.cls:
        case OutcomeClass.TRANSIENT | OutcomeClass.RATE_LIMITED:
            limited = outcome.cls is OutcomeClass.RATE_LIMITED
            used = 1 + (spent.rate_limited if limited else spent.transient)
            due = now + delay(policy, used, jitter, hint, extended=limited, floor=outcome.floor)
            if limited and outcome.scope == "channel":
                effects = (*effects, Pause("channel", "rate_limited", due if hint is None else now + hint))
            due = now if elsewhere else due
            if not begun:
                if tally.exhausted(g, policy):
                    return _retry(g, spent, 0, 0, due, g.last_error or error, policy, effects, notes)
                return _wait(g, due, error, effects, notes)
            spent, budget = tally.failed(spent, used, policy, limited=limited)
            return _retry(g, spent, used, budget, due, error, policy, effects, notes, armed=elsewhere)
        case OutcomeClass.INVALID_RECIPIENT | OutcomeClass.BLOCKED:
            return _end(g, spent, error, effects, notes)
        case OutcomeClass.INVALID_PAYLOAD:
            told = (*notes, Note("code_error", {"code": error.code, "text": error.text}))
            return _end(g, spent, error, effects, told)
        case OutcomeClass.AUTH:
            if begun and tally.heals(g.last_error, outcome):  # at once, with a fresh credential
                return _wait(g, now, error, effects, notes)
            alert = Alert("auth", scope.told(outcome, error.code, "the provider refuses the credential"))
            if policy.on_auth is OnAuth.FAIL and (not elsewhere or tally.exhausted(g, policy)):
                return _end(g, spent, error, (*effects, alert), notes)
            if (pause := scope.pause_of(outcome, now)) is not None:
                return _wait(g, now, error, (*effects, pause, alert), notes)
            if g.last_error is None or g.last_error.code != error.code:  # told once, not at each look
                effects = (*effects, alert)
            return _wait(g, now + scope.PROBE_AFTER, error, effects, notes)
        case OutcomeClass.DISABLED | OutcomeClass.NOT_IMPLEMENTED:
            if (pause := scope.pause_of(outcome, now)) is None:
                return _wait(g, now + scope.PROBE_AFTER, error, effects, notes)
            if scope.apart(pause.scope):
                effects = (
                    *effects,
                    Alert("scope_paused", scope.told(outcome, error.code, "it is not served")),
                )
            return _wait(g, now, error, (*effects, pause), notes)
        case OutcomeClass.ACCEPTED:
            raise IllegalTransition("an accepted answer is no refusal", mend=BUG)
        case _:
            assert_never(outcome.cls)


def _doubt(s: State, attempt: int, outcome: Outcome, now: int, jitter: float, policy: Policy) -> Step:
    """A call began and no verdict came: the channel's policy decides."""
    unknown, spent, error = (*s.unknown, attempt), tally.charged(s.spent, policy, 1), tally.error_of(outcome)
    g = tally.ground(s, s.attempts + 1, s.revision, spent, unknown)
    match policy.in_doubt:
        case InDoubt.RESEND:
            used, budget = tally.doubt_budget(spent, policy)
            due = now + delay(policy, used, jitter, tally.hint(outcome), floor=outcome.floor)
            return _retry(g, spent, used, budget, due, error, policy, (), ())
        case InDoubt.ASSUME_SENT:
            return _sent(s, s.attempts + 1, attempt, None, unknown, spent=spent, last_error=error)
        case InDoubt.HOLD:
            until = None if policy.hold_for is None else now + policy.hold_for
            return Step(tally.on(g, Status.IN_DOUBT, spent, None, error), (WakeAt(until),))
        case InDoubt.LOOKUP:
            return Step(tally.on(g, Status.IN_DOUBT, spent, None, error), (Lookup(now + looking.FIRST),))
        case _:
            assert_never(policy.in_doubt)


# --- handlers: what the table calls --------------------------------------------------------------------------------


def _enqueued(s: State, e: Enqueued, now: int, _jitter: float, _policy: Policy) -> Step:
    """Created: a rule, a withdrawn subject or the clock may end it before it begins."""
    if s.version:
        raise IllegalTransition("a notification is enqueued once", mend=BUG)
    new = State(Status.PENDING, 0, next_attempt_at=e.due_at, expires_at=e.expires_at)
    if e.cancelled:
        return tally.ended(new, Status.CANCELLED, tally.WITHDRAWN)
    if e.suppressed_by is not None:
        return tally.ended(new, Status.SUPPRESSED, Note("suppressed", {"reason": e.suppressed_by}))
    if e.drafted_by is not None:
        return tally.drafted(tally.renewed(new, Status.DRAFT), "created", e.drafted_by)
    if e.expires_at is not None and e.expires_at <= now:
        return tally.ended(new, Status.EXPIRED, Note("expired", {"reason": "expires_at"}))
    if e.invalid is not None:
        return _end(tally.ground(new, 0, 1, new.spent, ()), new.spent, *tally.unwritten(e.invalid))
    if e.stored and e.due_at <= now:
        return _sent(new, 0, None, None, ())
    state = State(Status.PENDING, 1, next_attempt_at=e.due_at, expires_at=e.expires_at)
    return Step(state, (Send(e.due_at, armed=True),))


def _answered(s: State, e: Answered, now: int, jitter: float, policy: Policy) -> Step:
    """The verdict on the call that was awaited, or why it did not even begin."""
    outcome = e.outcome
    if s.final:
        return _after(s, e, now, jitter, policy)
    if outcome.cls is OutcomeClass.ACCEPTED:
        return _sent(s, s.attempts + e.begun, e.attempt, outcome.message_id, s.unknown)
    excused = e.excused and outcome.cls is OutcomeClass.TRANSIENT
    if e.begun and not tally.is_verdict(outcome):
        if excused and policy.in_doubt is InDoubt.RESEND:
            return _wait(*tally.excused(s, e.attempt, outcome, now, jitter, policy), (), ())
        return _doubt(s, e.attempt, outcome, now, jitter, policy)
    begun = e.begun and not excused
    counted = begun and tally.counts(outcome, policy, s.last_error)
    g = tally.ground(s, s.attempts + counted, s.revision, s.spent, s.unknown)
    made = _refused(g, outcome, now, jitter, policy, begun=begun, elsewhere=e.elsewhere)
    # A row that goes back at the very moment it was due: no fact changed, only the lease is given up.
    return made if not tally.same(s, made.state) else Step(tally.released(s), made.effects, made.notes)


def _after(s: State, e: Answered, now: int, jitter: float, policy: Policy) -> Step:
    """The row was decided meanwhile: the answer is late, whoever holds the lease; what never began says nothing."""
    if not e.begun:
        return Step(s)
    late = LateAnswer(e.attempt, e.outcome)
    return TABLE[s.status, LateAnswer](s, late, now, jitter, policy)


def _arrived(s: State, e: LateAnswer) -> Step:
    """It did arrive: nothing is sent any more, whatever was planned. A call nobody had counted counts now."""
    uncounted = e.attempt not in s.unknown and e.attempt > s.attempts
    return _sent(
        s,
        s.attempts + uncounted,
        e.attempt,
        e.outcome.message_id,
        tally.without(s.unknown, e.attempt),
        notes=(tally.late_note(e.attempt, e.outcome),),
    )


def _late(s: State, e: LateAnswer, _now: int, _jitter: float, _policy: Policy) -> Step:
    """Waiting, or failed for good: an arrival decides, a refusal only ends the doubt about its attempt."""
    if e.outcome.cls is OutcomeClass.ACCEPTED:
        return _arrived(s, e)
    if e.attempt not in s.unknown or not tally.is_verdict(e.outcome):
        return Step(s)
    return tally.known(s, tally.without(s.unknown, e.attempt), tally.address_effects(e.outcome))


def _decided(s: State, e: LateAnswer, now: int, jitter: float, policy: Policy) -> Step:
    """In doubt: a verdict on the attempt that the doubt is about decides like an answer in time."""
    arrived = e.outcome.cls is OutcomeClass.ACCEPTED
    if arrived or e.attempt != s.unknown[-1] or not tally.is_verdict(e.outcome):
        return _late(s, e, now, jitter, policy)
    g = tally.taken_back(s, e.attempt, e.outcome, policy, s.revision)
    return _refused(g, e.outcome, now, jitter, policy, (tally.late_note(e.attempt, e.outcome),))


def _proved(s: State, e: LateAnswer, now: int, jitter: float, policy: Policy) -> Step:
    """Sent: by fact it stays; what was only assumed becomes a fact or is taken back."""
    if e.outcome.cls is OutcomeClass.ACCEPTED:
        if s.assumed or s.rests_on == e.attempt:
            message_id = None if s.message_id else e.outcome.message_id
            unknown = tally.without(s.unknown, e.attempt)
            return tally.known(s, unknown, rests_on=e.attempt, message_id=message_id)
        return tally.known(s, tally.without(s.unknown, e.attempt))
    if s.assumed and s.rests_on == e.attempt and tally.is_verdict(e.outcome):
        return _reopened(s, e.attempt, e.outcome, now, jitter, policy)
    return _late(s, e, now, jitter, policy)


def _reopened(s: State, attempt: int, outcome: Outcome, now: int, jitter: float, policy: Policy) -> Step:
    """What it rested on proves false: a new revision, with what is left of the budgets."""
    g = tally.taken_back(s, attempt, outcome, policy, s.revision + 1)
    facts = {"attempt": attempt, "revision": g.revision, "code": tally.error_of(outcome).code}
    return _refused(g, outcome, now, jitter, policy, (Note("reopened", facts),))


def _told(s: State, e: LateAnswer, now: int, jitter: float, policy: Policy) -> Step:
    """Cancelled or expired stays so; an arrival is told all the same (``maybe_sent``)."""
    if e.outcome.cls is not OutcomeClass.ACCEPTED:
        return _late(s, e, now, jitter, policy)
    unknown = tally.without(s.unknown, e.attempt)
    return tally.known(s, unknown, rests_on=e.attempt, message_id=e.outcome.message_id)


def _lost(s: State, e: LeaseLost, now: int, jitter: float, policy: Policy) -> Step:
    """The worker is gone and the call had begun."""
    if s.final:
        return unsure(s, e, now, jitter, policy)
    if e.attempt in s.unknown:
        return Step(s)
    if not e.crashed_too_often:
        return _doubt(s, e.attempt, tally.LOST, now, jitter, policy)
    spent, unknown = tally.charged(s.spent, policy, 1), (*s.unknown, e.attempt)
    g = tally.ground(s, s.attempts + 1, s.revision, spent, unknown)
    told = Alert("worker_crash", f"attempt {e.attempt}: {tally.CRASHED.text}")
    return _end(g, spent, tally.CRASHED, (told,), ())


def _receipt(s: State, e: Receipt, now: int, jitter: float, policy: Policy) -> Step:
    """The provider's report is a late answer that comes from outside. ``sent`` only ends a doubt about its attempt."""
    note, failed = tally.receipt_note(e), e.kind == "failed"
    if e.kind == "sent" and e.attempt not in s.unknown:
        return Step(s)
    if failed and e.confirmed:  # an arrival wins, whatever is said after it
        return Step(s, (), (note,))
    outcome = tally.reported(e.outcome) if failed else e.outcome or tally.ARRIVED
    if failed and s.status is Status.SENT and s.rests_on == e.attempt and tally.is_verdict(outcome):
        made = _reopened(s, e.attempt, outcome, now, jitter, policy)
    else:
        made = TABLE[s.status, LateAnswer](s, LateAnswer(e.attempt, outcome), now, jitter, policy)
    # What it proves about the address holds whatever became of the notification meanwhile.
    return Step(made.state, made.effects or tally.address_effects(outcome), (note, *made.notes))


def _stop(s: State, e: Cancel | Expire, now: int, jitter: float, policy: Policy) -> Step:
    """Cancelled or expired, unless a call has begun: a cancel beats a claim and loses to a mark."""
    if s.final:
        return over(s, e, now, jitter, policy)
    if s.open:
        return refuse(s, "too_late", f"attempt {s.attempts + 1} has started")
    if isinstance(e, Cancel):
        return tally.ended(s, Status.CANCELLED, Note("cancelled", {"by": e.by, "reason": e.reason}))
    return tally.ended(s, Status.EXPIRED, Note("expired", {"reason": e.reason}))


def _resolve(s: State, e: Resolve, now: int, _jitter: float, policy: Policy) -> Step:
    """Somebody who looked (or the end of ``hold_for``) decides the doubt."""
    note = Note("resolved", {"verdict": e.verdict.value, "by": e.by})
    return _undoubted(s, e.verdict, None, now, policy, (note,))


def _looked(s: State, e: LookedUp, now: int, jitter: float, policy: Policy) -> Step:
    """The provider was asked: that may decide the doubt, or it is asked again. Nothing else is a fact."""
    if e.attempt != s.unknown[-1]:
        return Step(s, (Lookup(now),))
    verdict, effects, notes = looking.judge(e, jitter, policy)
    if verdict is None:
        return Step(s, effects, notes)
    return _undoubted(s, verdict, getattr(e.answer, "message_id", None), now, policy, notes)


def _undoubted(
    s: State, verdict: Verdict, message_id: str | None, now: int, policy: Policy, notes: tuple[Note, ...]
) -> Step:
    """The newest doubt is decided: it was sent, or it goes on under its budget as if it had failed."""
    doubt = s.unknown[-1]
    if verdict is not Verdict.NOT_SENT:
        unknown = s.unknown if verdict is Verdict.ASSUMED else tally.without(s.unknown, doubt)
        return _sent(s, s.attempts, doubt, message_id, unknown, notes=notes)
    error = s.last_error or tally.error_of(tally.LOST)
    g = tally.ground(s, s.attempts, s.revision, s.spent, tally.without(s.unknown, doubt))
    used, budget = tally.doubt_budget(s.spent, policy)
    return _retry(g, s.spent, used, budget, now, error, policy, (), notes, armed=True)


def _retried(s: State, e: Retry, now: int, _jitter: float, _policy: Policy) -> Step:
    """A person wants it sent (again): a new revision with all budgets."""
    if (refused := refusals.retry(s, e, now)) is not None:
        return Step(s, refused=refused)
    state = State(
        Status.PENDING, s.version + 1, s.revision + 1, s.attempts, Spent(s.attempts), s.unknown, tally.CLOSED, now,
        s.last_error, None, None, s.expires_at,
    )  # fmt: skip
    note = Note("retried", {"by": e.by, "force": e.force, "revision": state.revision})
    return Step(state, (Send(now, armed=True),), (note,))


# --- drafts ------------------------------------------------------------------------------------------------------


def _approved(s: State, e: Approved, now: int, _jitter: float, _policy: Policy) -> Step:
    """It may be sent. One that failed for good is queued anew, as another revision; one that waits waits on."""
    if s.status in refusals.WAITING or (s.status is Status.FAILED and not s.final):
        return Step(s)  # no second job
    if (refused := refusals.approve(s, e, now)) is not None:
        return Step(s, refused=refused)
    state = tally.renewed(s, Status.PENDING, due=now, error=s.last_error, until=s.expires_at, ended=s.final)
    made = tally.drafted(state, "approved", e.by, auto=e.auto)
    return Step(state, (Send(now, armed=True), *made.effects), made.notes)


def _regenerated(s: State, e: Regenerated, _now: int, _jitter: float, _policy: Policy) -> Step:
    """Another text, which nobody has approved. What was approved before is another revision, its budgets are full."""
    if (refused := refusals.regenerate(s, e)) is not None:
        return Step(s, refused=refused)
    published = s.status is Status.SENT or s.rests_on is not None
    until = e.until if published else None
    state = tally.renewed(s, Status.DRAFT, until=until, ended=s.status is not Status.DRAFT)
    return tally.drafted(state, "regenerated", e.by)


def _rejected(s: State, e: Rejected, _now: int, _jitter: float, _policy: Policy) -> Step:
    """A draft, or what is left of it after its last attempt failed, is put aside."""
    if (refused := refusals.reject(s, e)) is not None:
        return Step(s, refused=refused)
    state = tally.ended(s, Status.CANCELLED, tally.WITHDRAWN).state
    return tally.drafted(state, "rejected", e.by, reason=e.reason)


def _discarded(s: State, e: Discard, _now: int, _jitter: float, _policy: Policy) -> Step:
    """Somebody has looked at a failure, and it stays one."""
    if s.status is not Status.FAILED or not s.final:
        return refuse(s, "conflict", f"it is {s.status.value}, and no terminal failure")
    made = tally.ended(s, Status.CANCELLED, Note("discarded", {"by": e.by, "reason": e.reason}))
    return tally.drafted(made.state, "rejected", e.by, reason=e.reason) if e.draft else made


# --- the table ---------------------------------------------------------------------------------------------------

ILLEGAL: Final[Handler] = illegal
_ = ILLEGAL

# Fold is illegal until digests exist.
# fmt: off
_COLUMNS: Final = (
    Status.DRAFT, Status.PENDING, Status.FAILED, Status.IN_DOUBT, Status.SENT, Status.SUPPRESSED, Status.MERGED,
    Status.CANCELLED, Status.EXPIRED,
)
_ROWS: Final[dict[type[TransitionEvent], tuple[Handler, ...]]] = {
    #             draft      pending    failed     in_doubt   sent       suppressed merged     cancelled  expired
    Enqueued:    (_,         _enqueued, _,         _,         _,         _,         _,         _,         _),
    Approved:    (*[_approved] * 9,),
    Regenerated: (*[_regenerated] * 9,),
    Rejected:    (*[_rejected] * 9,),
    Answered:    (_after,    _answered, _answered, _after,    _after,    _,         _,         _after,    _after),
    LateAnswer:  (_told,     _late,     _late,     _decided,  _proved,   _,         _,         _told,     _told),
    LeaseLost:   (_,         _lost,     _lost,     unsure,    unsure,    _,         _,         unsure,    unsure),
    LookedUp:    (_,         _,         _,         _looked,   _,         _,         _,         _,         _),
    Receipt:     (noted,     _receipt,  _receipt,  _receipt,  _receipt,  noted,     noted,     _receipt,  _receipt),
    Read:        (read,      read,      read,      read,      read,      read,      read,      read,      read),
    Cancel:      (_stop,     _stop,     _stop,     _stop,     over,      over,      over,      over,      over),
    Expire:      (_stop,     _stop,     _stop,     _stop,     over,      over,      over,      over,      over),
    Resolve:     (no_doubt,  no_doubt,  no_doubt,  _resolve,  no_doubt,  no_doubt,  no_doubt,  no_doubt,  no_doubt),
    Retry:       (unready,   unready,   _retried,  _retried,  _retried,  unready,   unready,   unready,   unready),
    Discard:     (*[_discarded] * 9,),
    Fold:        (_,         _,         _,         _,         _,         _,         _,         _,         _),
}
# fmt: on

TABLE: Final[dict[tuple[Status, type[TransitionEvent]], Handler]] = {
    (status, event): handler
    for event, row in _ROWS.items()
    for status, handler in zip(_COLUMNS, row, strict=True)
}
