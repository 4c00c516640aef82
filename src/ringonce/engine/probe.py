"""A test send: one call through a channel, its answer classified, nothing stored and nothing retried."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.engine.credentials import ask, fetching, read
from ringonce.errors import InputError, NotFoundError
from ringonce.model.notification import Address, Message
from ringonce.model.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.engine.engine import Engine
    from ringonce.model.exchange import Answer, Request
    from ringonce.model.notification import Content
    from ringonce.ports import Wire


@dataclass(frozen=True, slots=True)
class Probe:
    """What came back. ``seconds``: how long the call took."""

    outcome: Outcome
    seconds: float


async def probe(engine: Engine, wire: Wire, channel: str, address: object, content: Content) -> Probe:
    """Call the provider of ``channel`` once, over a wire of its own; where it needs a credential, fetch one first.

    Raises NotFoundError, InputError for what can not be sent.
    """
    entry = engine.channels.way(channel)
    if entry is None:
        raise NotFoundError(f"no channel {channel!r}", field="channel")
    provider = entry.provider
    if provider.stored:
        raise InputError(
            f"{channel} makes no call: its copies are stored",
            field="channel",
            mend="send a notification and look into the recipient's inbox",
        )
    to = provider.address(address)
    provider.check(content)
    now = (
        await engine.store.now()
    )  # by which workers make their tokens: a clock of ours would make another one
    id_ = engine.entropy.uuid7()
    message = Message(
        id=id_,
        reference=str(id_),
        revision=1,
        attempt=1,
        content=content,
        event_id=str(id_),
        event_type="ringonce.test",
        tenant="",
        recipient="",
        created_at=now,
    )
    context = fetching(entry, now, engine.entropy)
    await wire.start()
    try:
        began = engine.clock.monotonic()
        needed = ask(entry, context)
        if isinstance(needed, Outcome):
            return Probe(needed, 0.0)
        if needed is not None:
            granted = read(entry, await _call(wire, needed), context)
            if isinstance(granted, Outcome):
                return Probe(granted, engine.clock.monotonic() - began)
            context = replace(context, credential=granted.value)
        request = provider.request(message, Address(0, "", "", channel, to, now), context)
        began = engine.clock.monotonic()
        answer = await _call(wire, request)
        seconds = engine.clock.monotonic() - began
    finally:
        await wire.close(0.0)
    return Probe(provider.outcome(answer, context), seconds)


async def _call(wire: Wire, request: Request) -> Answer:
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def deliver(answers: Sequence[tuple[object, Answer]]) -> None:
        for _, answer in answers:
            if not answered.done():
                answered.set_result(answer)

    wire.submit([("probe", request)], deliver)
    return await answered
