"""What a claim costs after somebody has held an old snapshot for a minute, so that no dead row can be removed."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from benchmarks.kit import push, stats
from benchmarks.rig import programs, statements
from benchmarks.rig.fill import Fill
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kit.context import Context
    from benchmarks.rig.statements import Totals, Watch
    from tests.servers.postgres import Database, PostgresServer

SECONDS = 60.0
WINDOW = 0.25
"""The share of the time at its beginning and at its end over which claims are averaged."""
PACE = 2_000
TICK = 0.1


def measure(context: Context) -> dict[str, Any]:
    """Once without a snapshot, once with one."""
    seconds = max(10.0, min(SECONDS, SECONDS * context.scale))
    one: stats.Round = {}
    with statements.server() as server:
        watch = statements.Watch(server.database)
        try:
            for name, held in (("without", False), ("held", True)):
                one[name] = minute(context, server, watch, seconds, held=held)
        finally:
            watch.close()
    columns = [
        "snapshot",
        "delivered/s",
        "ms, first",
        "ms, last",
        "pages, first",
        "pages, last",
        "pages a row, last",
    ]
    measures = ("rate", "first_ms", "last_ms", "first_pages", "last_pages", "last_pages_a_row")
    rows = [[name, *(of[key] for key in measures)] for name, of in one.items()]
    rows.append(["×", *(one["held"][key] / one["without"][key] for key in measures)])
    return {
        "rounds": [one],
        "tables": [{"title": "Claims under a held snapshot", "columns": columns, "rows": rows}],
        "plots": [
            {
                "name": "snapshot",
                "title": f"Pages per claim, after {seconds:.0f} s",
                "unit": "pages",
                "bars": [
                    {"name": f"ringonce, {name}", "median": of["last_pages"], "min": of["last_pages"]}
                    | {"max": of["last_pages"]}
                    for name, of in one.items()
                ],
            }
        ],
        "notes": [
            (
                f"One worker is fed with {PACE:,} notifications/s for {seconds:.0f} s while a REPEATABLE "
                "READ transaction is open, or none; milliseconds of execution and pages of the claiming "
                f"statement, over the first and the last {WINDOW * seconds:.0f} s."
            )
        ],
    }


def minute(
    context: Context, server: PostgresServer, watch: Watch, seconds: float, *, held: bool
) -> dict[str, float]:
    """Feed a worker at an even pace and look at its claims at the beginning and at the end."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(fresh_database(server.database))
        config = push.config(context.stub, database.url("asyncpg"))
        pattern = programs.migrated(config, push.event(0))[0]
        file = programs.write(context.folder / f"snapshot-{held}.toml", config)
        connection = stack.enter_context(database.connect())
        fill = Fill(connection, pattern, context.say)
        stack.enter_context(programs.worker(file))
        began = calls = None
        looks: list[tuple[float, Totals]] = []
        for passed in paced(fill, seconds):
            if began is None:
                if held:
                    stack.enter_context(snapshot(database))
                began, calls = time.monotonic(), context.stub.calls()
            looks.append((passed, watch.totals(database.name, statements.CLAIM)))
        assert began is not None
        assert calls is not None
        rate = (context.stub.calls() - calls) / (time.monotonic() - began)
    first = between(looks, 0.0, WINDOW * seconds)
    last = between(looks, (1 - WINDOW) * seconds, seconds)
    if not first.calls or not last.calls:
        raise RuntimeError(f"no claim was seen: {first}, {last}")
    result = {
        "rate": rate,
        "first_ms": first.milliseconds / first.calls,
        "last_ms": last.milliseconds / last.calls,
        "first_pages": first.pages / first.calls,
        "last_pages": last.pages / last.calls,
        "last_pages_a_row": last.pages / max(1, last.rows),
        "last_rows": last.rows / last.calls,
    }
    context.say(f"  {'held' if held else 'without'}: {', '.join(f'{k} {v:.4g}' for k, v in result.items())}")
    return result


def paced(fill: Fill, seconds: float) -> Iterator[float]:
    """Add ``PACE`` rows a second; the seconds that have passed, about once a second."""
    began = time.monotonic()
    fed = 0
    told = -1.0
    while (passed := time.monotonic() - began) < seconds:
        wanted = int(passed * PACE) - fed
        if wanted > 0:
            fill.waiting(wanted)
            fed += wanted
        if passed - told >= seconds / 60:
            told = passed
            yield passed
        time.sleep(max(0.0, TICK - (time.monotonic() - began - passed)))
    yield seconds


def between(looks: list[tuple[float, Totals]], start: float, end: float) -> Totals:
    """What the claims did between two times."""
    within = [totals for passed, totals in looks if start <= passed <= end]
    return within[-1] - within[0]


@contextlib.contextmanager
def snapshot(database: Database) -> Iterator[None]:
    """A transaction that sees the database as it is now, and keeps all of it."""
    with database.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM ringonce_lanes")
        yield
        connection.execute("ROLLBACK")
