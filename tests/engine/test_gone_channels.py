"""Rows of a channel that left the configuration are seen, told of, and end at last."""

import asyncio
from typing import Any

import pytest

from ringonce import Ringonce
from ringonce.model.policy import DAY
from ringonce.ports import Settled

from .conftest import KeptTelemetry

CONFIG = {
    "store": {"url": "sqlite:///:memory:"},
    "channels": {"box": {"provider": "sandbox"}, "old": {"provider": "sandbox"}},
    "retry": {"cycle": "10ms"},
}


@pytest.mark.parametrize(("days", "status"), [(6, "pending"), (8, "expired")])
async def test_they_expire(days: int, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are given up when they are older than the default ``max_age`` of 7 days, and not before."""
    async with Ringonce(CONFIG) as ringonce:
        accepted = await ringonce.notify(to={"old": "a"}, content={"text": "x"})
        everything = ringonce.engine.channels.all()
        ringonce.engine.channels.configure({"box": everything["box"]})
        swept = asyncio.Event()
        sweep, later = ringonce.store.sweep, await ringonce.store.now() + days * DAY

        async def watched(*args: Any, **settings: Any) -> list[Settled]:
            settled = await sweep(*args, now=later, **settings)
            swept.set()
            return settled

        monkeypatch.setattr(ringonce.store, "sweep", watched)
        stop = asyncio.Event()
        working = asyncio.create_task(ringonce.run_worker(stop, only=["sweep"]))
        async with asyncio.timeout(60):
            await swept.wait()
        stop.set()
        await working
        life = await ringonce.get(accepted.notifications[0].id)
    assert life.row.state.status.value == status


async def test_they_are_told_of(telemetry: KeptTelemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is told once each time that a channel goes with rows waiting; its gauges stay, and end at 0."""
    async with Ringonce(CONFIG) as ringonce:
        monkeypatch.setattr(ringonce.engine, "telemetry", telemetry)
        accepted = await ringonce.notify(to={"old": "a", "box": "a"}, content={"text": "x"})
        (old,) = (one.id for one in accepted.notifications if one.channel == "old")
        everything = dict(ringonce.engine.channels.all())
        measured = asyncio.Event()
        cycles = 0
        lanes = ringonce.store.lanes

        async def watched() -> Any:
            # The cycle that was measured before this one has been told by now.
            nonlocal cycles
            cycles += 1
            measured.set()
            return await lanes()

        async def some() -> None:
            """Let three cycles pass."""
            until = cycles + 4
            while cycles < until:
                measured.clear()
                await measured.wait()

        def gauges() -> list[int]:
            return [
                value
                for name, value, labels in telemetry.counts
                if name == "ringonce_oldest_pending_seconds" and labels["channel"] == "old"
            ]

        monkeypatch.setattr(ringonce.store, "lanes", watched)
        stop = asyncio.Event()
        working = asyncio.create_task(ringonce.run_worker(stop, only=["retry"]))
        told = []
        async with asyncio.timeout(60):
            for there in (True, False, True, False):
                names = ("box", "old") if there else ("box",)
                ringonce.engine.channels.configure({name: everything[name] for name in names})
                await some()
                told.append([kind for kind, _ in telemetry.alerts])
            now = await ringonce.store.now()
            monkeypatch.setattr(ringonce.store, "now", lambda: asyncio.sleep(0, now + DAY))
            await some()
            waited = max(gauges())
            await ringonce.cancel(old)
            await some()
        stop.set()
        await working
    assert told == [[], ["channel_gone"], ["channel_gone"], ["channel_gone"] * 2]
    assert waited >= DAY // 1_000_000
    assert gauges()[-1] == 0
