"""How fast 1, 2 and 4 worker processes empty one PostgreSQL."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.kit import push, stats
from benchmarks.kit.context import environment
from benchmarks.kit.drain import Program, drain
from benchmarks.kit.servers import ROOT
from benchmarks.rig import programs
from benchmarks.rig.fill import Fill
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from benchmarks.kit.context import Context

WAITING = 12_000
PROCESSES = (1, 2, 4)


def measure(context: Context) -> dict[str, Any]:
    """Alternate between them."""
    waiting = context.size(WAITING)
    names = {f"ringonce, processes: {count}": count for count in PROCESSES}
    rounds = context.alternate(
        {name: functools.partial(emptied, context, count, waiting) for name, count in names.items()}
    )
    summary = stats.summarise(rounds)
    first = next(iter(names))
    rows = []
    for name in summary:
        ratio = stats.ratio(rounds, name, first, "rate")
        of = summary[name]
        spread = [of["rate"][key] for key in ("median", "min", "max")]
        used = [of[key]["median"] for key in ("cpu", "cpu_postgres", "cpu_stub")]
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
                    "stub µs",
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


def emptied(context: Context, count: int, waiting: int) -> dict[str, Any]:
    """Fill a database of its own, empty it with so many processes."""
    with fresh_database(context.postgres.database) as database:
        config = push.config(context.stub, database.url("asyncpg"))
        pattern = programs.migrated(config, push.event(0))[0]
        with database.connect() as connection:
            fill = Fill(connection, pattern, context.say)
            fill.waiting(waiting - 1)
            fill.settled()
        file = programs.write(context.folder / f"processes-{count}.toml", config)
        program = Program(
            command=[sys.executable, "-m", "benchmarks.rig.several", str(count), str(file)],
            environment=environment(),
            folder=ROOT,
            log=file.with_suffix(".log"),
        )
        servers = {"postgres": context.postgres.pid, "stub": context.stub.pid}
        return drain(program, context.stub, waiting, servers)
