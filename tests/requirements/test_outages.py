"""D01, D08, DP4: a provider that is down, hangs or is limited holds up nothing but itself."""

import asyncio
from collections import Counter
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.store.schema import attempts
from ringonce.vendors.script import Plan, plan
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, calls, outcomes, started, webhook

AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}
QUICK = {"calls": 5, "open": "100ms", "cap": "200ms"}
FAILED = 12
"""So many answers 500 that the circuit has opened, and probes have failed."""


async def sent(system: System, ids: list[UUID]) -> None:
    """Wait until all of them are."""

    async def all_sent() -> bool:
        return all([(await system.view(id_))["status"] == "sent" for id_ in ids])

    await system.until(all_sent)


# --- D01 -----------------------------------------------------------------------------------------------------------


async def test_D01_a_a_dead_provider_holds_up_no_other_channel(start: Start) -> None:
    """While every slot of one channel hangs in calls that never end, the others deliver all they have."""
    with (
        WebhookReceiver([SECRET], plan=plan(["hang"])) as dead,
        WebhookReceiver([SECRET]) as alive,
    ):
        system = await start(dead=webhook(concurrency=4, timeout="60s"), alive=webhook(concurrency=2))
        for number in range(20):
            await system.accept("dead", f"{dead.url}/{number}")
        ids = [await system.accept("alive", f"{alive.url}/{number}") for number in range(30)]
        async with system.working(system.ring):
            assert await asyncio.to_thread(dead.ledger.wait_for, lambda entries: len(entries) == 4)
            await sent(system, ids)
            assert len(dead.ledger.entries) == 4
            assert {entry.verdict for entry in dead.ledger.entries} == {"hang"}


async def test_D01_b_accepting_goes_on_while_all_providers_hang(start: Start) -> None:
    """The side that accepts never waits for a provider: with all of them hanging it takes on and answers."""
    with WebhookReceiver([SECRET], plan=plan(["hang"])) as dead:
        system = await start(
            one=webhook(concurrency=2, timeout="60s"), two=webhook(concurrency=2, timeout="60s")
        )
        for name in ("one", "two"):
            for number in range(6):
                await system.accept(name, f"{dead.url}/{name}{number}")
        async with system.working(system.ring):
            assert await asyncio.to_thread(dead.ledger.wait_for, lambda entries: len(entries) == 4)
            ids = [await system.accept("one", f"{dead.url}/more{number}") for number in range(20)]
            assert {(await system.view(id_))["status"] for id_ in ids} == {"pending"}
            assert len(dead.ledger.entries) == 4


# --- D08, DP4 ------------------------------------------------------------------------------------------------------


async def test_D08_DP4_a_500_makes_events_wait_and_the_end_of_it_delivers_each_once(start: Start) -> None:
    """Provider down: all wait and are tried again, while the other channel runs; up again: all sent, none twice."""
    with (
        WebhookReceiver([SECRET], plan=plan(["500"])) as server,
        WebhookReceiver([SECRET]) as other,
    ):
        system = await start(
            hook=webhook(concurrency=3, backoff=AT_ONCE, circuit=QUICK, budgets={"transient": 3}),
            rest=webhook(),
        )
        ids = [await system.accept("hook", f"{server.url}/{number}") for number in range(25)]
        async with system.working(system.ring):
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) >= FAILED)
            others = [await system.accept("rest", f"{other.url}/{number}") for number in range(10)]
            await sent(system, others)
            views = [await system.view(id_) for id_ in ids]
            assert not any(view["final"] for view in views)
            assert Counter(view["status"] for view in views).keys() <= {"pending", "failed"}
            more = await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) >= 2 * FAILED)
            assert more
            server.plan = Plan()
            await sent(system, ids)
        arrived = Counter(entry.reference for entry in server.ledger.entries if entry.arrived)
        assert arrived == {str(id_): 1 for id_ in ids}
        assert (await system.ring.report())[0]["failed"] == {}


