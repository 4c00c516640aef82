"""Replies where programs die and databases fail: one draft for each key, each published once."""

import asyncio
import random

import pytest

from ringonce.app import Ringonce
from ringonce.core.drafts import state_of
from ringonce.errors import StoreUnavailable
from ringonce.model.draft import DraftState
from ringonce.store.store import SqlStore
from ringonce.vendors.script import plan
from ringonce.vendors.wildberries import WildberriesApi
from tests.crash.conftest import Url
from tests.crash.inside import SLOTS, Death, Storm, application, settings, unknown
from tests.requirements.conftest import Start, System, migrated, start, store_url  # noqa: F401 - fixtures

LOOKS = (61, 160, 160)
"""Seconds after which what is published has been read often enough."""
POINTS = [("claim", "after"), ("mark", "after"), ("settle", "before"), ("settle", "after")]


def _real(plain: Ringonce) -> SqlStore:
    real = plain.store._real  # type: ignore[attr-defined]
    assert isinstance(real, SqlStore)
    return real


async def _insist(ring: Ringonce, key: str, text: str) -> None:
    """A client that repeats its call until it is answered."""
    async with asyncio.timeout(120):
        while True:
            try:
                await ring.put_draft(key, text, channel="assume", mode="auto")
            except StoreUnavailable:
                continue
            return


@pytest.mark.parametrize("store", ["memory", "postgresql"])
async def test_a_storm_while_drafts_are_saved(url: Url, store: str) -> None:
    """Each call to the store may fail before or after its work: a PUT that is repeated makes one draft and one call."""
    config = settings("sqlite://" if store == "memory" else url("postgresql"), grace="30s", lease="6s")
    plain, _ = application(config)
    if store != "memory":
        await plain.migrate()
    async with plain:
        storm = Storm(23)
        client, wire = application(config, _real(plain), storm)
        for number in range(40):
            await _insist(client, f"review:{number}", "Thank you")
        assert storm.happened.total() > 20, storm.happened
        async with asyncio.timeout(120):
            await client.run_worker(drain=True)
        drafts = await plain.drafts(limit=500)
        assert {draft.key for draft in drafts} == {f"review:{number}" for number in range(40)}
        assert len(drafts) == 40
        assert {state_of(draft.row.state) for draft in drafts} == {DraftState.SENT}
        assert wire.rung == {str(draft.row.id): 1 for draft in drafts}


@pytest.mark.parametrize("point", POINTS, ids=" ".join)
async def test_death_while_replies_are_sent(url: Url, point: tuple[str, str]) -> None:
    """Wherever a worker dies, each reply is called for once at most, and only what had begun is in doubt."""
    config = settings("sqlite://", grace="0.1s")
    plain, _ = application(config)
    async with plain:
        for number in range(30):
            await plain.put_draft(f"review:{number}", "Thank you", channel="hold", mode="auto")
        death = Death(*point, turn=2)
        dying, _ = application(config, _real(plain), death, death.wire)
        work = asyncio.create_task(dying.run_worker())
        async with asyncio.timeout(120):
            await death.died.wait()
        work.cancel()
        heir, wire = application(config, _real(plain))
        async with asyncio.timeout(120):
            await heir.run_worker(drain=True)
        rung = death.wire.rung + wire.rung
        drafts = await plain.drafts(limit=500)
        doubted = [draft for draft in drafts if draft.row.state.unknown]
        assert len(doubted) <= SLOTS
        for draft in drafts:
            seen = state_of(draft.row.state)
            assert seen is (DraftState.PENDING if draft in doubted else DraftState.SENT)
            assert rung[str(draft.row.id)] == 1 or (draft in doubted and not rung[str(draft.row.id)])
        await asyncio.wait({work})


async def _settled(system: System) -> bool:
    """Nothing is to be sent, or is being sent: all are published or in doubt."""
    drafts = await system.ring.drafts(limit=500)
    return all(draft.row.lease is None and draft.row.state.next_attempt_at is None for draft in drafts)


@pytest.mark.timeout(600)
async def test_killed_while_publishing(start: Start) -> None:  # noqa: F811 - the fixture
    """SIGKILL at random, again and again: after the looks each answer is public, and was published once."""
    dice = random.Random(5)
    ids = [f"f{number}" for number in range(30)]
    faults = plan(["delay:seconds=0.05"])
    with WildberriesApi("t", feedbacks=ids, plan=faults) as server:
        channel = {
            "provider": "wildberries",
            "token": "t",
            "base_url": server.url,
            "lease": "1s",
            "concurrency": 3,
        }
        system = await start(reply=channel)
        for id_ in ids:
            await system.ring.put_draft(f"feedback:{id_}", "Thank you", channel="reply", mode="auto")
        for _ in range(3):
            worker = await system.process("worker")
            before = len(server.ledger.entries)
            wanted = before + dice.randint(1, 6)
            told = await asyncio.to_thread(
                server.ledger.wait_for, lambda entries, wanted=wanted: len(entries) >= wanted, 120
            )
            assert told, "the worker never called"
            worker.kill()
            await worker.communicate()
        async with system.working(system.ring):
            await system.until(lambda: _settled(system))
        doubted = [draft for draft in await system.ring.drafts(limit=500) if draft.row.state.unknown]
        assert len(doubted) <= 3 * 3
        for seconds in LOOKS:
            await system.pass_time(seconds)
            await system.work()
        async with system.working(system.ring):
            await system.until(lambda: _settled(system))
        drafts = await system.ring.drafts(limit=500)
        assert {state_of(draft.row.state) for draft in drafts} == {DraftState.SENT}
        assert server.published == {("feedback", id_): 1 for id_ in ids}
        for draft in drafts:
            assert [call.outcome for call in draft.attempts].count("accepted") == 1
            life = await system.ring.get(draft.row.id)
            assert not unknown(life)
