"""Time that jumps, and a loop that stands still."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from ringonce.clock import SystemClock
from ringonce.errors import StoreUnavailable
from ringonce.ports import Row
from ringonce.store.sqlite import SqliteBackend
from tests.crash.conftest import Url
from tests.crash.inside import SLOTS, application, bodies, channel, judge, lives, settings, unknown

HOUR = 3_600_000_000
TWO_LEASES = 2.2


class SkewedClock(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, by: int) -> None:
        """``by``: microseconds."""
        self._by = by

    def now(self) -> int:
        """The wrong time."""
        return super().now() + self._by


def _slow(url: str, call: str = "delay:0.3") -> dict[str, object]:
    slow = {name: channel(name, call) for name in ("assume_sent", "resend")}
    slow["guarded"] = channel("assume_sent", "delay:0.01")
    return {**settings(url), "channels": slow}


def _bodies() -> list[dict[str, object]]:
    names = ("assume_sent", "resend")
    return [
        {"event_id": f"n-{n}", "to": {names[n % 2]: f"a{n}"}, "content": {"text": "x"}}
        for n in range(2 * SLOTS)
    ] + [{"event_id": "slow", "to": {"guarded": "b"}, "subject": "order:1", "content": {"text": "x"}}]


def _blocker(blocked: threading.Event) -> object:
    async def blocks(_row: Row) -> bool:
        if not blocked.is_set():
            await asyncio.sleep(0.1)  # let the other channels' calls begin
            blocked.set()
            time.sleep(TWO_LEASES)  # noqa: ASYNC251 - the fault that is looked at
        return True

    return blocks


async def test_blocked_loop_alone(url: Url) -> None:
    """A guard that blocks the loop for two leases: the worker does not take its own running calls for lost."""
    config = _slow("sqlite://", "delay:3")  # longer than the loop stands still
    blocked = threading.Event()
    failed: list[str] = []

    async def plan(name: str, when: str, _result: object) -> None:
        # The first attempt to prolong afterwards fails, so that the rescuer comes first.
        if name == "extend" and when == "before" and blocked.is_set() and not failed:
            failed.append(name)
            raise StoreUnavailable("just then")

    worker, wire = application(config, plan=plan)
    async with worker:
        worker.guard("order")(_blocker(blocked))  # type: ignore[type-var, arg-type]
        await worker.notify_many(_bodies())
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        assert blocked.is_set()
        found = await lives(worker)
        assert not any(unknown(life) for life in found)
        judge(found, wire.rung, doubts=0)


async def test_blocked_loop_and_another_worker(url: Url) -> None:
    """The same while another worker rescues: told twice under `resend` only, late answers decide the doubts."""
    config = _slow(url("postgresql"))
    worker, wire = application(config)
    await worker.migrate()
    blocked = threading.Event()
    other_wire = []

    def help_out() -> None:
        async def drain() -> None:
            other, counted = application(config)
            other_wire.append(counted)
            async with other:
                await other.run_worker(drain=True)

        blocked.wait(120)
        asyncio.run(drain())

    helper = threading.Thread(target=help_out)
    helper.start()
    async with worker:
        worker.guard("order")(_blocker(blocked))  # type: ignore[type-var, arg-type]
        await worker.notify_many(_bodies())
        async with asyncio.timeout(120):
            await worker.run_worker(drain=True)
        await asyncio.to_thread(helper.join)
        judge(await lives(worker), wire.rung + other_wire[0].rung, doubts=SLOTS)


@pytest.mark.parametrize("hours", [-1, 1])
async def test_skewed_clock(url: Url, hours: int) -> None:
    """On PostgreSQL the application's clock decides nothing: a worker an hour off sends what is due, and only that."""
    config = settings(url("postgresql"))
    plain, _ = application(config)
    await plain.migrate()
    async with plain:
        soon = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
        expiring = [{**body, "expires_at": soon} for body in bodies(20)]
        later = {"event_id": "later", "to": {"assume": "z"}, "content": {"text": "x"}, "send_at": soon}
        skewed, wire = application(config)
        skewed.engine.clock = SkewedClock(hours * HOUR)
        async with skewed:
            await skewed.notify_many([*expiring, later])
            async with asyncio.timeout(120):
                await skewed.run_worker(drain=True)
        found = {life.row.event_id: life for life in await lives(plain)}
        assert found.pop("later").row.state.status.value == "pending"
        judge(list(found.values()), wire.rung, doubts=0)
        now = time.time_ns() // 1000
        for life in found.values():
            assert life.row.state.status.value == "sent"
            assert all(abs(attempt.started_at - now) < HOUR // 2 for attempt in life.attempts)


async def test_wall_clock_goes_backwards(url: Url) -> None:
    """On SQLite the wall clock is set back by an hour in the middle: nothing waits for it, no time runs backwards."""
    config = settings(url("sqlite"))
    worker, wire = application(config)
    async with worker:
        await worker.notify_many(bodies(20))
        before = await worker.store.now()
    again, _ = application(config, wire=wire)
    backend = again.store.backend
    assert isinstance(backend, SqliteBackend)
    backend._wall = lambda: time.time_ns() // 1000 - HOUR
    async with again:
        assert await again.store.now() >= before - 60_000_000
        async with asyncio.timeout(120):
            await again.run_worker(drain=True)
        found = await lives(again)
        judge(found, wire.rung, doubts=0)
        for life in found:
            times = [life.row.created_at, *(attempt.started_at for attempt in life.attempts)]
            assert times == sorted(times)
