"""How fast notifications are accepted, by each way in, and what one costs the caller, the API and PostgreSQL."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any

from benchmarks.kit import cpu, stats
from benchmarks.rig import entries
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from benchmarks.kit.context import Context
    from benchmarks.rig.entries import Way

CPU = ("cpu_caller", "cpu_api", "cpu_postgres")
REFERENCE = {
    ("PostgreSQL", 1): "bare INSERTs by asyncpg",
    ("PostgreSQL", 100): "bare INSERTs by asyncpg x 100",
    ("SQLite", 1): "bare INSERTs by sqlite3",
    ("SQLite", 100): "bare INSERTs by sqlite3 x 100",
}
"""What a way in is compared with, by the store and by whether it hands over one or many at once."""


def run(context: Context) -> dict[str, Any]:
    """Alternate between all ways into both stores."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(fresh_database(context.postgres.database))
        ways = {
            "PostgreSQL": stack.enter_context(entries.on_postgres(context.folder, database)),
            "SQLite": stack.enter_context(entries.on_sqlite(context.folder)),
        }
        server = context.postgres.pid
        rounds = context.alternate(
            {
                f"{store}: {name}": functools.partial(
                    measured, context, way, server if store == "PostgreSQL" else None
                )
                for store, some in ways.items()
                for name, way in some.items()
            },
            ("rate", *CPU),
        )
    summary = stats.summarise(rounds)
    tables, bars = [], []
    for store, some in ways.items():
        rows = []
        for name, way in some.items():
            if (variant := f"{store}: {name}") not in summary:
                continue
            of = summary[variant]
            reference = f"{store}: {REFERENCE[store, min(100, way.group)]}"
            ratio = stats.ratio(rounds, variant, reference, "rate")
            rates = [of["rate"][key] for key in ("median", "min", "max")]
            used = [of[key]["median"] if key in of else None for key in CPU]
            rows.append([name, *rates, ratio and ratio["median"], *used])
            shown = variant if name.startswith("bare") else f"ringonce: {variant}"
            bars.append({"name": shown, **{key: of["rate"][key] for key in ("median", "min", "max")}})
        tables.append(
            {
                "title": f"Accepting, {store}",
                "columns": [
                    *("way in", "notifications/s", "least", "most", "× bare"),
                    *("caller µs", "API µs", "PostgreSQL µs"),
                ],
                "rows": rows,
            }
        )
    return {
        "title": "Accepting notifications",
        "rounds": rounds,
        "tables": tables,
        "plots": [
            {"name": "rate", "title": "Accepting notifications", "unit": "notifications/s", "bars": bars}
        ],
        "notes": [
            (
                "One recipient per event, each with an address that is new; no worker runs. µs are of "
                "processor time per notification. × bare is the ratio to the same rows (event, journal, "
                "content, address, notification, due row) written by one INSERT per table, one or 100 "
                "notifications in a transaction. enqueue() writes the event alone, one statement and a "
                f"savepoint each, and leaves the rest to a worker. Over HTTP {entries.SINGLES} connections "
                f"send single notifications, {entries.BATCHES} send batches, from one process with requests "
                "made beforehand, to one API process."
            )
        ],
    }


def measured(context: Context, way: Way, server: int | None) -> dict[str, float]:
    """Hand over what is right for this way, and see who worked how long."""
    count = max(2, context.size(way.count) // way.group) * way.group
    work = way.prepare(count)
    pids = {name: pid for name, pid in (("cpu_api", way.api), ("cpu_postgres", server)) if pid is not None}
    used = {name: cpu.seconds(pid) for name, pid in pids.items()}
    own, began = time.process_time(), time.perf_counter()
    work()
    wall, own = time.perf_counter() - began, time.process_time() - own
    told = {name: (cpu.seconds(pid) - used[name]) / count * 1e6 for name, pid in pids.items()}
    return {"rate": count / wall, "seconds": wall, "cpu_caller": own / count * 1e6, **told}
