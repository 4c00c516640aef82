"""While more waits than was taken, the database works on the next claim while the last one is sent."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ringonce import Ringonce
from ringonce.engine import dispatch
from ringonce.engine.dispatch import WAVE, Lane
from ringonce.errors import StoreUnavailable
from ringonce.store.store import SqlStore
from ringonce.wire.script import ScriptedWire

PORTION = 10
SLOTS = PORTION * WAVE
PEOPLE = 4 * SLOTS
CONFIG = {
    "store": {"url": "sqlite:///:memory:"},
    "channels": {"box": {"provider": "sandbox", "concurrency": SLOTS, "script": "delay:0.05"}},
}


class Watched:
    """What the lane asked of the store, what it was sending meanwhile, and which calls were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.most = 0
        self.ahead = 0
        self.calls: list[str] = []
        self.before: Callable[[int], Any] = lambda _: None
        claim, submit, wave, ask = SqlStore.claim, ScriptedWire.submit, Lane._wave, Lane._claim

        async def claimed(store: SqlStore, name: str, owner: str, limit: int, *rest: Any, **more: Any) -> Any:
            self.asked.append(limit)
            under_way = self.before(len(self.asked))
            if under_way is not None:
                await under_way
            return await claim(store, name, owner, limit, *rest, **more)

        def submitted(wire: ScriptedWire, batch: Sequence[Any], deliver: Any) -> None:
            self.calls += [str(flight.row.id) for flight, _ in batch]
            submit(wire, batch, deliver)

        async def asking(lane: Lane, entry: Any, what: Any) -> None:
            if what.begin:
                self.most = max(self.most, what.wanted + len(lane._held))
            await ask(lane, entry, what)

        async def sent(lane: Lane, *arguments: Any) -> None:
            self.ahead += lane._coming is not None
            await wave(lane, *arguments)

        monkeypatch.setattr(dispatch, "SMALL", PORTION // 2)
        monkeypatch.setattr(SqlStore, "claim", claimed)
        monkeypatch.setattr(ScriptedWire, "submit", submitted)
        monkeypatch.setattr(Lane, "_wave", sent)
        monkeypatch.setattr(Lane, "_claim", asking)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The claims, waves and calls of the test."""
    return Watched(monkeypatch)


async def handed_over(ringonce: Ringonce) -> list[Any]:
    """Four times as many as there are slots, and their ids."""
    bodies = [{"to": {"box": f"p{i}"}, "content": {"text": "x"}} for i in range(PEOPLE)]
    return [one.notifications[0].id for one in await ringonce.notify_many(bodies)]


async def statuses(ringonce: Ringonce, ids: list[Any]) -> list[str]:
    """How they stand."""
    return [(await ringonce.get(id_)).row.state.status.value for id_ in ids]


async def test_a_quarter_of_the_slots_each(watched: Watched) -> None:
    """A claim is for a quarter of the slots, the next one is asked for meanwhile, and no slot is taken twice."""
    async with Ringonce(CONFIG) as ringonce:
        ids = await handed_over(ringonce)
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        assert set(await statuses(ringonce, ids)) == {"sent"}
    assert sorted(watched.calls) == sorted(map(str, ids))
    assert watched.ahead >= 1
    assert 0 < watched.most <= SLOTS
    # The first one can not know how much there is.
    assert max(watched.asked[1:6]) <= PORTION


async def test_a_claim_that_failed_meanwhile(watched: Watched) -> None:
    """An error of the claim that was under way is met in the next turn, and every row is called once."""

    async def broken() -> None:
        raise StoreUnavailable("the database is away")

    watched.before = lambda number: broken() if number in {2, 3, 5} else None
    async with Ringonce(CONFIG) as ringonce:
        ids = await handed_over(ringonce)
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        assert set(await statuses(ringonce, ids)) == {"sent"}
    assert sorted(watched.calls) == sorted(map(str, ids))


async def test_a_claim_that_comes_when_the_worker_stops(watched: Watched) -> None:
    """What a claim brings that was under way at the stop is given back, and nobody is called for it."""
    reached, free = asyncio.Event(), asyncio.Event()

    async def held() -> None:
        reached.set()
        await free.wait()

    watched.before = lambda number: held() if number == 2 else None
    async with Ringonce(CONFIG) as ringonce:
        ids = await handed_over(ringonce)
        stop = asyncio.Event()
        async with asyncio.timeout(60):
            worker = asyncio.create_task(ringonce.run_worker(stop))
            await reached.wait()
            stop.set()
            await asyncio.sleep(0)
            free.set()
            await worker
        told = await statuses(ringonce, ids)
        assert told.count("sent") == len(watched.calls) == len(set(watched.calls)) < PEOPLE
        assert set(told) == {"sent", "pending"}
        assert sum(item.leased for item in await ringonce.backlog()) == 0
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        assert set(await statuses(ringonce, ids)) == {"sent"}
    assert sorted(watched.calls) == sorted(map(str, ids))
