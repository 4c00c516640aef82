"""Try your own application: the whole engine on a database in memory, where nothing leaves the process.

Acceptance, expansion, retries, doubts, guards and the providers' checks are the real ones; only what a vendor answers
is told by the test, in the words of the ``sandbox``'s script.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ringonce.app import Ringonce
from ringonce.engine.channels import Channels, Entry
from ringonce.model.exchange import Answer, NoAnswer, Request, ScriptedAnswer, ScriptedRequest
from ringonce.registry import provider as provider_class
from ringonce.wire.script import ScriptedWire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.engine.worker import Drained
    from ringonce.model.notification import Address, Content, Message
    from ringonce.ports import Deliver
    from ringonce.provider import Context, Outcome, Provider

_AT_ONCE: dict[str, object] = {
    "backoff": {"kind": "fixed", "base": "0s", "jitter": "0s"},
    "floors": {"greylist": "0s", "rate_limited": "0s"},
}


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: what was said, to whom, in which attempt; ``step`` is what it came to."""

    channel: str
    recipient: str
    address: str
    content: Content
    event_id: str
    event_type: str
    reference: str
    attempt: int
    request: Request
    step: str = "ok"


class Rehearsal(Ringonce):
    """A ``Ringonce`` for tests. ``calls``: all calls, in order; ``sent``: those that were accepted."""

    def __init__(self, config: Mapping[str, object]) -> None:
        """Take a configuration with the file's structure; see ``ringonce``."""
        self._tape = _Tape()
        super().__init__(config, wire=self._tape)
        known = {
            name: Entry(entry.channel, _taped(entry.provider, self._tape))
            for name, entry in self.engine.channels.all().items()
        }
        self.engine.channels = Channels(known, self._override)

    @property
    def calls(self) -> list[Sent]:
        """Every call that was begun."""
        return list(self._tape.calls)

    @property
    def sent(self) -> list[Sent]:
        """The calls that the provider accepted."""
        return [call for call in self._tape.calls if call.step == "ok"]

    def answer(self, *steps: str) -> None:
        """What the next calls come to, one step each; afterwards ``ok``.

        Steps: ``ok``, ``transient``, ``rate_limited:SECONDS``, ``invalid_recipient``, ``invalid_recipient:drop``,
        ``blocked``, ``auth``, ``payload``, ``timeout`` (no verdict). Raises ConfigError for any other.
        """
        sandbox = provider_class("sandbox")
        sandbox(sandbox.Options(script=steps))
        self._tape.steps.extend(steps)

    async def drain(self) -> Drained:
        """Deliver everything that can be delivered, retries included, and say what is left."""
        return cast("Drained", await self.run_worker(drain=True))


def ringonce(channels: Mapping[str, Any] | Sequence[str] = ("test",), **sections: Any) -> Rehearsal:
    """A ``Rehearsal`` to be entered: ``async with testing.ringonce(["email"]) as r: …``.

    Args:
        channels: names, which all stand for the sandbox; or tables as in ``[channels.NAME]``, whose provider then
            checks addresses and contents as it would in production. Retries come at once unless a table says otherwise.
        **sections: other sections of the file; ``store`` is a database in memory unless it is given.

    Raises:
        ConfigError: something in it is wrong.
    """
    tables: Mapping[str, Any] = channels if hasattr(channels, "keys") else {name: {} for name in channels}  # type: ignore[assignment]
    config = {
        "store": {"url": "sqlite://"},
        "retry": {"cycle": "10ms"},
        **sections,
        "channels": {name: {"provider": "sandbox", **_AT_ONCE, **table} for name, table in tables.items()},
    }
    return Rehearsal(config)


class _Tape:
    """The wire, and what went over it. See ``ports.Wire``."""

    def __init__(self) -> None:
        self.calls: list[Sent] = []
        self.steps: deque[str] = deque()
        self.requests: dict[int, Sent] = {}
        self._wire = ScriptedWire()

    async def start(self) -> None:
        """Open the sandbox's wire: one that was closed stays closed."""
        self._wire = ScriptedWire()
        await self._wire.start()

    def submit(self, batch: Sequence[tuple[object, Request]], deliver: Deliver) -> None:
        """Note each call and answer it by the next step."""
        scripted = []
        for token, request in batch:
            call = self.requests.pop(id(request), None)
            step = self.steps.popleft() if self.steps else getattr(request, "step", "ok")
            if call is not None:
                self.calls.append(replace(call, step=step))
            delay = getattr(request, "delay", 0.0)
            reference = call.reference if call is not None else ""
            scripted.append((token, ScriptedRequest(reference, step, delay)))
        self._wire.submit(scripted, deliver)

    async def close(self, grace: float) -> None:
        """Close the sandbox's wire."""
        await self._wire.close(grace)


def _taped(provider: Provider, tape: _Tape) -> Provider:
    """The same provider, whose calls are noted and whose scripted answers are read as the sandbox does."""
    real = type(provider)
    sandbox = provider_class("sandbox")

    def request(self: Provider, message: Message, address: Address, context: Context) -> Request:
        made = real.request(self, message, address, context)
        tape.requests[id(made)] = Sent(
            channel=address.channel,
            recipient=message.recipient,
            address=address.value,
            content=message.content,
            event_id=message.event_id,
            event_type=message.event_type,
            reference=message.reference,
            attempt=message.attempt,
            request=made,
        )
        return made

    def outcome(answer: Answer, context: Context) -> Outcome:
        if isinstance(answer, (ScriptedAnswer, NoAnswer)):
            return sandbox.outcome(answer, context)
        return real.outcome(answer, context)

    # No credential is fetched: nobody would answer.
    body: dict[str, object] = {
        "request": request,
        "outcome": staticmethod(outcome),
        "grant": lambda _self, _context: None,
    }
    taped = cast("Callable[..., type[Provider]]", type)(real.__name__, (real,), body)
    provider.__class__ = taped
    return provider
