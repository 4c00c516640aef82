"""Credentials that workers share through the database: whose turn it is, what is wanted, what is told of a refusal."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

import pytest

from ringonce import Ringonce
from ringonce.engine.credentials import Credentials, Held, Missing, name_of
from ringonce.engine.vault import LOOK_AGAIN, Vault, secret_of
from ringonce.errors import StoreUnavailable
from ringonce.model.keeping import Sealed
from ringonce.model.policy import SECOND
from ringonce.ports import Store

from .conftest import KeptTelemetry, StandingClock, SteadyEntropy
from .test_credentials import LIFE, Granting, KeptWire, NoOptions
from .test_credentials import entry as plain


@dataclass(frozen=True)
class Secret:
    """Has a secret."""

    key: str = field(repr=False, default="hunter2")


class Sharing(Granting):
    """Its workers have a secret in common."""

    Options = Secret


CHANNEL = replace(plain(Sharing), provider=Sharing(Secret()))
NAME = name_of(CHANNEL)
Worker = Callable[[str], tuple[Credentials, KeptWire]]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A database in memory."""
    async with Ringonce({"store": {"url": "sqlite://"}}) as ring:
        yield ring.store


@pytest.fixture
def worker(store: Store, entropy: SteadyEntropy, telemetry: KeptTelemetry, clock: StandingClock) -> Worker:
    """Workers on it, each with its far side."""

    def make(owner: str) -> tuple[Credentials, KeptWire]:
        wire = KeptWire()
        return Credentials(wire, entropy, telemetry, clock.now, Vault(store, owner, clock)), wire

    return make


async def until(fact: Callable[[], bool]) -> None:
    """Wait for what the database brings."""
    async with asyncio.timeout(30):
        while not fact():  # noqa: ASYNC110 - it comes from a thread
            await asyncio.sleep(0.001)


async def held(kept: Credentials) -> str | None:
    """What it sends with, as soon as it has something."""
    await until(lambda: isinstance(kept.get(CHANNEL, list), Held))
    found = kept.get(CHANNEL, list)
    assert isinstance(found, Held)
    return found.credential


async def fetched(kept: Credentials, wire: KeptWire, body: bytes) -> None:
    """It fetches one and has left it to the others."""
    kept.get(CHANNEL, list)
    await until(lambda: bool(wire.waiting))
    wire.answer(body=body)
    await until(lambda: not kept._writes)


async def test_one_fetches_and_all_have_it(worker: Worker, clock: StandingClock) -> None:
    """While one fetches the other waits, and then has the same without a call."""
    (one, wire), (two, other) = worker("w-1"), worker("w-2")
    one.get(CHANNEL, list)
    await until(lambda: bool(wire.waiting))
    assert isinstance(two.get(CHANNEL, list), Missing)
    await until(lambda: bool(clock._sleepers))  # it has looked, and it is not its turn
    wire.answer()
    await until(lambda: not one._writes)
    await clock.advance(LOOK_AGAIN)
    assert await held(two) == "t1" == await held(one)
    assert (wire.calls, other.calls) == (1, 0)


async def test_renewed_by_one(worker: Worker, clock: StandingClock) -> None:
    """At four fifths of its life one worker fetches the next; the others find it when theirs is as old."""
    (one, wire), (two, other) = worker("w-1"), worker("w-2")
    await fetched(one, wire, b"t1")
    assert await held(two) == "t1"
    clock.seconds += 0.9 * LIFE / SECOND
    await fetched(one, wire, b"t2")
    two.get(CHANNEL, list)
    await until(lambda: two.get(CHANNEL, list) == Held("t2"))
    assert (wire.calls, other.calls) == (2, 0)


