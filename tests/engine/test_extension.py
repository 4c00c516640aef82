"""Leases are prolonged by the length that their own channel has."""

import asyncio

from ringonce import Ringonce

SHORT = 600_000
LONG = 60_000_000


async def test_each_channel_keeps_its_own_lease() -> None:
    """A channel with a long lease does not keep the leases of another channel's calls alive for longer."""
    channels = {
        "short": {"provider": "sandbox", "script": "delay:30", "lease": "600ms"},
        "long": {"provider": "sandbox", "script": "delay:30", "lease": "60s"},
    }
    config = {"store": {"url": "sqlite:///:memory:"}, "channels": channels, "worker": {"grace": "0s"}}
    async with Ringonce(config) as ringonce:
        accepted = await ringonce.notify(to={"short": "a", "long": "b"}, content={"text": "x"})
        stop = asyncio.Event()
        worker = asyncio.ensure_future(ringonce.run_worker(stop))
        first: dict[str, int] = {}
        left: dict[str, int] = {}
        async with asyncio.timeout(60):
            while len(left) < len(channels):
                for brief in accepted.notifications:
                    lease = (await ringonce.get(brief.id)).row.lease
                    if lease is None or lease.started_at is None:
                        continue
                    first.setdefault(brief.channel, lease.until)
                    if lease.until > first[brief.channel]:
                        left[brief.channel] = lease.until - await ringonce.store.now()
                await asyncio.sleep(0)
        stop.set()
        await worker
    assert left["short"] <= SHORT
    assert left["long"] > LONG // 2
