"""An address that dies between acceptance and claim: the claim has begun the attempt, and no call is made."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ringonce import Ringonce, Status
from ringonce.errors import StoreUnavailable
from ringonce.store.store import SqlStore
from ringonce.wire.script import ScriptedWire

SLOTS = 2
ALIVE = 3 * SLOTS
"""The first claim, slots and prefetch, does not begin yet: the credential is asked for after it."""
DEAD = 3


@pytest.mark.parametrize("mark", [True, False], ids=["slots", "prefetch"])
@pytest.mark.parametrize(
    "broken", [None, "before", "after"], ids=["undone", "undo fails", "undo's reply is lost"]
)
async def test_a_begun_attempt_for_a_dead_address_is_taken_back(
    mark: bool, broken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a claim begins only live addresses are called; the others end final, without an attempt or a doubt."""
    claim, undo, submit = SqlStore.claim, SqlStore.undo, ScriptedWire.submit
    begun: set[Any] = set()
    undone: set[Any] = set()
    called: list[str] = []
    faults = [broken] if broken else []

    async def claiming(self: SqlStore, *arguments: Any, **named: Any) -> Any:
        batch = await claim(self, *arguments, **named)
        begun.update(one.row.id for one in batch.rows if one.row.lease.started_at is not None)
        return batch

    async def undoing(self: SqlStore, owner: str, rows: Any, **named: Any) -> int:
        fault = faults.pop() if faults else None
        if fault == "before":
            raise StoreUnavailable("gone before")
        count = await undo(self, owner, rows, **named)
        undone.update(id_ for id_, _ in rows)
        if fault == "after":
            raise StoreUnavailable("gone after")
        return count

    def submitting(self: ScriptedWire, batch: Sequence[Any], deliver: Any) -> None:
        called.extend(flight.row.address.value for flight, _ in batch)
        submit(self, batch, deliver)

    monkeypatch.setattr(SqlStore, "claim", claiming)
    monkeypatch.setattr(SqlStore, "undo", undoing)
    monkeypatch.setattr(ScriptedWire, "submit", submitting)
    box = {"provider": "sandbox", "concurrency": SLOTS, "mark": mark, "in_doubt": "resend"}
    async with Ringonce({"store": {"url": "sqlite://"}, "channels": {"box": box}}) as ringonce:
        ids = []
        for number in range(ALIVE + DEAD):
            await ringonce.register(f"p{number}", "box", f"a{number}")
            accepted = await ringonce.notify(recipients=[f"p{number}"], content={"text": "x"})
            ids.append(accepted.notifications[0].id)
        for number in range(ALIVE, ALIVE + DEAD):
            assert await ringonce.invalidate(f"p{number}", "box", f"a{number}") == 1
        async with asyncio.timeout(60):
            await ringonce.run_worker(drain=True)
        lives = [await ringonce.get(id_) for id_ in ids]
    dead = set(ids[ALIVE:])
    assert begun >= dead
    assert undone >= dead
    assert not faults
    assert sorted(called) == [f"a{number}" for number in range(ALIVE)]
    assert [life.row.state.status for life in lives] == [Status.SENT] * ALIVE + [Status.FAILED] * DEAD
    assert [len(life.attempts) for life in lives] == [1] * ALIVE + [0] * DEAD
    assert all(life.row.state.final for life in lives)
