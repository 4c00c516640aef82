"""A process that dies at a named point, and a store that fails at any: the real engine over the real store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ringonce.app import Ringonce
from ringonce.errors import StoreUnavailable
from ringonce.store.store import SqlStore
from tests.crash.conftest import Url
from tests.crash.inside import (
    SLOTS,
    Death,
    Storm,
    application,
    bodies,
    judge,
    lives,
    settings,
    unknown,
)

STORES = ["memory", "postgresql"]
SLOW_POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.slow)
POINTS = {
    "claimed": ("claim", "after"),
    "marked": ("mark", "after"),
    "sent, not settled": ("settle", "before"),
    "settled, not acknowledged": ("settle", "after"),
    "expanding": ("expand", "after"),
    "arming": ("arm", "after"),
    "owning the retries": ("take_lease", "after"),
    "extending": ("extend", "after"),
}
SHORT = ("marked", "settled, not acknowledged")
MANY = {
    "event_id": "many",
    "recipients": [{"id": f"r{n}", "addresses": {"assume": f"many-{n}"}} for n in range(130)],
    "channels": ["assume"],
    "content": {"text": "x"},
}


@asynccontextmanager
async def _base(url: Url, store: str, **more: str) -> AsyncIterator[tuple[dict[str, object], Ringonce]]:
    """A configuration, and an application without faults over the store that all share."""
    config = settings("sqlite://" if store == "memory" else url("postgresql"), **more)
    plain, _ = application(config)
    if store != "memory":
        await plain.migrate()
    async with plain:
        yield config, plain


def _real(plain: Ringonce) -> SqlStore:
    real = plain.store._real  # type: ignore[attr-defined]
    assert isinstance(real, SqlStore)
    return real


@pytest.mark.parametrize(
    ("store", "point"),
    [("memory", point) for point in POINTS]
    + [
        pytest.param("postgresql", point, marks=[] if point in SHORT else pytest.mark.slow)
        for point in POINTS
    ],
)
async def test_death_at(url: Url, store: str, point: str) -> None:
    """Wherever a worker dies, another one ends its work: nothing lost, nothing twice, doubts only for begun calls."""
    name, when = POINTS[point]
    call = "delay:0.2" if name == "extend" else "delay:0.003"  # long enough to be prolonged
    async with _base(url, store, grace="0.1s", call=call) as (config, plain):
        await plain.notify_many(bodies(60))
        await plain.notify(MANY)
        death = Death(name, when, turn=1 if name in {"arm", "expand"} else 2)
        dying, _ = application(config, _real(plain), death, death.wire)
        work = asyncio.create_task(dying.run_worker())
        async with asyncio.timeout(120):
            await death.died.wait()
        work.cancel()
        heir, wire = application(config, _real(plain))
        async with asyncio.timeout(120):
            await heir.run_worker(drain=True)
        found = await lives(plain)
        assert len(found) == 60 + 130
        judge(found, death.wire.rung + wire.rung, doubts=SLOTS)
        await asyncio.wait({work})


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 5))])
async def test_storm(url: Url, store: str, seed: int) -> None:
    """Any call to the store may fail, before or after its work is done: each notification is sent exactly once."""
    async with _base(url, store, grace="30s", lease="6s") as (config, plain):
        await plain.notify_many(bodies(80))
        storm = Storm(seed)
        worker, wire = application(config, _real(plain), storm)
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        assert storm.happened.total() > 20, storm.happened
        found = await lives(plain)
        judge(found, wire.rung, doubts=0)
        assert {life.row.state.status.value for life in found} == {"sent"}
        assert set(wire.rung.values()) == {1}


@pytest.mark.parametrize("store", ["memory", SLOW_POSTGRESQL])
@pytest.mark.parametrize("name", ["claim", "mark", "settle", "arm", "extend", "overrides", "take_lease"])
async def test_stopped_in_a_call(url: Url, store: str, name: str) -> None:
    """A worker whose task is cancelled while it waits for the store leaves nothing in doubt and nothing leased."""
    # A lease of a second only where it is prolonged: elsewhere nothing waits for its end.
    more = {"call": "delay:0.2"} if name == "extend" else {"lease": "30s"}
    async with _base(url, store, grace="30s", **more) as (config, plain):
        await plain.notify_many(bodies(40))
        reached = asyncio.Event()

        async def plan(called: str, when: str, _result: object) -> None:
            if called == name and when == "after" and not reached.is_set():
                reached.set()
                await asyncio.sleep(0.05)

        worker, wire = application(config, _real(plain), plan)
        work = asyncio.create_task(worker.run_worker())
        async with asyncio.timeout(120):
            await reached.wait()
        work.cancel()
        await asyncio.wait({work})
        assert sum(item.leased for item in await plain.backlog()) == 0
        assert not any(unknown(life) for life in await lives(plain))
        heir, second = application(config, _real(plain))
        async with asyncio.timeout(120):
            await heir.run_worker(drain=True)
        judge(await lives(plain), wire.rung + second.rung, doubts=0)


@pytest.mark.parametrize("store", ["memory", SLOW_POSTGRESQL])
@pytest.mark.parametrize("transaction", [1, 2, 3])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_cancelling_breaks_off(url: Url, store: str, transaction: int, when: str) -> None:
    """A withdrawal that breaks off at any of its transactions: asked for again, it is complete and nothing is sent."""
    async with _base(url, store, lease="30s") as (config, plain):
        await plain.notify_many(bodies(30))
        real = _real(plain)
        run = real._run
        left = transaction

        async def failing(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left == 0 and when == "before":
                raise StoreUnavailable("gone before")
            result = await run(*arguments, **named)  # type: ignore[arg-type]
            if left == 0:
                raise StoreUnavailable("gone after")
            return result

        real._run = real.backend.run = failing  # type: ignore[method-assign, assignment]
        with pytest.raises(StoreUnavailable):
            await plain.cancel_subject("order:1")
        real._run = real.backend.run = run  # type: ignore[method-assign]
        await plain.cancel_subject("order:1")
        worker, wire = application(config, real)
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        found = await lives(plain)
        withdrawn = {life.row.state.status.value for life in found if life.row.subject == "order:1"}
        assert withdrawn == {"cancelled"}
        assert wire.rung.total() == 20


async def test_a_lost_claim_is_rescued(url: Url) -> None:
    """Rows whose claim was done and whose reply was lost are taken over when their lease ends, not held for ever."""
    async with _base(url, "memory") as (config, plain):
        await plain.notify_many(bodies(20))
        lost: list[int] = []

        async def plan(name: str, when: str, result: object) -> None:
            rows = getattr(result, "rows", ())
            if name == "claim" and when == "after" and rows and not lost:
                lost.append(len(rows))
                raise StoreUnavailable("the reply is lost")

        worker, wire = application(config, _real(plain), plan)
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        assert lost
        judge(await lives(plain), wire.rung, doubts=0)


async def test_a_bug_in_one_result_stops_no_other(url: Url) -> None:
    """A result that can not be written for a reason nobody thought of ends in doubt alone; the others are stored."""
    async with _base(url, "memory") as (config, plain):
        await plain.notify_many(bodies(20))
        worker, wire = application(config, _real(plain))
        real = _real(plain)
        settle = real.settle
        bad = (await plain.search(event_id="n-0"))[0].id
        failed = 0

        async def broken(changes: list[object], *rest: object, **named: object) -> object:
            nonlocal failed
            if failed < 2 and any(getattr(change, "id", None) == bad for change in changes):
                failed += len(changes) == 1
                raise ZeroDivisionError
            return await settle(changes, *rest, **named)  # type: ignore[arg-type]

        real.settle = broken  # type: ignore[method-assign, assignment]
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        found = await lives(plain)
        assert [life.row.event_id for life in found if unknown(life)] == ["n-0"]
        judge(found, wire.rung, doubts=1)
