"""What a call costs, what its answer proves, what is published about it, and how new facts are put together.

Nothing here chooses a status: ``core.machine`` does, and hands it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.core.backoff import delay
from ringonce.errors import IllegalTransition
from ringonce.model.notification import LastError, Spent, State, Status
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass
from ringonce.model.policy import SECOND, OnAuth
from ringonce.model.proposals import MASS_INVALIDATION, MOVED
from ringonce.model.transition import Audit, Effect, Emit, Invalidate, Note, Pause, Step

if TYPE_CHECKING:
    from ringonce.model.policy import Policy
    from ringonce.model.transition import Receipt

DISPATCHED: Final = "notification.dispatched"
STATUS_CHANGED: Final = "notification.status_changed"
RE_ADDRESSES: Final = 2
"""How often one revision follows an address to its new form before the answer counts as a refusal."""
CLOSED: Final = False
"""The value of ``State.open`` after any answer."""

# What is said when no provider said it: a worker that is gone, and receipts without an answer of their own.
LOST: Final = Outcome(
    OutcomeClass.TRANSIENT, Code.TRANSIENT, ambiguous=True, text="the worker was lost after the call began"
)
ARRIVED: Final = Outcome(OutcomeClass.ACCEPTED)
REPORTS: Final = ("sent", "delivered", "read", "failed")
WITHDRAWN: Final = Note("cancelled", {"by": "subject", "reason": "withdrawn before"})
DOUBTED: Final = Note("verdict_doubted", {"reason": MASS_INVALIDATION})
CRASHED: Final = LastError(
    Code.WORKER_CRASH.value, None, "workers were lost again and again while they sent it"
)
AUDIT: Final = Audit()
REPORTED: Final = Outcome(
    OutcomeClass.TRANSIENT, Code.TRANSIENT, text="the provider reports that it was not delivered"
)


def error_of(outcome: Outcome) -> LastError:
    """What the API will show; its code is never empty, even when a provider left it out."""
    code = outcome.code or CODE_OF[outcome.cls] or Code.TRANSIENT
    return LastError(code.value, outcome.provider_code, outcome.text)


def changed(status: str, state: State, code: str | None = None) -> Emit:
    """``notification.status_changed``: every failure, intermediate ones too, and every success."""
    facts = {"status": status, "revision": state.revision, "code": code, "attempts": state.attempts}
    return Emit(STATUS_CHANGED, facts)


def dispatched(status: str, state: State, code: str | None = None) -> Emit:
    """``notification.dispatched``: the end of a revision."""
    facts = {"status": status, "revision": state.revision, "code": code, "assumed": state.assumed}
    return Emit(DISPATCHED, facts)


def address_effects(outcome: Outcome) -> tuple[Effect, ...]:
    """What the answer proves about the address, apart from what it means for the notification."""
    if outcome.re_address is not None:
        return (Invalidate(MOVED, outcome.proof_at, outcome.re_address),)
    if outcome.doubted:
        apart = Invalidate(error_of(outcome).code, outcome.proof_at, doubted=True)
        return (apart, Pause("channel", MASS_INVALIDATION))
    if outcome.drop_address:
        return (Invalidate(error_of(outcome).code, outcome.proof_at),)
    return ()


def reported(outcome: Outcome | None) -> Outcome:
    """What a receipt says that tells of a failure: its own outcome, if that is one."""
    return REPORTED if outcome is None or outcome.cls is OutcomeClass.ACCEPTED else outcome


def receipt_note(e: Receipt) -> Note:
    """What a report said, and by when, in the timeline. Raises IllegalTransition: nobody knows such a kind."""
    if e.kind not in REPORTS:
        raise IllegalTransition(f"receipt of kind {e.kind!r}", mend=f"known are {', '.join(REPORTS)}")
    detail = {"attempt": e.attempt, "kind": e.kind, "code": None if e.outcome is None else e.outcome.code}
    if e.outcome is not None and e.outcome.provider_code:
        detail["provider_code"] = e.outcome.provider_code
    return Note("receipt", detail if e.at is None else detail | {"at": e.at})


def hint(outcome: Outcome) -> int | None:
    """Retry-After in microseconds."""
    return None if outcome.retry_after_s is None else outcome.retry_after_s * SECOND


def unwritten(why: str) -> tuple[LastError, tuple[Effect, ...], tuple[Note, ...]]:
    """There is no text to send, because its template failed: the error, and the note that tells of it."""
    error = LastError(Code.TEMPLATE_INVALID.value, None, why)
    return error, (), (Note("code_error", {"code": error.code, "text": why}),)


def exhausted(state: State, policy: Policy) -> bool:
    """All calls of ``max_attempts`` are used. Asked before a mark, for the setting may have been lowered meanwhile.

    A row for which it holds is stepped with an Answered that has not begun, and ends without a call.
    """
    return state.attempts - state.spent.base >= policy.max_attempts


def is_verdict(outcome: Outcome) -> bool:
    """It says yes or no. Only a transient failure can leave open whether the request was accepted."""
    return not (outcome.ambiguous and outcome.cls is OutcomeClass.TRANSIENT)


def without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    """The attempts without a verdict, less one."""
    return tuple(n for n in numbers if n != number)


def late_note(attempt: int, outcome: Outcome) -> Note:
    """A late answer decided something."""
    return Note("late_verdict", {"attempt": attempt, "outcome": outcome.cls.value, "code": outcome.code})


def heals(last: LastError | None, outcome: Outcome) -> bool:
    """A credential that may only have expired is worth one more call with a fresh one, but not two in a row."""
    return outcome.refresh and (last is None or last.code != Code.AUTH)


def counts(outcome: Outcome, policy: Policy, last: LastError | None = None) -> bool:
    """A begun call with this answer uses up one of ``max_attempts``. ``last``: what went wrong before it."""
    if outcome.doubted:
        return False
    if outcome.cls is OutcomeClass.AUTH:
        return policy.on_auth is OnAuth.FAIL and not heals(last, outcome)
    return outcome.cls is not OutcomeClass.DISABLED and outcome.cls is not OutcomeClass.NOT_IMPLEMENTED


def charged(spent: Spent, policy: Policy, by: int) -> Spent:
    """The budget that calls without a verdict use: their own, or else the transient one."""
    if policy.budgets.unknown is None:
        return Spent(spent.base, max(spent.transient + by, 0), spent.rate_limited, spent.unknown)
    return Spent(spent.base, spent.transient, spent.rate_limited, max(spent.unknown + by, 0))


def moves(g: State) -> int:
    """Calls of this revision that only learnt a new address: each of the others charges one class."""
    spent = g.spent
    return g.attempts - spent.base - spent.transient - spent.rate_limited - spent.unknown


def failed(spent: Spent, used: int, policy: Policy, *, limited: bool) -> tuple[Spent, int]:
    """What is spent after the ``used``-th failure of its class, and how many retries that class has."""
    if limited:
        return Spent(spent.base, spent.transient, used, spent.unknown), policy.budgets.rate_limited
    return Spent(spent.base, used, spent.rate_limited, spent.unknown), policy.budgets.transient


def follows(g: State, outcome: Outcome, policy: Policy) -> bool:
    """The address has a new form, to which the very same notification goes."""
    return outcome.re_address is not None and moves(g) <= RE_ADDRESSES and not exhausted(g, policy)


def doubt_budget(spent: Spent, policy: Policy) -> tuple[int, int]:
    """(failures so far, retries allowed) for calls without a verdict."""
    if policy.budgets.unknown is None:
        return spent.transient, policy.budgets.transient
    return spent.unknown, policy.budgets.unknown


def no_retry(g: State, used: int, budget: int, due: int, policy: Policy) -> str | None:
    """Why a call at ``due`` after ``used`` failures of a class with ``budget`` retries is not made, if so."""
    if used > budget:
        return f"all {budget} retries after failures of this class are used"
    if exhausted(g, policy):
        return f"all {policy.max_attempts} calls are used"
    if g.expires_at is not None and due >= g.expires_at:
        return "the next call would come after expires_at"
    return None


# --- new facts ----------------------------------------------------------------------------------------------------


def ended(s: State, status: Status, note: Note) -> Step:
    """A rule, a person or the clock ended it: nothing is published, and its doubts stay named."""
    state = State(
        status, s.version + 1, s.revision, s.attempts, s.spent, s.unknown, CLOSED, None,
        s.last_error, s.message_id, s.rests_on, s.expires_at,
    )  # fmt: skip
    return Step(state, (), (note,))


def known(
    s: State,
    unknown: tuple[int, ...],
    effects: tuple[Effect, ...] = (),
    notes: tuple[Note, ...] = (),
    *,
    attempts: int | None = None,
    rests_on: int | None = None,
    message_id: str | None = None,
) -> Step:
    """Status and due work stay; only what is known about attempts may have changed."""
    state = State(
        s.status, s.version + 1, s.revision, s.attempts if attempts is None else attempts, s.spent, unknown, s.open,
        s.next_attempt_at, s.last_error, message_id or s.message_id, s.rests_on if rests_on is None else rests_on,
        s.expires_at,
    )  # fmt: skip
    return Step(s if same(s, state) else state, effects, notes)


def same(old: State, new: State) -> bool:
    """No fact differs (``version`` and ``open`` are none)."""
    return (
        new.status is old.status and new.next_attempt_at == old.next_attempt_at and new.attempts == old.attempts
        and new.revision == old.revision and new.unknown == old.unknown and new.spent == old.spent
        and new.last_error == old.last_error and new.rests_on == old.rests_on and new.message_id == old.message_id
    )  # fmt: skip


def ground(s: State, attempts: int, revision: int, spent: Spent, unknown: tuple[int, ...]) -> State:
    """The ground for what follows a failed call: the old facts with the call accounted for, in its revision.

    What an unsent one rests on is an earlier text of it, which stays published; what was sent is taken back.
    """
    rests_on = None if s.status is Status.SENT else s.rests_on
    return State(
        s.status, s.version + 1, revision, attempts, spent, unknown, CLOSED, None,
        s.last_error, s.message_id, rests_on, s.expires_at,
    )  # fmt: skip


def excused(
    s: State, attempt: int, outcome: Outcome, now: int, jitter: float, policy: Policy
) -> tuple[State, int, LastError]:
    """The ground, the due time and the error of a call without a verdict that is not the notification's fault.

    It takes nothing of the budgets, nor of ``max_attempts``, from which it is exempt by way of ``base``.
    """
    used, _ = doubt_budget(charged(s.spent, policy, 1), policy)
    due = now + delay(policy, used, jitter, hint(outcome), floor=outcome.floor)
    spent = Spent(s.spent.base + 1, s.spent.transient, s.spent.rate_limited, s.spent.unknown)
    return ground(s, s.attempts + 1, s.revision, spent, (*s.unknown, attempt)), due, error_of(outcome)


def taken_back(s: State, attempt: int, outcome: Outcome, policy: Policy, revision: int) -> State:
    """The ground after a late refusal: what the attempt was charged with is given back, for its class is known now.

    A call that counts nothing (a refused credential) leaves the budget by way of ``base``: ``attempts`` never shrink.
    """
    spent = charged(s.spent, policy, -1) if attempt in s.unknown else s.spent
    if not counts(outcome, policy, s.last_error):
        spent = Spent(spent.base + 1, spent.transient, spent.rate_limited, spent.unknown)
    return ground(s, s.attempts, revision, spent, without(s.unknown, attempt))


def on(g: State, status: Status, spent: Spent, due: int | None, error: LastError | None) -> State:
    """A new state on ``g``."""
    return State(
        status, g.version, g.revision, g.attempts, spent, g.unknown, CLOSED, due,
        error, g.message_id, g.rests_on, g.expires_at,
    )  # fmt: skip


def renewed(
    s: State,
    status: Status,
    *,
    due: int | None = None,
    error: LastError | None = None,
    until: int | None = None,
    ended: bool = False,
) -> State:
    """A draft that begins (anew) with full budgets, in another revision if one has ``ended``.

    What is published of it is remembered, for the next call replaces that.
    """
    message_id = None if s.rests_on is None else s.message_id
    return State(
        status, s.version + 1, s.revision + ended, s.attempts, Spent(s.attempts), s.unknown, CLOSED, due,
        error, message_id, s.rests_on, until,
    )  # fmt: skip


def drafted(state: State, what: str, by: str, **more: object) -> Step:
    """A person, or the mode ``auto``, did something about a draft: told in the timeline, and published."""
    facts = {"by": by, **{name: value for name, value in more.items() if value}}
    told = {**facts, "revision": state.revision, "version": state.version}
    return Step(
        state, (Emit(f"draft.{what}", told),), (Note(f"draft_{what}", {**facts, "revision": state.revision}),)
    )


def released(s: State) -> State:
    """The same facts, and no call is open."""
    return State(
        s.status, s.version, s.revision, s.attempts, s.spent, s.unknown, CLOSED, s.next_attempt_at,
        s.last_error, s.message_id, s.rests_on, s.expires_at,
    )  # fmt: skip
