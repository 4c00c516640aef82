"""The duty of pruning, its pace and its single owner; the watch over snapshots that are held."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ringonce.app import Ringonce
from ringonce.engine.horizon import Horizon
from ringonce.engine.pruner import ANEW, REST, TAKE_AGAIN, Pruner
from ringonce.engine.worker import Worker
from ringonce.errors import InputError
from ringonce.model.policy import DAY, SECOND
from ringonce.model.retention import Pruned, Retention, Snapshot, Walk
from ringonce.ports import PRUNE_LEASE
from tests.engine.conftest import KeptTelemetry, StandingClock


class Slow:
    """A store whose batches take a tenth of a second each."""

    def __init__(self, clock: StandingClock) -> None:
        self.clock = clock
        self.walks: list[Walk | None] = []
        self.left = 3
        self.term: int | None = 1
        self.held = True

    async def take_lease(self, name: str, _holder: str, _ttl: int) -> int | None:
        """Give it, while there is a term."""
        assert name == PRUNE_LEASE
        return self.term

    async def prune(self, _term: int, _holder: str, _keep: Retention, **how: Any) -> Pruned:
        """One batch."""
        self.walks.append(how["walk"])
        self.clock.seconds += 0.1
        self.left -= 1
        return Pruned({"events": 7}, 500, Walk(len(self.walks)), done=self.left <= 0, held=self.held)

    async def prune_receipts(self) -> dict[str, int]:
        """Reports, at the end of a walk."""
        return {"receipts": 2, "provider_refs": 0}


@pytest.fixture
def slow(clock: StandingClock) -> Slow:
    """A slow store."""
    return Slow(clock)


@pytest.fixture
def pruner(slow: Slow, clock: StandingClock, telemetry: KeptTelemetry) -> Pruner:
    """Its pruner."""
    settings = SimpleNamespace(keep=Retention())
    return Pruner(SimpleNamespace(store=slow, clock=clock, telemetry=telemetry, settings=settings), "w-1")


async def test_batches_are_paced(pruner: Pruner, telemetry: KeptTelemetry) -> None:
    """After a batch it pauses four times as long as the batch took; a walk ends with old reports, and with a rest."""
    waits = [await pruner.turn() for _ in range(3)]
    assert waits == [pytest.approx(0.4), pytest.approx(0.4), REST]
    pruned = [(labels["table"], value) for _, value, labels in telemetry.counts]
    assert pruned == [("events", 7)] * 3 + [("receipts", 2)]


async def test_a_walk_goes_on_and_begins_anew_each_day(
    pruner: Pruner, slow: Slow, clock: StandingClock
) -> None:
    """Each batch goes on where the last one ended, after a day from the very beginning."""
    for _ in range(4):
        await pruner.turn()
    clock.seconds += ANEW
    await pruner.turn()
    assert slow.walks == [None, Walk(1), Walk(2), Walk(3), None]


async def test_who_is_not_the_holder_prunes_nothing(pruner: Pruner, slow: Slow) -> None:
    """Without the lease it waits; a lease that was lost is asked for again before anything else."""
    slow.term = None
    assert await pruner.turn() == TAKE_AGAIN
    assert (slow.walks, pruner.holding) == ([], False)
    slow.term, slow.held = 2, False
    await pruner.turn()
    assert not pruner.holding
    slow.held = True
    await pruner.turn()
    assert pruner.holding


@pytest.fixture
async def ringonce() -> AsyncIterator[Ringonce]:
    """One with a channel, in memory, that keeps nothing that was sent."""
    config = {"store": {"url": "sqlite://"}, "channels": {"a": {"provider": "sandbox"}}}
    async with Ringonce(config) as made:
        made.engine.settings = replace(made.engine.settings, keep=Retention(sent=0))
        yield made


async def test_a_worker_prunes_and_gives_the_duty_up(ringonce: Ringonce) -> None:
    """What is old enough is gone after a while of work; at the end another worker may have the duty at once."""
    (brief,) = (await ringonce.notify(to={"a": "ada"}, content={"text": "x"})).notifications
    stop = asyncio.Event()
    done = asyncio.Event()

    def count(name: str, value: int = 1, /, **labels: str) -> None:
        if name == "ringonce_pruned_total" and labels["table"] == "notifications":
            done.set()

    ringonce.telemetry.count = count  # type: ignore[method-assign]
    await ringonce.run_worker(drain=True, only=["dispatch", "retry"])
    working = asyncio.create_task(ringonce.run_worker(stop, only=["prune"]))
    async with asyncio.timeout(60):
        await done.wait()
    stop.set()
    await working
    assert await ringonce.store.get(brief.id) is None
    assert await ringonce.store.take_lease(PRUNE_LEASE, "other", SECOND) == 2


@pytest.mark.parametrize(
    ("only", "loops"),
    [([], 1), (["prune"], 1), (["dispatch"], 1), (["retry"], 0), (["prune", "dispatch"], 1)],
)
async def test_one_look_at_snapshots_for_each_worker(ringonce: Ringonce, only: list[str], loops: int) -> None:
    """Who claims or prunes looks at the snapshots, once."""
    worker = Worker(ringonce.engine, only)
    assert [loop.name for loop in worker._loops].count("horizon") == loops


async def test_an_event_older_than_the_journal_is_refused(ringonce: Ringonce) -> None:
    """What happened before the journal begins is refused by name; younger, or without a time, it is accepted."""
    body = {"to": {"a": "ada"}, "content": {"text": "x"}}
    with pytest.raises(InputError) as caught:
        await ringonce.notify({**body, "occurred_at": "2020-01-01T00:00:00Z"})
    assert (caught.value.code, caught.value.field) == ("event_too_old", "occurred_at")
    assert await ringonce.search() == []
    ringonce.engine.settings = replace(ringonce.engine.settings, keep=Retention(journal=None))
    await ringonce.notify({**body, "occurred_at": "2020-01-01T00:00:00Z"})
    ringonce.engine.settings = replace(ringonce.engine.settings, keep=Retention(journal=90 * DAY))
    await ringonce.notify(body)


class Held:
    """A store whose database has these snapshots."""

    def __init__(self) -> None:
        self.now: list[Snapshot] = []
        self.shortened: list[bool] = []

    async def snapshots(self) -> list[Snapshot]:
        """Those."""
        return self.now

    def shorten(self, *, on: bool) -> None:
        """Keep it."""
        self.shortened.append(on)


async def test_a_snapshot_is_told_of_once_and_its_end_once(
    clock: StandingClock, telemetry: KeptTelemetry
) -> None:
    """One alert names the holder when it has been held too long, one says that it is over; claims are short between."""
    store = Held()
    settings = SimpleNamespace(oldest_snapshot=30.0)
    engine: Any = SimpleNamespace(store=store, clock=clock, telemetry=telemetry, settings=settings)
    horizon = Horizon(engine, lambda: True)
    for seconds in (0, 29, 31, 60, None, None):
        store.now = [Snapshot("session 7 (psql)", "7:1", seconds * SECOND)] if seconds is not None else []
        await horizon.look()
    assert [kind for kind, _ in telemetry.alerts] == ["old_snapshot", "old_snapshot_over"]
    assert "session 7 (psql) has held a snapshot for 31 s" in telemetry.alerts[0][1]
    assert store.shortened == [False, False, True, True, False, False]
    assert [value for _, value, _ in telemetry.counts] == [0, 29, 31, 60, 0, 0]


async def test_a_snapshot_without_a_time_is_as_old_as_we_have_seen_it(
    clock: StandingClock, telemetry: KeptTelemetry
) -> None:
    """A slot's age counts from the first look at it; when it moves on, its age begins anew."""
    store = Held()
    settings = SimpleNamespace(oldest_snapshot=30.0)
    engine: Any = SimpleNamespace(store=store, clock=clock, telemetry=telemetry, settings=settings)
    horizon = Horizon(engine, lambda: True)
    for mark in ("slot:a:1", "slot:a:1", "slot:a:2", "slot:a:2"):
        store.now = [Snapshot("replication slot a", mark)]
        await horizon.look()
        clock.seconds += 31
    assert [value for _, value, _ in telemetry.counts] == [0, 31, 0, 31]


async def test_only_the_holder_of_the_duty_alerts(clock: StandingClock, telemetry: KeptTelemetry) -> None:
    """The other workers make their claims short and keep silent; with the alarm off nobody looks."""
    store = Held()
    store.now = [Snapshot("session 7", "7:1", 60 * SECOND)]
    settings = SimpleNamespace(oldest_snapshot=30.0)
    engine: Any = SimpleNamespace(store=store, clock=clock, telemetry=telemetry, settings=settings)
    await Horizon(engine, lambda: False).look()
    assert (telemetry.alerts, store.shortened) == ([], [True])
    settings.oldest_snapshot = None
    await Horizon(engine, lambda: True).look()
    assert (telemetry.alerts, store.shortened) == ([], [True])
