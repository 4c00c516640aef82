"""A wire per test, and a way to send and wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from ringonce.model.exchange import Answer, Request
from ringonce.ports import Wire
from ringonce.wire.http import HttpWire

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
    await asyncio.wait_for(done.wait(), 30)
    return [answers[number] for number in range(len(requests))]


@pytest.fixture
async def http() -> AsyncIterator[HttpWire]:
    """The HTTP wire with its defaults."""
    wire = HttpWire()
    await wire.start()
    yield wire
    await wire.close(0)
