"""Rows that were claimed ahead are not called while their lane is paused."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ringonce import Ringonce
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.providers.sandbox import Sandbox
from ringonce.wire.script import ScriptedWire

SLOTS = 2
PEOPLE = 6
PAUSE = 1
CONFIG = {
    "store": {"url": "sqlite:///:memory:"},
    "channels": {
        "box": {
            "provider": "sandbox",
            "concurrency": SLOTS,
            "backoff": {"base": "1ms", "jitter": "1ms"},
            "circuit": {"calls": SLOTS, "open": f"{PAUSE}s"},
        }
    },
    "retry": {"cycle": "10ms"},
}
LIMITED = Outcome(OutcomeClass.RATE_LIMITED, Code.RATE_LIMITED, scope="channel", retry_after_s=PAUSE)
REFUSED = Outcome(OutcomeClass.AUTH, Code.AUTH, scope="channel")
DOWN = Outcome(OutcomeClass.TRANSIENT, Code.TRANSIENT)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each call began (monotonic seconds)."""
    times: list[float] = []
    submit = ScriptedWire.submit

    def watched(self: ScriptedWire, batch: Sequence[Any], deliver: Any) -> None:
        times.extend([time.monotonic()] * len(batch))
        submit(self, batch, deliver)

    monkeypatch.setattr(ScriptedWire, "submit", watched)
    return times


async def work(first: Outcome, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first wave is answered by ``first``, all after it are accepted; the statuses when nothing moves."""
    answered: list[Outcome] = []

    def outcome(_cls: type[Sandbox], _answer: Any, _context: Any) -> Outcome:
        answered.append(first if len(answered) < SLOTS else Outcome(OutcomeClass.ACCEPTED))
        return answered[-1]

    monkeypatch.setattr(Sandbox, "outcome", classmethod(outcome))
    async with Ringonce(CONFIG) as ringonce:
        bodies = [{"to": {"box": f"p{i}"}, "content": {"text": "x"}} for i in range(PEOPLE)]
        ids = [one.notifications[0].id for one in await ringonce.notify_many(bodies)]
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        return [(await ringonce.get(id_)).row.state.status.value for id_ in ids]


@pytest.mark.parametrize("first", [LIMITED, DOWN], ids=["told", "circuit"])
async def test_until_the_pause_ends(
    first: Outcome, called: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that is told for the channel, and failures in a row, hold up what was claimed ahead as well."""
    assert await work(first, monkeypatch) == ["sent"] * PEOPLE
    assert len(called) == SLOTS + PEOPLE
    # The worker's idea of the store's time is older by the journey of its last claim.
    assert called[SLOTS] - called[0] >= PAUSE / 2


async def test_a_refused_credential(called: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first refusal of the credential nothing more is tried with it."""
    assert "sent" not in await work(REFUSED, monkeypatch)
    assert len(called) == SLOTS


@pytest.mark.parametrize("mark", [True, False])
async def test_an_address_that_is_gone(
    called: list[float], monkeypatch: pytest.MonkeyPatch, *, mark: bool
) -> None:
    """What was claimed ahead for an address that is dropped meanwhile makes no call, and leaves no attempt."""
    gone = Outcome(OutcomeClass.INVALID_RECIPIENT, Code.INVALID_RECIPIENT, drop_address=True)
    monkeypatch.setattr(Sandbox, "outcome", classmethod(lambda _cls, _answer, _context: gone))
    box = {"provider": "sandbox", "concurrency": SLOTS, "mark": mark, "in_doubt": "resend"}
    async with Ringonce({**CONFIG, "channels": {"box": box}}) as ringonce:
        bodies = [{"to": {"box": "p"}, "content": {"text": "x"}} for _ in range(PEOPLE)]
        ids = [one.notifications[0].id for one in await ringonce.notify_many(bodies)]
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        lives = [await ringonce.get(id_) for id_ in ids]
    assert len(called) == SLOTS
    assert sorted(len(life.attempts) for life in lives) == [0] * (PEOPLE - SLOTS) + [1] * SLOTS
    assert all(life.row.state.final for life in lives)
