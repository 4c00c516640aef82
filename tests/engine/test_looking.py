"""Looks at a provider that misbehaves, that needs a credential, or that can not be asked any more."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from ringonce import Ringonce
from ringonce.errors import ConfigError
from ringonce.model.looking import Look
from ringonce.model.policy import MINUTE
from ringonce.model.transition import LookedUp
from ringonce.ports import Change, Life
from ringonce.provider import Finding, HttpRequest, InDoubt, Outcome, OutcomeClass, Presence
from ringonce.providers.sandbox import Sandbox
from ringonce.store.schema import dispatch

CONFIG = {
    "store": {"url": "sqlite:///:memory:"},
    "channels": {"box": {"provider": "sandbox", "script": "timeout", "backoff": {"base": "1m", "jitter": 0}}},
    "retry": {"cycle": "10ms"},
}
FOUND = Finding(Presence.ARRIVED, "m-9")


@pytest.fixture
async def ring(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ringonce]:
    """A sandbox that can be asked, and finds it."""
    monkeypatch.setattr(Sandbox, "looks_up", True)
    monkeypatch.setattr(Sandbox, "in_doubt", InDoubt.LOOKUP)
    monkeypatch.setattr(Sandbox, "lookup", Sandbox.request)
    monkeypatch.setattr(Sandbox, "looked", classmethod(lambda *_: FOUND))
    async with Ringonce(CONFIG) as ring:
        yield ring


async def doubt(ring: Ringonce) -> Life:
    """One notification whose call got no verdict."""
    accepted = await ring.notify(to={"box": "ada"}, content={"text": "hello"})
    return await worked(ring, accepted.notifications[0].id, lambda life: bool(life.attempts))


async def worked(ring: Ringonce, id_: Any, done: Any) -> Life:
    """A worker runs until the notification is as it should be."""
    stop = asyncio.Event()
    worker = asyncio.create_task(ring.run_worker(stop))
    try:
        async with asyncio.timeout(60):
            while not done(life := await ring.get(id_)):  # noqa: ASYNC110 - the fact is in the database
                await asyncio.sleep(0.005)
    finally:
        stop.set()
        await worker
    return life


async def looked(ring: Ringonce, id_: Any) -> Life:
    """Its look is due now, and is made."""
    due = sa.update(dispatch).values(due_at=0)
    await ring.store.backend.run(lambda c: c.execute(due))  # type: ignore[attr-defined]
    before = len((await ring.get(id_)).notes)
    return await worked(ring, id_, lambda life: len(life.notes) > before and life.row.lease is None)


def told(life: Life) -> list[tuple[object, object]]:
    """What its looks told, and why."""
    return [(note.detail["told"], note.detail["text"]) for note in life.notes if note.kind == "looked_up"]


async def test_found(ring: Ringonce) -> None:
    """The message id that the look told is kept, on the notification and on its attempt."""
    life = await looked(ring, (await doubt(ring)).row.id)
    assert (life.row.state.status, life.row.state.message_id) == ("sent", "m-9")
    assert [(one.outcome, one.message_id, one.late) for one in life.attempts] == [("accepted", "m-9", False)]


async def test_a_look_that_can_not_be_written_holds_up_no_other(
    ring: Ringonce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks are settled together; where a bug stands in the way of one, its neighbours are decided all the same."""
    bad, good = [(await doubt(ring)).row.id for _ in range(2)]
    settle = ring.store.settle

    async def failing(changes: list[Change], *rest: Any, **more: Any) -> Any:
        if any(change.id == bad for change in changes):
            raise ValueError("a bug")
        return await settle(changes, *rest, **more)

    monkeypatch.setattr(ring.store, "settle", failing)
    assert (await looked(ring, good)).row.state.status == "sent"
    assert ring.telemetry.value("ringonce_alerts_total", kind="bug") >= 1
    assert (await ring.get(bad)).row.state.status == "in_doubt"


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("lookup", lambda *_: {"url": "x"}, "must return a request, not dict"),
        ("lookup", lambda *_: 1 / 0, "see the log"),
        ("looked", classmethod(lambda *_: None), "must return a Finding or an Outcome, not NoneType"),
        ("looked", classmethod(lambda *_: 1 / 0), "see the log"),
    ],
)
async def test_a_provider_that_is_wrong(
    ring: Ringonce, monkeypatch: pytest.MonkeyPatch, name: str, wrong: object, why: str
) -> None:
    """Its mistake is a look that failed: nothing is decided, and it is looked again later."""
    id_ = (await doubt(ring)).row.id
    monkeypatch.setattr(Sandbox, name, wrong)
    life = await looked(ring, id_)
    ((said, text),) = told(life)
    assert (life.row.state.status, said) == ("in_doubt", "failed")
    assert why in str(text)
    assert life.due is not None
    assert life.due.purpose == "lookup"


