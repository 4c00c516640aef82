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
        times: list[int] = []
        taken, go = asyncio.Event(), asyncio.Event()
        take, clock = ringonce.store.take_lease, ringonce.store.now

        async def watched(name: str, holder: str, ttl: int) -> int | None:
            """Hold the owner where it is: it neither prolongs its lease nor gives it back in peace."""
            times.append(await clock())
            term = await take(name, holder, ttl)
            times.append(await clock())
            taken.set()
            await go.wait()
            return term

        monkeypatch.setattr(ringonce.store, "take_lease", watched)
        stop = asyncio.Event()
        working = asyncio.create_task(ringonce.run_worker(stop, only=["retry"]))
        await taken.wait()
        other = await take(RETRY_LEASE, "other", 1, now=times[0] + seconds * 1_000_000 - 1)
        heir = await take(RETRY_LEASE, "heir", 1, now=times[1] + seconds * 1_000_000)
        go.set()
        stop.set()
        await working
        assert (other, heir) == (None, 2)
