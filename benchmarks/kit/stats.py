"""Figures of alternating rounds: medians, spreads, and ratios taken within each round.

A round runs each variant once, so what the machine does besides hits all of them; the ratio of two variants is taken
within each round, and its median told.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Round = dict[str, dict[str, Any]]
"""What one round measured: ``{variant: {measure: value}}``. A variant may be missing."""


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, least, most, and the spread: (most - least) / median. Raises ValueError without values."""
    if not values:
        raise ValueError("nothing was measured")
    middle = statistics.median(values)
    spread = (max(values) - min(values)) / middle if middle else 0.0
    return {
        "median": middle,
        "min": min(values),
        "max": max(values),
        "spread": round(spread, 4),
        "runs": len(values),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the least value that ``percent`` of all values do not exceed."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def variants(rounds: Iterable[Round]) -> list[str]:
    """All variants that were measured, in the order of their first appearance by name and round."""
    return list(dict.fromkeys(name for one in rounds for name in sorted(one)))


def column(rounds: Iterable[Round], variant: str, measure: str) -> list[float]:
    """One measure of one variant, from the rounds that have it."""
    return [one[variant][measure] for one in rounds if one.get(variant, {}).get(measure) is not None]


def summarise(rounds: Sequence[Round]) -> dict[str, dict[str, dict[str, float]]]:
    """``{variant: {measure: summary}}`` of all that is a number."""
    told: dict[str, dict[str, dict[str, float]]] = {}
    for name in variants(rounds):
        measures = dict.fromkeys(
            key
            for one in rounds
            for key, value in one.get(name, {}).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        )
        told[name] = {measure: summary(column(rounds, name, measure)) for measure in measures}
    return told


def ratio(rounds: Iterable[Round], above: str, below: str, measure: str) -> dict[str, float] | None:
    """The summary of ``above / below`` taken round by round; None when no round has both."""
    values = []
    for one in rounds:
        first, second = one.get(above, {}).get(measure), one.get(below, {}).get(measure)
        if first is not None and second:
            values.append(first / second)
    return summary(values) if values else None


def best(rounds: Sequence[Round], among: Iterable[str], measure: str) -> str | None:
    """Of these variants the one with the highest median; None when none was measured."""
    medians = {name: statistics.median(values) for name in among if (values := column(rounds, name, measure))}
    return max(medians, key=lambda name: medians[name]) if medians else None


def order(names: Sequence[str], number: int) -> list[str]:
    """The order of round ``number``: each begins with another variant, so that none always runs first."""
    if not names:
        return []
    turn = number % len(names)
    return [*names[turn:], *names[:turn]]
