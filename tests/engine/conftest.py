"""A clock that stands still until told, alerts that are kept, and channels with the sandbox and real providers."""

import asyncio
import heapq
import itertools
from collections.abc import Mapping
from uuid import UUID

import pytest

from ringonce import registry
from ringonce.clock import SystemEntropy
from ringonce.engine.channels import Channels, Entry
from ringonce.model.policy import Channel, Policy


class StandingClock:
    """Time moves only by ``advance``; everything that is due then wakes up."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        """Microseconds."""
        return int(self.seconds * 1_000_000)

    def monotonic(self) -> float:
        """Seconds."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until time has been moved on."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move time on."""
        self.seconds += seconds
        while self._sleepers and self._sleepers[0][0] <= self.seconds:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
        await self.settle()

    async def settle(self) -> None:
        """Let everything that can run now run."""
        for _ in range(20):
            await asyncio.sleep(0)


class KeptTelemetry:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.alerts: list[tuple[str, str]] = []
        self.counts: list[tuple[str, int, dict[str, str]]] = []

    def count(self, name: str, value: int = 1, **labels: str) -> None:
        """Keep it."""
        self.counts.append((name, value, labels))

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Keep it."""
        self.counts.append((name, int(value), labels))

    heard = True

    def tell(self, event: object) -> None:
        """Keep nothing."""

    def alert(self, kind: str, text: str, count: int = 1, /, **labels: str) -> None:
        """Keep it."""
        self.alerts.append((kind, text))


class SteadyEntropy(SystemEntropy):
    """Ids are random, jitter is not."""

    def jitter(self) -> float:
        """In the middle."""
        return 0.5


def entry(name: str, provider: str, settings: Mapping[str, object], policy: Policy | None = None) -> Entry:
    """A channel as the configuration would build it."""
    channel = Channel(name=name, provider=provider, policy=policy or Policy(), settings=settings)
    return Entry(channel, registry.build(provider, settings))


@pytest.fixture
def clock() -> StandingClock:
    """Time that stands still."""
    return StandingClock()


@pytest.fixture
def telemetry() -> KeptTelemetry:
    """What was told."""
    return KeptTelemetry()


@pytest.fixture
def entropy() -> SteadyEntropy:
    """No jitter."""
    return SteadyEntropy()


@pytest.fixture
def channels() -> Channels:
    """Box (sandbox), mail (smtp), chat (text only)."""
    return Channels(
        {
            "box": entry("box", "sandbox", {}),
            "mail": entry("mail", "smtp", {"url": "smtp://127.0.0.1:1", "from": "a@example.com"}),
            "chat": entry("chat", "telegram", {"token": "1:abc"}),
        },
        lambda channel, _changes: channel,
    )


def number(index: int) -> UUID:
    """A notification id for a test."""
    return UUID(int=index)
