"""From the call of notify(), or the POST, to the call's arrival at the provider: idle and at half load."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.kit import push, stats
from benchmarks.rig import callers, programs
from ringonce import Ringonce
from tests.servers.postgres import fresh_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from benchmarks.kit.context import Context
    from benchmarks.rig.callers import Caller, Library
    from benchmarks.rig.programs import Clocked

SAMPLES = 300
GAP = (0.03, 0.09)
"""Seconds between two probes, whoever makes them."""
SILENT = 12
SILENCE = 2.5
"""Of so many probes each follows so many seconds in which nothing happened at all."""
BURST = 4_000
CHUNK = 0.05
LOADED_GAP = (0.02, 0.04)
POSTGRES = ("notify(), PostgreSQL", "HTTP, PostgreSQL")
LITE = "notify(), SQLite, in process"
BARE = "bare INSERT and POST"


@dataclass(slots=True)
class Probes:
    """Sends probes, and later joins them with the arrivals."""

    stub: Clocked
    ways: dict[str, Caller]
    seed: random.Random
    number: int = 0
    begun: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    came: dict[str, int] = field(default_factory=dict)

    def next(self, count: int = 1) -> int:
        """The first of ``count`` numbers that nobody has."""
        self.number += count
        return self.number - count

    async def send(
        self, names: Iterable[str], count: int, gap: tuple[float, float], state: str, batch: int
    ) -> None:
        """``count`` probes by each of these ways in turn."""
        chosen = list(names)
        for turn in range(count):
            for name in stats.order(chosen, turn):
                await asyncio.sleep(self.seed.uniform(*gap))
                number = self.next()
                began = await self.ways[name](number)
                self.begun[push.token(number)] = (f"{name}, {state}", batch, began)

    async def arrived(self) -> None:
        """Wait until each probe has arrived. Raises RuntimeError: one did not."""
        deadline = time.monotonic() + programs.PATIENCE
        while True:
            for token, when in (await asyncio.to_thread(self.stub.arrivals)).items():
                self.came.setdefault(token, when)
            missing = self.begun.keys() - self.came.keys()
            if not missing:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(missing)} of {len(self.begun)} probes never arrived")
            await asyncio.sleep(0.1)

    def late(self) -> dict[str, dict[int, list[float]]]:
        """Milliseconds by variant and batch."""
        told: dict[str, dict[int, list[float]]] = {}
        for token, (name, batch, began) in self.begun.items():
            told.setdefault(name, {}).setdefault(batch, []).append((self.came[token] - began) / 1e6)
        return told


def run(context: Context) -> dict[str, Any]:
    """All ways in turn, first with nothing else to do, then at half of what each store carries."""
    with programs.clocked() as stub, fresh_database(context.postgres.database) as database:
        config = push.config(stub, database.url("asyncpg"))
        programs.migrated(config)
        file = programs.write(context.folder / "latency.toml", config)
        with programs.worker(file), programs.api(file) as (_, port):
            late, loads = asyncio.run(measured(context, stub, config, database, port))
    return told(context, late, loads)


async def measured(
    context: Context, stub: Clocked, config: dict[str, Any], database: Any, port: int
) -> tuple[dict[str, dict[int, list[float]]], dict[str, float]]:
    """Probe."""
    samples = max(1, context.size(SAMPLES) // context.runs)
    silent = max(1, min(SILENT, round(SILENT * context.scale)))
    loads: dict[str, float] = {}
    async with contextlib.AsyncExitStack() as stack:
        library = callers.Library(await stack.enter_async_context(Ringonce(config)))
        lite = await stack.enter_async_context(callers.embedded(config, context.folder))
        bare = await stack.enter_async_context(callers.bare(database, stub))
        ways = dict(zip(POSTGRES, (library, callers.Api(port)), strict=True)) | {LITE: lite, BARE: bare}
        probes = Probes(stub, ways, random.Random(1))
        await probes.send(ways, 3, GAP, "warm", 0)
        await probes.arrived()
        probes.begun.clear()
        for batch in range(context.runs):
            await probes.send(ways, samples, GAP, "idle", batch)
            context.say(f"  idle: {batch + 1} of {context.runs}")
        await probes.send(ways, silent, (SILENCE / len(ways),) * 2, f"after {SILENCE} s of silence", 0)
        for names, store in ((POSTGRES, library), ((LITE,), lite)):
            rate = await capacity(context, stub, probes, store)
            loads[names[0]] = rate / 2
            context.say(f"  {names[0]}: {rate:,.0f}/s at most, so {rate / 2:,.0f}/s beside the probes")
            async with load(probes, store, rate / 2):
                for batch in range(context.runs):
                    await probes.send((*names, BARE), samples, LOADED_GAP, f"half load of {names[0]}", batch)
            await probes.arrived()
    return probes.late(), loads


async def capacity(context: Context, stub: Clocked, probes: Probes, store: Library) -> float:
    """Notifications per second, handed over in bulk and delivered, while nothing else goes on."""
    count = context.size(BURST)
    before, began = await asyncio.to_thread(stub.count), time.monotonic()
    for _ in range(0, count, 500):
        await store.many(probes.next(500), min(500, count))
    wanted = before + min(500, count) * len(range(0, count, 500))
    deadline = time.monotonic() + programs.PATIENCE
    while (now := await asyncio.to_thread(stub.count)) < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{wanted - now} of {count} were not delivered")
        await asyncio.sleep(0.02)
    return (wanted - before) / (time.monotonic() - began)


@contextlib.asynccontextmanager
async def load(probes: Probes, store: Library, rate: float) -> AsyncIterator[None]:
    """Hand over ``rate`` notifications a second, a bundle every 50 ms."""

    async def go() -> None:
        began, given = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * rate) - given
            if due > 0:
                await store.many(probes.next(due), due)
                given += due
            await asyncio.sleep(CHUNK)

    task = asyncio.create_task(go())
    try:
        await asyncio.sleep(1.0)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def told(
    context: Context, late: dict[str, dict[int, list[float]]], loads: dict[str, float]
) -> dict[str, Any]:
    """Percentiles over all samples, and of each batch."""
    rounds: list[stats.Round] = [{} for _ in range(context.runs)]
    rows, bars = [], []
    for name, batches in late.items():
        for batch, values in batches.items():
            rounds[batch][name] = {f"p{p}": stats.percentile(values, p) for p in (50, 99)}
        values = [value for some in batches.values() for value in some]
        rows.append([name, len(values), *(stats.percentile(values, p) for p in (50, 90, 99)), max(values)])
        summary = stats.summary(stats.column(rounds, name, "p50"))
        shown = name if BARE in name else f"ringonce: {name}"
        bars.append({"name": shown, **{key: summary[key] for key in ("median", "min", "max")}})
    loaded = "; ".join(f"{name}: {rate:,.0f}/s" for name, rate in loads.items())
    return {
        "title": "From notify() to the provider",
        "rounds": rounds,
        "tables": [{"columns": ["", "samples", "p50 ms", "p90 ms", "p99 ms", "most ms"], "rows": rows}],
        "plots": [{"name": "p50", "title": "From notify() to the provider, p50", "unit": "ms", "bars": bars}],
        "notes": [
            (
                "From before the call (of notify(), or of the request's first byte) to the arrival of the "
                "call at a stub, by the machine's monotonic clock. On PostgreSQL caller, API and worker "
                f"are three processes, on SQLite caller and worker are one. All ways take turns, {GAP[0]} "
                f"to {GAP[1]} s apart. Bare: one row committed through asyncpg, then the same kind of call."
            ),
            f"Half load: half of what was delivered when {context.size(BURST):,} were handed over at once: {loaded}.",
        ],
        "loads": loads,
    }
