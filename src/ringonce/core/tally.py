"""What a call costs, what its answer proves, and what is published about it. Nothing here decides a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.model.notification import LastError, Spent
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass
from ringonce.model.policy import OnAuth
from ringonce.model.transition import Effect, Emit, Invalidate, Note

if TYPE_CHECKING:
    from ringonce.model.notification import State
    from ringonce.model.policy import Policy

DISPATCHED: Final = "notification.dispatched"
STATUS_CHANGED: Final = "notification.status_changed"

# What is said when no provider said it: a worker that is gone, and receipts without an answer of their own.
LOST: Final = Outcome(
    OutcomeClass.TRANSIENT, Code.TRANSIENT, ambiguous=True, text="the worker was lost after the call began"
)
ARRIVED: Final = Outcome(OutcomeClass.ACCEPTED)
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
        return (Invalidate("moved", outcome.proof_at, outcome.re_address),)
    if outcome.drop_address:
        return (Invalidate(error_of(outcome).code, outcome.proof_at),)
    return ()


def is_verdict(outcome: Outcome) -> bool:
    """It says yes or no. Only a transient failure can leave open whether the request was accepted."""
    return not (outcome.ambiguous and outcome.cls is OutcomeClass.TRANSIENT)


def without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple(n for n in numbers if n != number)


def late_note(attempt: int, outcome: Outcome) -> Note:
    return Note("late_verdict", {"attempt": attempt, "outcome": outcome.cls.value, "code": outcome.code})


def counts(outcome: Outcome, policy: Policy) -> bool:
    """A begun call with this answer uses up one of ``max_attempts``."""
    if outcome.cls is OutcomeClass.AUTH:
        return policy.on_auth is OnAuth.FAIL
    return outcome.cls is not OutcomeClass.DISABLED and outcome.cls is not OutcomeClass.NOT_IMPLEMENTED


def charged(spent: Spent, policy: Policy, by: int) -> Spent:
    """The budget that calls without a verdict use: their own, or else the transient one."""
    if policy.budgets.unknown is None:
        return Spent(spent.base, max(spent.transient + by, 0), spent.rate_limited, spent.unknown)
    return Spent(spent.base, spent.transient, spent.rate_limited, max(spent.unknown + by, 0))


def doubt_budget(spent: Spent, policy: Policy) -> tuple[int, int]:
    """(failures so far, retries allowed) for calls without a verdict."""
    if policy.budgets.unknown is None:
        return spent.transient, policy.budgets.transient
    return spent.unknown, policy.budgets.unknown