async def test_a_late_refusal_fetches_nothing(worker: Worker, clock: StandingClock) -> None:
    """Who hears of a refusal after another one has renewed it takes that, and refuses it only by its own calls."""
    (one, wire), (two, other) = worker("w-1"), worker("w-2")
    await fetched(one, wire, b"t1")
    assert await held(two) == "t1"
    clock.seconds += 1
    assert one.refused(CHANNEL, "t1") is not None
    await fetched(one, wire, b"t2")
    assert two.refused(CHANNEL, "t1") is not None
    assert await held(two) == "t2"
    assert two.refused(CHANNEL, "t1") is None
    assert (wire.calls, other.calls) == (2, 0)


async def test_others_learn_of_a_refusal(worker: Worker, store: Store) -> None:
    """What was refused in one worker is dropped by the others when they look, before they send with it once more."""
    (one, wire), (two, _) = worker("w-1"), worker("w-2")
    await fetched(one, wire, b"t1")
    assert await held(two) == "t1"
    await two.check()
    assert two.ready(CHANNEL)
    known = one.refused(CHANNEL, "t1")
    assert known is not None
    before = (await store.claim("push", "w", 1, SECOND)).stamp
    await store.refuse_credential(*known, ["push"])
    assert (await store.claim("push", "w", 1, SECOND)).stamp != before
    await two.check()
    assert not two.ready(CHANNEL)


async def test_another_secret_reads_nothing(worker: Worker, store: Store) -> None:
    """What is sealed with another secret, or is no seal at all, is as good as nothing."""
    await store.keep_credential(NAME, Sealed("rubbish", 1, None))
    one, wire = worker("w-1")
    await fetched(one, wire, b"t1")
    kept = await store.credential(NAME)
    assert kept is not None
    assert "t1" not in kept.text
    assert "hunter2" not in kept.text
    other = replace(CHANNEL, provider=Sharing(Secret("other")))
    two, far = worker("w-2")
    two.get(other, list)
    await until(lambda: bool(far.waiting))


async def test_the_newest_stays(store: Store) -> None:
    """A worker that was held up does not put an older one in place of a newer; old ends are forgotten."""
    await store.keep_credential("a", Sealed("new", 20, None))
    await store.keep_credential("a", Sealed("old", 10, None))
    kept = await store.credential("a")
    assert kept is not None
    assert kept.text == "new"
    await store.keep_credential("b", Sealed("over", 20, 30))
    await store.keep_credential("a", Sealed("later", 200_000 * SECOND, None))
    assert await store.credential("b") is None


async def test_a_database_that_is_away(worker: Worker, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched that could not be shared; it is tried again after a wait, and no lane hangs."""

    async def away(_name: str) -> None:
        raise StoreUnavailable("away")

    one, wire = worker("w-1")
    woken: list[int] = []
    with monkeypatch.context() as broken:
        broken.setattr(store, "credential", away)
        one.get(CHANNEL, lambda: woken.append(1))
        await until(lambda: bool(woken))
    assert one.blocked(CHANNEL) > 0
    assert wire.calls == 0


async def test_a_refused_grant_leaves_the_turn(worker: Worker) -> None:
    """A worker that gets none leaves the right to ask to the others at once."""
    (one, wire), (two, other) = worker("w-1"), worker("w-2")
    one.get(CHANNEL, list)
    await until(lambda: bool(wire.waiting))
    wire.answer(401)
    await until(lambda: not one._writes)
    await fetched(two, other, b"t1")
    assert await held(two) == "t1"


async def test_the_end_waits_for_nobody(worker: Worker) -> None:
    """A worker that ends while another one fetches does not wait for it."""
    (one, wire), (two, _) = worker("w-1"), worker("w-2")
    one.get(CHANNEL, list)
    await until(lambda: bool(wire.waiting))
    two.get(CHANNEL, list)
    await two.close()
    assert not two._turns
    wire.answer()
    await one.close()
    assert not one._writes


def test_what_is_secret() -> None:
    """The options that never show; without any there is nothing to seal with."""
    assert secret_of(Secret("a")) != secret_of(Secret("b"))
    assert secret_of(NoOptions()) == secret_of(Secret("")) == secret_of(object()) == ""