async def test_a_provider_that_can_not_be_asked_any_more(
    ring: Ringonce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubts that a changed configuration left behind are not forgotten: they come to a person."""
    id_ = (await doubt(ring)).row.id
    monkeypatch.setattr(Sandbox, "looks_up", False)
    assert told(await looked(ring, id_)) == [("unsure", "the provider of the channel can not be asked")]


async def test_a_disabled_channel_is_not_asked(ring: Ringonce) -> None:
    """A channel that is off makes no call of any kind, and drain does not wait for its looks."""
    await doubt(ring)
    await ring.disable("box")
    due = sa.update(dispatch).values(due_at=0)
    await ring.store.backend.run(lambda c: c.execute(due))  # type: ignore[attr-defined]
    async with asyncio.timeout(60):
        drained = await ring.run_worker(drain=True)
    assert drained is not None
    assert [(item.movable, item.paused, item.looking) for item in drained.left] == [(0, 1, 1)]


async def test_without_a_credential_it_waits(ring: Ringonce, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a credential there is no look, and no note of one; with it the look is made."""
    id_ = (await doubt(ring)).row.id
    grant = HttpRequest("GET", "http://127.0.0.1:9/token")
    refusal = Outcome(OutcomeClass.TRANSIENT, text="no token")
    monkeypatch.setattr(Sandbox, "grant", lambda *_: grant)
    monkeypatch.setattr(Sandbox, "granted", lambda *_: refusal)
    due = sa.update(dispatch).values(due_at=0)
    await ring.store.backend.run(lambda c: c.execute(due))  # type: ignore[attr-defined]
    life = await worked(ring, id_, lambda life: life.due is not None and (life.due.at or 0) > 0)
    assert (life.row.state.status, told(life)) == ("in_doubt", [])
    monkeypatch.setattr(Sandbox, "grant", lambda *_: None)
    assert told(await looked(ring, id_)) == [("arrived", "")]


async def test_a_look_whose_lease_is_lost_decides_nothing_but_an_arrival(ring: Ringonce) -> None:
    """Another worker asks by then: that it is missing is his to say; that it is there is true whoever says so."""
    id_ = (await doubt(ring)).row.id
    store, decide = ring.store, ring.engine.decide
    due = sa.update(dispatch).values(due_at=0)
    await store.backend.run(lambda c: c.execute(due))  # type: ignore[attr-defined]
    at, (first,) = await store.claim_lookups("w-1", ["box"], 1, 1)
    await store.rescue(decide, now=at + 1_000_000)
    _, (second,) = await store.claim_lookups("w-2", ["box"], 1, 60_000_000, now=at + 1_000_000)
    assert first.row.lease is not None
    guard = ("w-1", first.row.lease.fence)
    seen = tuple(Look(at - minutes * MINUTE, Presence.ABSENT) for minutes in (6, 3))
    missing = LookedUp(1, Finding(Presence.ABSENT), at, seen)
    wrong = replace(first.attempts[0], outcome="transient")
    (settled,) = await store.settle([Change(id_, missing, guard, wrong)], decide)
    assert settled.write is not None
    assert settled.write.refused is not None
    life = await ring.get(id_)
    assert (life.row.state, life.row.lease) == (second.row.state, second.row.lease)
    assert [attempt.outcome for attempt in life.attempts] == ["unknown"]
    there = Change(id_, LookedUp(1, FOUND, at), guard, replace(first.attempts[0], outcome="accepted"))
    await store.settle([there], decide)
    life = await ring.get(id_)
    assert (life.row.state.status, life.row.state.assumed, life.row.lease) == ("sent", False, None)


async def test_lookup_is_refused_where_several_could_have_been_asked(ring: Ringonce) -> None:
    """A look asks one provider: that it knows nothing of a call to another one is no proof, at run time neither."""
    ways = {"providers": [{"provider": "sandbox"}] * 2, "in_doubt": "hold"}
    async with Ringonce({**CONFIG, "channels": {"box": ways}}) as several:
        with pytest.raises(ConfigError, match="one of resend, assume_sent, hold"):
            await several.change_channel("box", {"in_doubt": "lookup"})


async def test_lookup_is_refused_where_nobody_can_be_asked() -> None:
    """A provider that can not be asked refuses in_doubt = lookup at start-up and at run time, with the mend."""
    channels = {"box": {"provider": "sandbox", "in_doubt": "lookup"}}
    with pytest.raises(ConfigError, match="can not be asked"):
        Ringonce({**CONFIG, "channels": channels})
    async with Ringonce(CONFIG) as ring:
        with pytest.raises(ConfigError, match="one of resend, assume_sent, hold"):
            await ring.change_channel("box", {"in_doubt": "lookup"})
