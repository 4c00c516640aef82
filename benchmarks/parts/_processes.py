"""How fast 1, 2 and 4 worker processes empty one PostgreSQL."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from benchmarks.kit import stats
from benchmarks.kit.ringonce import on_postgres

if TYPE_CHECKING:
    from benchmarks.kit.context import Context

WAITING = 12_000
PROCESSES = (1, 2, 4)


def measure(context: Context) -> dict[str, Any]:
    """Alternate between them."""
    waiting = context.size(WAITING)
    names = {f"ringonce, processes: {count}": count for count in PROCESSES}
    rounds = context.alternate(
        {
            name: functools.partial(on_postgres, context, waiting, processes=count)
            for name, count in names.items()
        }
    )
    summary = stats.summarise(rounds)
    first = next(iter(names))
    rows = []
    for name in summary:
        ratio = stats.ratio(rounds, name, first, "rate")
        of = summary[name]
        spread = [of["rate"][key] for key in ("median", "min", "max")]
        used = [of[key]["median"] for key in ("cpu", "cpu_postgres")]
        rows.append([names[name], *spread, ratio and ratio["median"], *used, of["extra"]["max"]])
    return {
        "rounds": rounds,
        "tables": [
            {
                "title": "Worker processes on one database",
                "columns": [
                    "processes",
                    "deliveries/s",
                    "least",
                    "most",
                    "× one",
                    "Python µs",
                    "PostgreSQL µs",
                    "sent twice",
                ],
                "rows": rows,
            }
        ],
        "plots": [
            {
                "name": "processes",
                "title": "Worker processes on one database",
                "unit": "deliveries/s",
                "bars": [
                    {"name": name, **{key: summary[name]["rate"][key] for key in ("median", "min", "max")}}
                    for name in summary
                ],
            }
        ],
        "notes": [
            (
                f"{waiting:,} waiting notifications, emptied into the local stub; µs of processor time per "
                "notification, of all processes together. PostgreSQL and the stub share the cores with the "
                "workers."
            )
        ],
    }
