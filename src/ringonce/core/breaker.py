"""The mass-invalidation breaker: whether verdicts against addresses are believed (SPEC §3).

A dead address is dropped at once. A wrong key or environment makes every address look dead, so the verdicts of each
credential are watched: it *trips* when too many of them speak against addresses that worked a while ago, or when
nothing but such verdicts comes. Then nothing of that credential is dropped before a person has looked.

The window holds the latest proposals only, not a time: however much was accepted before the key went wrong, twenty
verdicts later it is seen. Between proposals only a number is counted, how many calls each process had accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ringonce.model.policy import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.policy import MassInvalidation

GOOD_FOR: Final = 30 * DAY
"""An address is recently good when a call to it was accepted within this time."""
PROCESSES: Final = 64
"""So many processes are remembered, those that proposed last."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction brought: calls accepted since the step before, addresses proposed to be dropped.

    ``good``: those that were recently good. ``fresh``: the others, which were perhaps never alive.
    """

    at: int
    accepted: int
    good: int
    fresh: int


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of one credential. Times are microseconds UTC.

    ``heard``: process -> (calls it had accepted when it last proposed, when that was). ``wary``: it was resumed by a
    person, and has proved nothing since. ``tripped_at`` None: its verdicts are believed; ``why`` says it in words.
    """

    steps: tuple[Step, ...] = ()
    heard: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    wary: bool = False
    tripped_at: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Proposed:
    """What a transaction proposes. ``accepted``: all calls that ``process`` ever had accepted by this credential."""

    process: str
    accepted: int
    good: int
    fresh: int


def propose(window: Window, proposed: Proposed, limits: MassInvalidation, now: int) -> Window:
    """The window with these proposals; ``tripped_at`` is set when they are not to be believed."""
    if window.tripped_at is not None:
        return window
    known = window.heard.get(proposed.process, (0, 0))[0]
    step = Step(now, max(0, proposed.accepted - known), proposed.good, proposed.fresh)
    heard = {**window.heard, proposed.process: (max(known, proposed.accepted), now)}
    if len(heard) > PROCESSES:
        del heard[min(heard, key=lambda process: heard[process][1])]
    steps = tuple(one for one in window.steps if one.at > now - limits.within)
    if step.good + step.fresh == 0:
        return replace(window, steps=steps, heard=heard)
    steps = _kept(steps, step, limits.proposals)
    why = _judged(steps, limits, wary=window.wary)
    return Window(
        steps=steps,
        heard=heard,
        wary=window.wary and not any(one.accepted for one in steps),
        tripped_at=None if why is None else now,
        why=why or "",
    )


def resumed(window: Window, *, believed: bool) -> Window:
    """A person has decided. ``believed``: the verdicts were right; else it must prove itself first."""
    return Window(heard=window.heard, wary=not believed)


def _kept(steps: tuple[Step, ...], step: Step, enough: int) -> tuple[Step, ...]:
    """The steps that the next look needs: the latest that hold ``enough`` good proposals."""
    last = steps[-1] if steps else None
    if last is not None and last.good == step.good == 0:
        # Without an end they would be many; together they begin when the first did, and are forgotten with it.
        merged = Step(last.at, last.accepted + step.accepted, 0, last.fresh + step.fresh)
        return (*steps[:-1], merged)
    kept = [*steps, step]
    while sum(one.good for one in kept[1:]) >= enough:
        del kept[0]
    return tuple(kept)


def _judged(steps: tuple[Step, ...], limits: MassInvalidation, *, wary: bool) -> str | None:
    """Why the proposals are not believed; None: they are."""
    enough = 1 if wary else limits.proposals
    good = accepted = fresh = 0
    for step in reversed(steps):
        good, fresh, accepted = good + step.good, fresh + step.fresh, accepted + step.accepted
        if good + fresh >= enough and not accepted:
            again = " since it was resumed" if wary else ""
            return f"the last {good + fresh} calls would each drop an address, and none was accepted{again}"
        if good >= limits.proposals:
            if good > limits.share * (good + accepted):
                days = GOOD_FOR // DAY
                return (
                    f"the last {good + accepted} answers would drop {good} addresses that worked within "
                    f"{days} days"
                )
            return None
    return None
