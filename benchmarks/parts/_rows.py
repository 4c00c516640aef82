"""What a claim of 100 costs when 10,000 to 10,000,000 notifications lie in the tables."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg

from benchmarks.kit import push, stats
from benchmarks.rig import programs, statements
from benchmarks.rig.fill import Fill
from ringonce import Ringonce
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    import psycopg

    from benchmarks.kit.context import Context
    from benchmarks.rig.statements import Watch
    from tests.servers.postgres import Database

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
CLAIMS = 60
WARM = 5
BATCH = 100
SHARED = 10
"""Of the finished ones so many share an event, a content and an address."""
LEASE = 600_000_000

# What a claim can not do without: find due rows in order, lock them, lease them.
BARE = """
UPDATE ringonce_dispatch SET leased = true, owner = 'bare', fence = 1, due_at = due_at + 600000000
WHERE id = ANY(ARRAY(
  SELECT id FROM ringonce_dispatch
  WHERE lane = $1 AND purpose = 'send' AND armed AND NOT leased AND priority = 1 AND due_at <= $2
  ORDER BY due_at, id LIMIT 100 FOR UPDATE SKIP LOCKED))
RETURNING id
"""


@dataclass(slots=True)
class Site:
    """One database of some size, open for both ways to claim."""

    database: Database
    ringonce: Ringonce
    bare: asyncpg.Connection
    clean: psycopg.Connection[Any]
    lane: str
    backend: int

    async def claim(self) -> int:
        """As a worker does; how many came."""
        return len((await self.ringonce.store.claim(self.lane, "bench", BATCH, LEASE)).rows)

    async def bare_claim(self) -> int:
        """The bare statement."""
        return len(await self.bare.fetch(BARE, self.lane, time.time_ns() // 1000))


def measure(context: Context) -> dict[str, Any]:
    """Fill databases of all sizes, then claim from them in turn."""
    claims = max(5, min(CLAIMS, context.size(CLAIMS)))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(statements.server())
        watch = statements.Watch(server.database)
        stack.callback(watch.close)
        databases = {}
        for full in SIZES:
            rows = context.size(full)
            databases[f"{rows:,}"] = stack.enter_context(fresh_database(server.database))
            fill(context, databases[f"{rows:,}"], rows, 2 * BATCH * (claims + WARM))
        rounds = asyncio.run(alternate(context, databases, watch, claims))
    return told(rounds, list(databases), claims)


def fill(context: Context, database: Database, finished: int, waiting: int) -> None:
    """``finished`` sent ones, a tenth as many that are due next year, and ``waiting`` due ones."""
    config = push.config(UNUSED, database.url("asyncpg"))
    pattern = programs.migrated(config, push.event(0))[0]
    context.say(f"  filling a database with {finished:,} finished rows")
    with database.connect() as connection:
        several = Fill(connection, pattern, lambda text: context.say(f"    {text}"), SHARED)
        single = Fill(connection, pattern, context.say)
        with several.bulk():
            several.finished(finished)
            several.future(finished // 10)
        single.waiting(waiting)
        connection.execute("DELETE FROM ringonce_dispatch WHERE id = %s", (pattern,))
        single.settled()
        connection.execute("CHECKPOINT")


UNUSED = programs.Clocked(9, 0)
"""Nothing is sent in this part; the channel only has to be configured."""


async def alternate(
    context: Context, databases: dict[str, Database], watch: Watch, claims: int
) -> list[stats.Round]:
    """Claim by claim from each database, in both ways."""
    async with contextlib.AsyncExitStack() as stack:
        sites = {name: await opened(stack, database) for name, database in databases.items()}
        rounds: list[stats.Round] = []
        for number in range(-WARM, claims):
            one: stats.Round = {}
            for name in stats.order(list(sites), number):
                site = sites[name]
                own, bare = await timed(site, watch, bare=False), await timed(site, watch, bare=True)
                one[name] = own | {f"bare_{key}": value for key, value in bare.items()}
            if number >= 0:
                rounds.append(one)
            if number >= 0 and number % 20 == 0:
                context.say(f"  claim {number} of {claims} from each")
    return rounds


async def opened(stack: contextlib.AsyncExitStack, database: Database) -> Site:
    """Open one: a single connection each, so that it is known which backend works."""
    config = push.config(UNUSED, database.url("asyncpg"))
    config["store"]["pool_size"] = 1
    ringonce = await stack.enter_async_context(Ringonce(config))
    clean = stack.enter_context(database.connect())
    found = clean.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (database.name,)
    ).fetchall()
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} connections of a pool of one")
    lane = clean.execute("SELECT lane FROM ringonce_dispatch LIMIT 1").fetchone()
    assert lane is not None
    bare = await asyncpg.connect(database.url())
    stack.push_async_callback(bare.close)
    return Site(database, ringonce, bare, clean, lane[0], found[0][0])


async def timed(site: Site, watch: Watch, *, bare: bool) -> dict[str, float]:
    """One claim: by the wall, of the backend's processor, of Python's, and in pages."""
    backend = site.bare.get_server_pid() if bare else site.backend
    claim = site.bare_claim if bare else site.claim
    pages = watch.totals(site.database.name)
    ran, python, wall = programs.ran(backend), time.thread_time_ns(), time.perf_counter_ns()
    count = await claim()
    wall, python = time.perf_counter_ns() - wall, time.thread_time_ns() - python
    ran = programs.ran(backend) - ran
    pages = watch.totals(site.database.name) - pages
    if count != BATCH:
        raise RuntimeError(f"a claim of {BATCH} gave {count} rows")
    # What is claimed is settled in the end: its row goes. The claim's index keeps the dead entry, as in life.
    site.clean.execute("DELETE FROM ringonce_dispatch WHERE leased")
    return {"ms": wall / 1e6, "postgres_ms": ran / 1e6, "python_ms": python / 1e6, "pages": pages.pages}


def told(rounds: list[stats.Round], names: list[str], claims: int) -> dict[str, Any]:
    """Medians, and ratios to the smallest."""
    measures = ("ms", "postgres_ms", "python_ms", "pages", "bare_ms", "bare_postgres_ms", "bare_pages")
    summary = stats.summarise(rounds)
    rows = []
    for name in names:
        ratios = [stats.ratio(rounds, name, names[0], measure) for measure in ("postgres_ms", "ms", "pages")]
        rows.append(
            [
                name,
                *(summary[name][measure]["median"] for measure in measures),
                *(ratio and ratio["median"] for ratio in ratios),
            ]
        )
    columns = [
        "finished rows",
        "ms",
        "PostgreSQL ms",
        "Python ms",
        "pages",
        "bare: ms",
        "bare: PostgreSQL ms",
    ]
    columns += ["bare: pages", "PostgreSQL ×", "ms ×", "pages ×"]
    plot = {
        "name": "rows",
        "title": "A claim of 100",
        "unit": "ms of PostgreSQL's processor",
        "bars": [
            {
                "name": f"{kind}, {name}",
                **{key: summary[name][measure][key] for key in ("median", "min", "max")},
            }
            for name in names
            for kind, measure in (("ringonce", "postgres_ms"), ("bare", "bare_postgres_ms"))
        ],
    }
    return {
        "rounds": rounds,
        "tables": [{"title": f"A claim of {BATCH} by rows in the tables", "columns": columns, "rows": rows}],
        "plots": [plot],
        "notes": [
            (
                f"Medians of {claims} claims from each database in turn; × is the median of the ratios to "
                "the smallest, claim by claim. Beside the finished rows lie a tenth as many that are due "
                "in a year, and the due ones. A claim is ringonce's own: a lease with its fence, and "
                "all that is needed to send, read. Bare is the one UPDATE over SELECT … FOR UPDATE SKIP LOCKED, "
                "through asyncpg."
            ),
        ],
    }
