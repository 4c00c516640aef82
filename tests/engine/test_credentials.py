"""Credentials: fetched once for an account, before they are needed, and never while it is known to be in vain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ringonce.engine.channels import Entry
from ringonce.engine.credentials import ALERT_AFTER, Credentials, Held, Missing, ask, fetching, read
from ringonce.model.outcome import CODE_OF
from ringonce.model.policy import MINUTE, SECOND, Channel
from ringonce.provider import (
    Answer,
    Context,
    Credential,
    HttpAnswer,
    HttpRequest,
    Outcome,
    OutcomeClass,
    Provider,
    Request,
)

from .conftest import KeptTelemetry, StandingClock, SteadyEntropy

LIFE = 1_000 * SECOND
Deliver = Callable[[Sequence[tuple[object, Answer]]], None]


@dataclass(frozen=True)
class NoOptions:
    """Nothing to set."""


class Granting(Provider):
    """Takes the body as the credential, which is good for 1,000 seconds; anything but 200 by its status."""

    name = "granting"
    Options = NoOptions

    def grant(self, context: Context) -> Request | None:
        """Ask somewhere."""
        return HttpRequest("POST", "http://127.0.0.1/token")

    def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
        """Take what came."""
        assert isinstance(answer, HttpAnswer)
        if answer.status == 200:
            return Credential(answer.body.decode(), context.now + LIFE)
        return type(self).outcome(answer, context)


class Clumsy(Granting):
    """Has a bug in both methods."""

    def grant(self, context: Context) -> Request | None:
        """Fail."""
        raise ZeroDivisionError

    def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
        """Fail."""
        raise ZeroDivisionError


class Free(Granting):
    """Needs no credential."""

    def grant(self, context: Context) -> Request | None:
        """Ask nobody."""
        return None


def entry(provider: type[Provider] = Granting, name: str = "push") -> Entry:
    """A channel of this provider."""
    return Entry(Channel(name, provider.name), provider(NoOptions()))


@dataclass
class KeptWire:
    """Keeps what is submitted until the test answers it."""

    waiting: list[Deliver] = field(default_factory=list)
    calls: int = 0

    def submit(self, batch: Sequence[tuple[object, Request]], deliver: Deliver) -> None:
        """Keep it."""
        self.calls += len(batch)
        self.waiting.append(deliver)

    def answer(self, status: int = 200, body: bytes = b"t1", **headers: str) -> None:
        """Answer the oldest."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        self.waiting.pop(0)([("credential", HttpAnswer(status, told, body))])

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self, grace: float) -> None:
        """Nothing to close."""


@pytest.fixture
def wire() -> KeptWire:
    """The far side."""
    return KeptWire()


@pytest.fixture
def kept(
    wire: KeptWire, entropy: SteadyEntropy, telemetry: KeptTelemetry, clock: StandingClock
) -> Credentials:
    """The cache over it."""
    return Credentials(wire, entropy, telemetry, clock.now)


def test_fetched_once_for_all(kept: Credentials, wire: KeptWire) -> None:
    """However many lanes of an account wait, one fetch runs, and its end wakes each of them."""
    woken: list[str] = []
    one, two = entry(name="a"), entry(name="b")
    assert kept.get(one, lambda: woken.append("a")) == Missing(kept.now())
    assert isinstance(kept.get(two, lambda: woken.append("b")), Missing)
    assert wire.calls == 1
    wire.answer()
    assert sorted(woken) == ["a", "b"]
    assert kept.get(one, list) == kept.get(two, list) == Held("t1")
    assert wire.calls == 1


def test_renewed_ahead(kept: Credentials, wire: KeptWire, clock: StandingClock) -> None:
    """At four fifths of its life the next one is fetched while calls go on with the old one, until it ends."""
    channel = entry()
    kept.get(channel, list)
    wire.answer()
    clock.seconds += 799
    kept.get(channel, list)
    assert wire.calls == 1
    clock.seconds += 2
    assert kept.get(channel, list) == kept.get(channel, list) == Held("t1")
    assert wire.calls == 2
    wire.answer(503)
    assert kept.get(channel, list) == Held("t1")
    assert kept.blocked(channel) == 0
    clock.seconds += 200
    assert isinstance(kept.get(channel, list), Missing)
    wire.answer(body=b"t2")
    assert kept.get(channel, list) == Held("t2")


