"""A wire per test, and a way to send and wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from ringonce.model.exchange import Answer, Request
from ringonce.ports import Wire
from ringonce.wire.http import HttpWire

DEADLINE = 60.0
Ask: TypeAlias = Callable[..., Awaitable[list[Answer]]]


async def ask(wire: Wire, *requests: Request) -> list[Answer]:
    """Submit all at once; their answers in the same order, each exactly once."""
    answers: dict[object, Answer] = {}
    done = asyncio.Event()

    def deliver(pairs: object) -> None:
        for token, answer in pairs:  # type: ignore[attr-defined]
            assert token not in answers, "answered twice"
            answers[token] = answer
        if len(answers) == len(requests):
            done.set()

    wire.submit(list(enumerate(requests)), deliver)
    await asyncio.wait_for(done.wait(), DEADLINE)
    return [answers[number] for number in range(len(requests))]


async def ask_briefly(wire: Wire, request: Callable[[float], Request], arrived: Callable[[], bool]) -> Answer:
    """Ask with so few seconds that they run out while the server is silent.

    On a machine that stalls they may run out before the server has heard anything, which is another case than the
    one that is asked about: then it is asked again with many seconds.
    """
    [answer] = await ask(wire, request(0.3))
    if not arrived():
        [answer] = await ask(wire, request(20.0))
    return answer


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection stays usable however long the machine stands still between two calls."""
    monkeypatch.setattr("ringonce.wire.easy.MAX_IDLE", 600)
    monkeypatch.setattr("ringonce.wire.smtp.MAX_IDLE", 600.0)


@pytest.fixture
async def http() -> AsyncIterator[HttpWire]:
    """The HTTP wire with its defaults."""
    wire = HttpWire()
    await wire.start()
    yield wire
    await wire.close(0)
