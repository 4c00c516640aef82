"""Short words for building states, outcomes and whole lives in the tests of the transition table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.machine import step
from ringonce.model.notification import State, Status
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass
from ringonce.model.policy import Backoff, Policy
from ringonce.model.transition import Answered, Emit, Enqueued, Step

if TYPE_CHECKING:
    from ringonce.model.transition import TransitionEvent

S = 1_000_000
NOW = 1_800_000_000 * S
PLAIN = Policy(backoff=Backoff(jitter=0))


def out(cls: str, **facts: object) -> Outcome:
    """An outcome with its usual code."""
    kind = OutcomeClass(cls)
    return Outcome(kind, facts.pop("code", CODE_OF[kind]), **facts)  # type: ignore[arg-type]


OK = out("accepted", message_id="m1")
DOWN = out("transient", provider_code="503", text="try later")
LIMITED = out("rate_limited")
GONE = out("invalid_recipient", drop_address=True)
SILENT = out("transient", ambiguous=True, text="no answer in 15 s")
DENIED = out("auth", text="bad token")


def ready(**facts: object) -> State:
    """A notification that is due now, changed as told."""
    state = step(State(Status.PENDING), Enqueued(NOW), NOW, 0.0, PLAIN).state
    return replace(state, **facts)  # type: ignore[arg-type]


def begun(state: State) -> State:
    """A worker has marked it."""
    return replace(state, open=True)


def take(
    state: State, event: TransitionEvent, *, policy: Policy = PLAIN, now: int = NOW, jitter: float = 0.0
) -> Step:
    """One step."""
    return step(state, event, now, jitter, policy)


def answered(
    outcome: Outcome, *, state: State | None = None, attempt: int = 1, policy: Policy = PLAIN, now: int = NOW
) -> Step:
    """The answer to a call that was awaited."""
    return take(begun(state or ready()), Answered(attempt, outcome), policy=policy, now=now)


def emitted(made: Step, kind: str = "notification.dispatched") -> list[dict[str, object]]:
    """The facts of what is published."""
    return [dict(e.data) for e in made.effects if isinstance(e, Emit) and e.kind == kind]


def effects(made: Step, kind: type) -> list[object]:
    """The effects of one kind."""
    return [e for e in made.effects if isinstance(e, kind)]