def test_a_failure_that_may_pass(
    kept: Credentials, wire: KeptWire, clock: StandingClock, telemetry: KeptTelemetry
) -> None:
    """The wait grows to a minute, honours Retry-After, and after 5 minutes a person is told once."""
    channel = entry()
    waits = []
    while kept.now() < 1_000 * SECOND + ALERT_AFTER + 2 * MINUTE:
        kept.get(channel, list)
        wire.answer(503)
        waits.append(kept.blocked(channel))
        missing = kept.get(channel, list)
        assert isinstance(missing, Missing)
        assert not missing.refused
        clock.seconds += waits[-1] / SECOND
    assert waits[:3] == [SECOND * 3 // 4, SECOND * 3 // 2, SECOND * 3]
    assert max(waits) == MINUTE * 3 // 4
    assert [kind for kind, _ in telemetry.alerts] == ["credential_failing"]
    kept.get(channel, list)
    wire.answer(429, retry_after="90")
    assert kept.blocked(channel) == 90 * SECOND
    clock.seconds += 90
    kept.get(channel, list)
    wire.answer()
    assert kept.blocked(channel) == 0


def test_a_refusal(kept: Credentials, wire: KeptWire, telemetry: KeptTelemetry, clock: StandingClock) -> None:
    """Whatever else the answer means is a refusal of the credential; the lane is told, and does not ask at once."""
    channel = entry()
    for status in (401, 400, 404, 501):
        kept.get(channel, list)
        wire.answer(status)
        missing = kept.get(channel, list)
        assert isinstance(missing, Missing)
        assert missing.refused
        assert kept.blocked(channel) == SECOND
        clock.seconds += 1
    assert telemetry.alerts == []


def test_a_credential_that_was_refused(kept: Credentials, wire: KeptWire) -> None:
    """A refused call drops the credential that it was made with, and never its successor."""
    channel = entry()
    kept.get(channel, list)
    wire.answer()
    kept.refused(channel, "t1")
    assert isinstance(kept.get(channel, list), Missing)
    wire.answer(body=b"t2")
    kept.refused(channel, "t1")
    assert kept.get(channel, list) == Held("t2")
    assert wire.calls == 2


def test_without_need(kept: Credentials, wire: KeptWire) -> None:
    """A provider that needs no credential is asked once and never waits."""
    channel = entry(Free)
    assert kept.get(channel, list) == kept.get(channel, list) == Held()
    assert (wire.calls, kept.blocked(channel)) == (0, 0)


def test_good_until_refused(kept: Credentials, wire: KeptWire, clock: StandingClock) -> None:
    """A credential without an end is kept until it is refused."""

    class Endless(Granting):
        def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
            return Credential("for ever")

    channel = entry(Endless)
    kept.get(channel, list)
    wire.answer()
    clock.seconds += 1e6
    assert kept.get(channel, list) == Held("for ever")
    assert wire.calls == 1


def test_a_bug_in_a_provider(kept: Credentials, entropy: SteadyEntropy) -> None:
    """A provider that fails to ask or to read is a refusal that names the log, and holds up nobody else."""
    channel = entry(Clumsy)
    context = fetching(channel, 0, entropy)
    for outcome in (ask(channel, context), read(channel, HttpAnswer(200), context)):
        assert isinstance(outcome, Outcome)
        assert outcome.cls is OutcomeClass.AUTH
        assert "see the log" in outcome.text
    missing = kept.get(channel, list)
    assert isinstance(missing, Missing)
    assert missing.refused


@pytest.mark.parametrize("result", ["token", Credential("t", "soon"), Credential(b"t")])  # type: ignore[arg-type]
def test_a_grant_of_a_wrong_type(
    kept: Credentials, wire: KeptWire, clock: StandingClock, result: Any
) -> None:
    """What is no credential is a refusal that names the method; it is asked for again, and waiting lanes wake."""

    class Confused(Granting):
        def granted(self, answer: Answer, context: Context) -> Any:
            return result

    channel = entry(Confused)
    woken: list[int] = []
    for calls in (1, 2):
        assert kept.get(channel, lambda: woken.append(1)) == Missing(kept.now())
        assert wire.calls == calls
        wire.answer()
        missing = kept.get(channel, list)
        assert isinstance(missing, Missing)
        assert missing.refused
        assert missing.outcome is not None
        assert "granted() must return" in missing.outcome.text
        assert len(woken) == calls
        clock.seconds += 1


def test_a_request_for_a_grant_of_a_wrong_type(kept: Credentials, wire: KeptWire) -> None:
    """What is no request is a refusal, and never reaches the wire."""

    class Confused(Granting):
        def grant(self, context: Context) -> Any:
            return "http://127.0.0.1/token"

    missing = kept.get(entry(Confused), list)
    assert isinstance(missing, Missing)
    assert missing.refused
    assert wire.calls == 0


def test_a_wire_that_does_not_take_the_fetch(
    kept: Credentials, wire: KeptWire, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that the wire did not take has failed for now: it is made again after a wait."""

    def refuse(_batch: object, _deliver: object) -> None:
        raise RuntimeError("out of threads")

    channel = entry()
    with monkeypatch.context() as broken:
        broken.setattr(wire, "submit", refuse)
        missing = kept.get(channel, list)
    assert isinstance(missing, Missing)
    assert missing.outcome is not None
    assert not missing.refused
    clock.seconds += 1
    kept.get(channel, list)
    wire.answer()
    assert kept.get(channel, list) == Held("t1")


def test_the_base_asks_nobody(entropy: SteadyEntropy) -> None:
    """The default provider needs no grant, and reading one is a bug."""

    class Plain(Provider):
        name = "plain"
        Options = NoOptions

    channel = entry(Plain)
    context = fetching(channel, 0, entropy)
    assert ask(channel, context) is None
    with pytest.raises(TypeError):
        channel.provider.granted(HttpAnswer(200), context)


@pytest.mark.parametrize("cls", list(OutcomeClass))
def test_every_class_has_a_meaning(cls: OutcomeClass, entropy: SteadyEntropy) -> None:
    """Every outcome of a grant is either tried again or a refusal."""

    class Odd(Granting):
        def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
            return Outcome(cls, CODE_OF[cls])

    channel = entry(Odd)
    outcome = read(channel, HttpAnswer(200), fetching(channel, 0, entropy))
    assert isinstance(outcome, Outcome)
    waits = {OutcomeClass.TRANSIENT, OutcomeClass.RATE_LIMITED}
    assert outcome.cls is (cls if cls in waits else OutcomeClass.AUTH)


def test_nothing_shows() -> None:
    """No repr shows a credential."""
    context: Any = replace(Context(0), credential="secret")
    assert "secret" not in repr(Held("secret")) + repr(Credential("secret")) + repr(context)
