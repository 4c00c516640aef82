"""How it grows: 1, 2 and 4 worker processes; 10,000 to 10,000,000 rows; a snapshot held for a minute."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.parts import _processes, _rows, _snapshot

if TYPE_CHECKING:
    from benchmarks.kit import stats
    from benchmarks.kit.context import Context

PIECES = {"processes": _processes.measure, "rows": _rows.measure, "snapshot": _snapshot.measure}


def run(context: Context) -> dict[str, Any]:
    """Measure the pieces, one after the other; ``--only`` chooses among them."""
    result: dict[str, Any] = {"title": "Scale", "rounds": [], "tables": [], "plots": [], "notes": []}
    for name, measure in PIECES.items():
        if not context.wants(name):
            continue
        context.say(f"scale: {name}")
        with contextlib.ExitStack() as stack:
            # Servers of its own, which end before the next begins.
            told = measure(replace(context, only=frozenset(), stack=stack))
        merge(result["rounds"], told.pop("rounds"), name)
        for key, value in told.items():
            result[key] += value
    return result


def merge(rounds: list[stats.Round], more: list[stats.Round], name: str) -> None:
    """Side by side: round by round, each piece's variants under its name."""
    for number, one in enumerate(more):
        if number == len(rounds):
            rounds.append({})
        rounds[number].update({f"{name}: {variant}": measures for variant, measures in one.items()})
