"""A05: terminal failures wait for a person, who looks first and then decides about many, on both databases."""

from uuid import UUID

import pytest

from ringonce.errors import InputError
from ringonce.model.policy import SECOND
from tests.requirements.conftest import Start, System

LOST = {"provider": "sandbox", "script": "timeout", "in_doubt": "resend", "budgets": {"unknown": 0}}


async def failed(system: System, channel: str, count: int, **fields: object) -> list[UUID]:
    """So many that have failed for good."""
    ids = [await system.accept(channel, f"place-{channel}-{n}", **fields) for n in range(count)]
    async with system.working(system.ring):
        for id_ in ids:
            await system.ended(id_)
    return ids


async def test_A05_c_a_look_tells_what_would_become_of_them(start: Start) -> None:
    """Counted by channel and code, with those that may have arrived and those whose time is over apart."""
    system = await start(bad={"provider": "sandbox", "script": "payload"}, lost=LOST)
    await failed(system, "bad", 3)
    await failed(system, "lost", 2)
    late = await system.ring.store.now() + 3600 * SECOND
    await failed(system, "bad", 1, expires_at="2999-01-01T00:00:00Z")
    await system.execute(
        f"UPDATE ringonce_notifications SET expires_at = {late - 7200 * SECOND} WHERE expires_at IS NOT NULL"
    )
    seen = [
        (one.channel, one.count, one.refused and one.refused.code)
        for one in await system.ring.failure_outlook()
    ]
    assert seen == [("bad", 3, None), ("bad", 1, "expired"), ("lost", 2, "in_doubt")]
    forced = {(one.channel, one.refused is None) for one in await system.ring.failure_outlook(force=True)}
    assert forced == {("bad", True), ("bad", False), ("lost", True)}
    assert all(one.refused is None for one in await system.ring.failure_outlook(discard=True))
    dry = await system.ring.retry_failures(channel="lost", dry_run=True)
    assert [one.refused and one.refused.code for one in dry.results] == ["in_doubt"] * 2
    assert {row.state.revision for row in await system.ring.search(limit=10)} == {1}


async def test_A05_d_many_are_decided_batch_by_batch(start: Start) -> None:
    """Each once, newest first; what was decided is a failure no more, so a walk that begins anew goes on."""
    system = await start(bad={"provider": "sandbox", "script": ["payload", "ok"]})
    ids = await failed(system, "bad", 5)
    first = await system.ring.retry_failures(channel="bad", limit=2, by="ann")
    assert [one.id for one in first.results] == ids[:2:-1]
    rest = await system.ring.retry_failures(channel="bad", limit=500, by="ann")
    assert ({one.id for one in rest.results}, rest.next) == (set(ids[:3]), None)
    async with system.working(system.ring):
        for id_ in ids:
            await system.ended(id_)
    assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
    assert (await system.ring.retry_failures(channel="bad")).results == ()


async def test_A05_e_what_moved_on_meanwhile_is_left_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found as a failure and sent by somebody else before the decision: not even a forced one sends it again."""
    system = await start(bad={"provider": "sandbox", "script": ["payload", "ok"]})
    (id_,) = await failed(system, "bad", 1)
    stale = await system.ring.search(terminal_failures=True)
    await system.ring.retry(id_, by="bob")
    await system.work()

    async def search(_query: object) -> object:
        return stale

    monkeypatch.setattr(system.ring.store, "search", search)
    (one,) = (await system.ring.retry_failures(channel="bad", force=True)).results
    assert one.refused is not None
    monkeypatch.undo()
    view = await system.view(id_)
    assert (view["status"], view["revision"]) == ("sent", 2)


async def test_A05_f_discarded_for_good(start: Start) -> None:
    """Let be by a person: cancelled, told by whom and why, its end is not published anew, and no retry takes it."""
    system = await start(bad={"provider": "sandbox", "script": "payload"})
    ids = await failed(system, "bad", 2)
    done = await system.ring.discard_failures([ids[0]], by="ann", reason="old app", tenant="")
    assert done.results[0].refused is None
    view = await system.view(ids[0])
    assert (view["status"], view["timeline"][-1]["detail"]) == (
        "cancelled",
        {"by": "ann", "reason": "old app"},
    )
    assert [one["status"] for one in await system.dispatched(ids[0])] == ["Failed"]
    again = await system.ring.retry_failures(ids, force=True)
    assert [one.refused and one.refused.code for one in again.results] == ["already_final", None]
    other = await system.ring.discard_failures([ids[1]], tenant="acme")
    assert other.results[0].refused is not None
    assert other.results[0].refused.code == "not_found"
    with pytest.raises(InputError, match="at a time"):
        await system.ring.retry_failures(limit=501)
