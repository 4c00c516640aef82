"""The lease of the retry cycle's single owner."""

import asyncio

import pytest

from ringonce.app import Ringonce
from ringonce.ports import RETRY_LEASE


@pytest.mark.parametrize(("lease", "seconds"), [("2s", 2), ("60s", 10)])
async def test_a_dead_owner_holds_retries_up_for_a_lease_at_most(
    lease: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dies as the owner of the retry cycle blocks it no longer than a channel's lease, and than ten seconds."""
    channels = {"a": {"provider": "sandbox", "lease": lease}}
    ringonce = Ringonce({"store": {"url": "sqlite://"}, "retry": {"cycle": "10ms"}, "channels": channels})
    async with ringonce:
        taken: asyncio.Queue[int] = asyncio.Queue()
        take = ringonce.store.take_lease

        async def watched(name: str, holder: str, ttl: int) -> int | None:
            term = await take(name, holder, ttl)
            taken.put_nowait(ttl)
            return term

        monkeypatch.setattr(ringonce.store, "take_lease", watched)
        stop = asyncio.Event()
        working = asyncio.create_task(ringonce.run_worker(stop, only=["retry"]))
        await taken.get()
        now = await ringonce.store.now()
        stop.set()
        await working
        after = now + seconds * 1_000_000
        assert await take(RETRY_LEASE, "other", 1, now=after - 1_000_000) is None
        assert await take(RETRY_LEASE, "other", 1, now=after + 1_000_000) == 2
