"""Memory of one worker with a million waiting, from its start through the first minutes of emptying them."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.kit import push, stats
from benchmarks.rig import programs
from benchmarks.rig.fill import Fill
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from benchmarks.kit.context import Context

WAITING = 1_000_000
FEW = 1_000
SECONDS = 60.0
SHORTEST = 8.0
LOOK = 0.25
MEGABYTE = 1 << 20


def run(context: Context) -> dict[str, Any]:
    """A backlog of a million, and beside it the same worker with a thousand."""
    seconds = max(SHORTEST, min(SECONDS, SECONDS * context.scale))
    one: stats.Round = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    # The few are gone in a moment; what is left then is what a worker needs by itself.
    for count, length in ((FEW, seconds / 3), (context.size(WAITING), seconds)):
        name = f"ringonce, {count:,} waiting"
        one[name], curves[name] = emptied(context, count, length)
        context.say(f"  {name}: " + ", ".join(f"{key} {value:,.4g}" for key, value in one[name].items()))
    measures = ("peak", "second_third", "last_third", "growth", "delivered", "rate")
    return {
        "title": "Memory of one worker",
        "rounds": [one],
        "tables": [
            {
                "columns": [
                    "",
                    "peak MB",
                    "second third MB",
                    "last third MB",
                    "last ÷ second",
                    "delivered",
                    "deliveries/s",
                ],
                "rows": [[name, *(of[key] for key in measures)] for name, of in one.items()],
            }
        ],
        "plots": [
            {
                "name": "peak",
                "title": "Memory of one worker",
                "unit": "MB",
                "bars": [
                    {"name": name, "median": statistics.median(held), "min": min(held), "max": max(held)}
                    for name, curve in curves.items()
                    for held in [[value for _, value in curve]]
                ],
            }
        ],
        "curves": curves,
        "notes": [
            (
                f"Resident memory (VmRSS) every {LOOK} s from when the worker runs, its peak as the kernel "
                "tells it (VmHWM); medians of the second and the last third of the time. Flat means that "
                "the last two are the same while the backlog is emptied."
            )
        ],
    }


def emptied(
    context: Context, count: int, seconds: float
) -> tuple[dict[str, float], list[tuple[float, float]]]:
    """Load so many by SQL, start a worker, look at it."""
    with fresh_database(context.postgres.database) as database:
        config = push.config(context.stub, database.url("asyncpg"))
        pattern = programs.migrated(config, push.event(0))[0]
        with database.connect() as connection:
            fill = Fill(connection, pattern, lambda text: context.say(f"    {text}"))
            with fill.bulk():
                fill.waiting(count - 1)
            fill.settled()
        file = programs.write(context.folder / f"memory-{count}.toml", config)
        before = context.stub.calls()
        with programs.worker(file) as process:
            began = time.monotonic()
            curve = []
            while (passed := time.monotonic() - began) < seconds:
                curve.append((round(passed, 2), programs.status(process.pid) / MEGABYTE))
                time.sleep(LOOK)
            peak = programs.status(process.pid, "VmHWM") / MEGABYTE
            delivered = context.stub.calls() - before
    second = statistics.median(held for passed, held in curve if seconds / 3 <= passed < seconds * 2 / 3)
    last = statistics.median(held for passed, held in curve if passed >= seconds * 2 / 3)
    measured = {
        "peak": peak,
        "second_third": second,
        "last_third": last,
        "growth": last / second,
        "delivered": delivered,
        "rate": delivered / seconds,
    }
    return measured, curve
