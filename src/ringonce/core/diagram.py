"""The transition table as a page of the documentation: what each event leads to, found by asking the table."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final, get_args

from ringonce.core.machine import ILLEGAL, NEW, TABLE, step
from ringonce.model.looking import Finding, Look, Presence
from ringonce.model.notification import State, Status
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import MINUTE, Budgets, InDoubt, OnAuth, Policy
from ringonce.model.transition import (
    Answered,
    Approved,
    Cancel,
    Discard,
    Enqueued,
    Expire,
    LateAnswer,
    LeaseLost,
    LookedUp,
    Read,
    Receipt,
    Regenerated,
    Rejected,
    Resolve,
    Retry,
    TransitionEvent,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOW: Final = 1_000_000
_STAYS: Final = "stays"
_REFUSED: Final = "refused"
_ILLEGAL: Final = "·"

_POLICIES: Final = tuple(
    Policy(in_doubt=doubt, on_auth=auth, budgets=budgets)
    for doubt, auth, budgets in product(InDoubt, OnAuth, (Budgets(), Budgets(0, 0)))
)
_OUTCOMES: Final = (
    *(Outcome(cls) for cls in OutcomeClass),
    Outcome(OutcomeClass.TRANSIENT, ambiguous=True),
    Outcome(OutcomeClass.INVALID_RECIPIENT, re_address="new"),
)
_LOOKS: Final = tuple(Look(_NOW - minutes * MINUTE, Presence.ABSENT) for minutes in (9, 3))
_ANSWERS: Final[tuple[Finding | Outcome, ...]] = (
    *(Finding(presence) for presence in Presence),
    Outcome(OutcomeClass.TRANSIENT),
)


def _name(state: State) -> str:
    return (
        f"{state.status.value}, waiting"
        if state.status is Status.FAILED and not state.final
        else state.status.value
    )


def _events(state: State) -> Iterator[TransitionEvent]:
    """What may happen to it, with attempt numbers that mean something to it."""
    if not state.version:
        yield from (Enqueued(_NOW), Enqueued(_NOW, cancelled=True), Enqueued(_NOW, "rule"))
        yield from (Enqueued(_NOW, expires_at=_NOW), Enqueued(_NOW, drafted_by="somebody"))
        return
    if state.open or state.idle or state.status is Status.IN_DOUBT:
        number = state.attempts + 1
        yield from (Answered(number, outcome) for outcome in _OUTCOMES)
        yield from (LeaseLost(number, crashed) for crashed in (False, True))
    if state.status is Status.IN_DOUBT:
        yield from (LookedUp(state.unknown[-1], answer, _NOW, _LOOKS) for answer in _ANSWERS)
    for number in dict.fromkeys((*state.unknown, state.rests_on or 1)):
        yield from (LateAnswer(number, outcome) for outcome in _OUTCOMES)
        yield from (Receipt(number, kind) for kind in ("sent", "delivered", "read", "failed"))
    yield from (Read(), Cancel("somebody"), Expire(), Retry("somebody"), Retry("somebody", force=True))
    yield Discard("somebody")
    yield from (Resolve(verdict, "somebody") for verdict in Verdict)
    yield from (Approved("somebody"), Approved("somebody", version=-1), Rejected("somebody"))
    yield from (Regenerated("somebody", barred=barred) for barred in ("", "why"))


def transitions() -> dict[tuple[str, str], set[str]]:
    """(status, event type) -> the statuses that it was seen to lead to, from every kind of state that can be reached.

    Starts at a notification that does not exist yet and follows every event under every kind of policy.
    A status that no event leads to (its feature does not exist yet) is asked as it stands.
    """
    found: dict[tuple[str, str], set[str]] = {}
    seen: set[tuple[object, ...]] = set()
    waiting = [NEW]
    last = NEW
    while waiting:
        state = waiting.pop()
        kind = (
            _name(state),
            state.open,
            bool(state.unknown),
            state.assumed,
            bool(state.attempts),
            bool(state.version),
            state.rests_on is None,
        )
        if kind in seen:
            continue
        seen.add(kind)
        last = state
        if state.version and not state.idle and state.status is not Status.IN_DOUBT and not state.open:
            waiting.append(replace(state, open=True))
        for event, policy in product(_events(state), _POLICIES):
            waiting.extend(_seen(found, state, event, policy))
    reached = {name for name, *_ in seen}
    for status in Status:
        if status.value not in reached:
            state = replace(last, status=status, next_attempt_at=None, open=False)
            for event in _events(state):
                _seen(found, state, event, _POLICIES[0])
    return found


def _seen(
    found: dict[tuple[str, str], set[str]], state: State, event: TransitionEvent, policy: Policy
) -> list[State]:
    """Take one step and write it down; the state that it led to, if the table allows it."""
    if TABLE[state.status, type(event)] is ILLEGAL:
        return []
    made = step(state, event, _NOW, 0.0, policy)
    result = _name(made.state)
    if made.refused is not None:
        result = _REFUSED
    elif result == _name(state) and state.version:
        result = _STAYS
    found.setdefault((_name(state), type(event).__name__), set()).add(result)
    return [made.state]


def page() -> str:
    """The page ``docs/reference/transitions.md``."""
    found = transitions()
    names = [status.value for status in Status]
    names.insert(names.index("failed"), "failed, waiting")
    events = [event.__name__ for event in get_args(TransitionEvent)]
    legal = [event for event in events if any((name, event) in found for name in names)]
    rows = [
        f"| {event} | " + " | ".join(_cell(found.get((name, event), set()), names) for name in names) + " |"
        for event in legal
    ]
    edges: dict[tuple[str, str], list[str]] = {}
    for event, name in product(legal, names):
        for result in sorted(found.get((name, event), set()) - {_STAYS, _REFUSED}):
            source = "[*]" if event == Enqueued.__name__ else _node(name)
            edges.setdefault((source, _node(result)), []).append(event)
    arrows = [f"    {a} --> {b}: {', '.join(labels)}" for (a, b), labels in sorted(edges.items())]
    missing = ", ".join(event for event in events if event not in legal)
    head = _HEAD.format(missing=missing)
    header = ["| event | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    diagram = ["```mermaid", "stateDiagram-v2", *arrows, "```"]
    return "\n".join([head, *header, *rows, "", "## As a diagram", "", *diagram, ""])


def _cell(results: set[str], names: list[str]) -> str:
    if not results:
        return _ILLEGAL
    order = [_STAYS, *names, _REFUSED]
    return "<br>".join(sorted(results, key=order.index))


def _node(name: str) -> str:
    return name.replace(", ", "_")


_HEAD: Final = """# What leads where

Generated from the transition table (`ringonce.core.machine`): every event, in every kind of state that can be reached,
under every kind of policy. `failed, waiting` is `failed` with `next_attempt_at`; without it, `failed` is final. A cell
lists what the event may lead to, depending on the outcome, the policy and what is left of the budgets. `refused`: the
caller is told why, nothing changes. `·`: can not happen; asking for it is a bug and raises IllegalTransition. `stays`:
at most facts change.

No feature asks for these events yet: {missing}.
"""
