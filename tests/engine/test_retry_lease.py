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
        # Stopping in peace would give it back; here it is looked at while it is held.
        now = await ringonce.store.now()
        other = await take(RETRY_LEASE, "other", 1, now=now + (seconds - 1) * 1_000_000)
        now = await ringonce.store.now()
        heir = await take(RETRY_LEASE, "heir", 1, now=now + (seconds + 1) * 1_000_000)
        stop.set()
        await working
        assert (other, heir) == (None, 2)