async def test_D08_b_waiting_for_the_provider_burns_no_budget(start: Start) -> None:
    """However long it is down, a row whose last retry it would be is not given up; failed probes are recorded."""
    with WebhookReceiver([SECRET], plan=plan(["500"])) as server:
        one_call = {"transient": 0, "rate_limited": 0}
        circuit = {"calls": 1, "open": "100ms", "cap": "100ms"}
        system = await start(hook=webhook(concurrency=1, backoff=AT_ONCE, circuit=circuit, budgets=one_call))
        id_ = await system.accept("hook", f"{server.url}/ada")
        async with system.working(system.ring):
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) >= 4)
            await system.until(lambda: recorded(system, 3))
            view = await system.view(id_)
            assert (view["final"], view["attempts"]) == (False, 0)
            assert view["last_error"]["code"] == "NTF_PROVIDER_TRANSIENT"
            server.plan = Plan()
            await system.ended(id_)
        view = await system.view(id_)
        assert (view["status"], view["attempts"]) == ("sent", 1)
        assert Counter(outcomes(view)) == {"transient": len(outcomes(view)) - 1, "accepted": 1}
        assert len(outcomes(view)) == len(server.ledger.entries)


async def recorded(system: System, count: int) -> bool:
    """So many attempts are stored."""
    return await system.count(attempts) >= count


async def test_D08_c_people_see_the_outage_once(start: Start) -> None:
    """One alert when the circuit opens, its state at the channel and in the metrics, one all-clear when it closes."""
    with WebhookReceiver([SECRET], plan=plan(["500"])) as server:
        system = await start(hook=webhook(concurrency=2, backoff=AT_ONCE, circuit=QUICK))
        ids = [await system.accept("hook", f"{server.url}/{number}") for number in range(15)]
        async with system.working(system.ring):
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) >= FAILED)

            async def open_() -> bool:
                (view,) = await system.ring.channels()
                return [one["state"] for one in view["circuits"]] == ["open"]  # type: ignore[attr-defined]

            await system.until(open_)
            server.plan = Plan()
            await sent(system, ids)
        (view,) = await system.ring.channels()
        assert view["circuits"] == []
        assert system.metric("ringonce_alerts_total", kind="circuit_open") == 1
        assert system.metric("ringonce_alerts_total", kind="resumed") == 1
        assert system.metric("ringonce_circuit_opened_total", channel="hook") >= 2


# --- several workers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_one_workers_open_circuit_stops_the_others(start: Start) -> None:
    """While it is open no worker calls; then one probes. Workers that have seen no failure themselves know it too."""
    with WebhookReceiver([SECRET], plan=plan(["500"])) as server:
        forever = {"calls": 3, "open": "1h", "cap": "1h"}
        system = await start(hook=webhook(concurrency=1, backoff=AT_ONCE, circuit=forever))
        for number in range(9):
            await system.accept("hook", f"{server.url}/{number}")
        async with system.working(system.ring):

            async def open_() -> bool:
                return any(lane.paused for lane in await system.ring.store.lanes())

            await system.until(open_)
        tried = len(server.ledger.entries)
        assert tried == 3
        other = await started(system.config)
        try:
            async with system.working(other):
                witness = await other.store.now()

                async def looked() -> bool:
                    return await other.store.now() > witness + 2_000_000

                await system.until(looked)
        finally:
            await other.close()
        assert len(server.ledger.entries) == tried


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_a_rate_holds_over_two_workers(start: Start) -> None:
    """Two workers together send no more than the rate, a burst, and what each may have had in hand."""
    rate, burst, rows = 50, 5, 100
    with WebhookReceiver([SECRET]) as server:
        system = await start(hook=webhook(rate=f"{rate}/s", burst=burst))
        ids = [await system.accept("hook", f"{server.url}/{number}") for number in range(rows)]
        other = await started(system.config)
        try:
            async with system.working(system.ring, other):
                await sent(system, ids)
        finally:
            await other.close()
        query = sa.select(sa.func.min(attempts.c.started_at), sa.func.max(attempts.c.started_at))
        first, last = await system.sql(lambda c: c.execute(query).one())
        assert (last - first) * rate >= (rows - 3 * burst) * 1_000_000
        assert set(calls(server).values()) == {1}


async def test_a_tenants_flood_leaves_the_other_its_share(start: Start) -> None:
    """A tenant's single row goes out among the first although another has a hundred waiting before it."""
    with WebhookReceiver([SECRET]) as server:
        system = await start(hook=webhook(concurrency=1, lanes={"flood": 1, "small": 1}))
        for number in range(100):
            await system.accept("hook", f"{server.url}/{number}", tenant="flood")
        small = await system.accept("hook", f"{server.url}/small", tenant="small")
        async with system.working(system.ring):
            await system.ended(small)
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) >= 101)
        order = [entry.address for entry in server.ledger.entries]
        assert order.index("/small") < 10
