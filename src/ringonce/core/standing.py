"""Handlers of the transition table that leave the status as it is: what is refused, noted, or no one's to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.core import tally
from ringonce.errors import IllegalTransition
from ringonce.model.notification import Status
from ringonce.model.transition import Note, Refusal, Step

if TYPE_CHECKING:
    from ringonce.model.notification import State
    from ringonce.model.policy import Policy
    from ringonce.model.transition import LeaseLost, Read, Receipt, Resolve, Retry, TransitionEvent

BUG: Final = "report it: a bug of ours"


def illegal(s: State, e: TransitionEvent, _now: int, _jitter: float, _policy: Policy) -> Step:
    """Only a bug asks for this."""
    raise IllegalTransition(f"{type(e).__name__} is illegal in status {s.status.value}", mend=BUG)


def unsure(s: State, e: LeaseLost, _now: int, _jitter: float, _policy: Policy) -> Step:
    """It was decided while that call ran: one more call whose end nobody knows, and nothing else."""
    if e.attempt in s.unknown:
        return Step(s)
    # In doubt, the doubt stays about the attempt that it is about.
    unknown = (e.attempt, *s.unknown) if s.status is Status.IN_DOUBT else (*s.unknown, e.attempt)
    return tally.known(s, unknown, attempts=s.attempts + 1)


def noted(s: State, e: Receipt, _now: int, _jitter: float, _policy: Policy) -> Step:
    """Nothing was sent as this notification; providers say all sorts of things."""
    return Step(s, (), (tally.receipt_note(e),))


def read(s: State, _e: Read, _now: int, _jitter: float, _policy: Policy) -> Step:
    """A fact on it, not a status."""
    return Step(s, (), (Note("read"),))


def refuse(s: State, code: str, text: str) -> Step:
    """Nothing changes, and the caller learns why."""
    return Step(s, refused=Refusal(code, text))


def over(s: State, _e: TransitionEvent, _now: int, _jitter: float, _policy: Policy) -> Step:
    """It has ended."""
    return refuse(s, "already_final", f"it is {s.status.value} already")


def no_doubt(s: State, e: Resolve, now: int, jitter: float, policy: Policy) -> Step:
    """There is no doubt to decide."""
    return over(s, e, now, jitter, policy) if s.final else refuse(s, "conflict", "nothing is in doubt")


def unready(s: State, e: Retry, now: int, jitter: float, policy: Policy) -> Step:
    """It waits for its turn, or it ended in a way that no retry mends."""
    return over(s, e, now, jitter, policy) if s.final else refuse(s, "conflict", f"it is {s.status.value}")
