"""Field reports about replies: approved twice, made twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ringonce.api.app import create_app
from ringonce.app import Ringonce
from ringonce.core.drafts import state_of
from ringonce.errors import ConflictError
from tests.api.asgi import Caller
from tests.requirements.conftest import Start, System

KEY = "review:7"


@pytest.fixture
async def desk(start: Start) -> AsyncIterator[tuple[System, list[Ringonce]]]:
    """Two programs on one database, as two operators use them: each with a connection of its own."""
    system = await start(reply={"provider": "sandbox"})
    other = Ringonce(system.config)
    await other.open()
    yield system, [system.ring, other]
    await other.close()


async def approve(ring: Ringonce, by: str) -> str:
    """What the operator is told: the notification, or why not."""
    try:
        return str((await ring.send_draft(KEY, by=by, channel="reply")).row.id)
    except ConflictError as error:
        return error.code


async def calls(system: System) -> int:
    """How many calls were made."""
    return len((await system.ring.draft(KEY)).attempts)


async def test_conc_03_two_people_approve_one_draft(desk: tuple[System, list[Ringonce]]) -> None:
    """CONC-03: twenty approvals by two operators at once, a worker at work: one job, one call.

    open-mercato#3380, rietveld#484, osmbc#327: each click queued a job of its own.
    """
    system, rings = desk
    saved = await system.ring.put_draft(KEY, "Thank you", channel="reply")
    async with system.working(system.ring):
        told = await asyncio.gather(*(approve(rings[n % 2], f"p{n % 2}") for n in range(20)))
        await system.ended(saved.draft.row.id)
    assert set(told) <= {str(saved.draft.row.id), "already_sent"}
    assert await calls(system) == 1
    assert [note.kind for note in (await system.ring.draft(KEY)).notes].count("draft_approved") == 1


async def test_conc_03_approve_and_reject(desk: tuple[System, list[Ringonce]]) -> None:
    """CONC-03: of an approval and a rejection at once one counts, and the other is told so."""
    _, (one, other) = desk
    for number in range(5):
        await one.put_draft(KEY, f"Thank you {number}", channel="reply")
        results = await asyncio.gather(one.send_draft(KEY), other.reject_draft(KEY), return_exceptions=True)
        refused = [error for error in results if isinstance(error, ConflictError)]
        assert [error.code for error in refused] in (["conflict"], ["already_final"])
        seen = state_of((await one.draft(KEY)).row.state).value
        assert seen == ("pending" if refused[0].code == "conflict" else "rejected")


async def test_conc_03_what_was_seen_is_what_is_sent(desk: tuple[System, list[Ringonce]]) -> None:
    """CONC-03: an approval of a text that was changed meanwhile is refused, and tells how the draft stands."""
    system, (one, other) = desk
    seen = (await one.put_draft(KEY, "Thank you", channel="reply")).draft.row.state.version
    await other.put_draft(KEY, "Thanks for nothing", channel="reply")
    with pytest.raises(ConflictError, match=r"changed meanwhile.*state draft") as refused:
        await one.send_draft(KEY, version=seen)
    assert refused.value.code == "stale_version"
    with pytest.raises(ConflictError, match="changed meanwhile"):
        await one.put_draft(KEY, "Thank you!", channel="reply", version=seen)
    with pytest.raises(ConflictError, match="changed meanwhile"):
        await one.reject_draft(KEY, version=seen)
    assert (await one.draft(KEY)).content.text == "Thanks for nothing"
    await system.work()
    assert await calls(system) == 0


async def test_conc_04_a_put_that_is_told_again(desk: tuple[System, list[Ringonce]]) -> None:
    """CONC-04: a client that saw no answer repeats its PUT, at once and much later: one draft, no change.

    clawbox#603: the second request made a second draft, which was offered after the first had been decided.
    """
    system, rings = desk

    async def put(n: int) -> str:
        return str((await rings[n % 2].put_draft(KEY, "Thank you", channel="reply")).draft.row.id)

    assert len(set(await asyncio.gather(*(put(n) for n in range(10))))) == 1
    assert len(await system.ring.drafts()) == 1
    await system.ring.send_draft(KEY, by="ann")
    await system.work()
    before = await system.ring.draft(KEY)
    assert await put(0) == str(before.row.id)
    assert (await system.ring.draft(KEY)).row.state == before.row.state


async def test_conc_04_an_old_button(desk: tuple[System, list[Ringonce]]) -> None:
    """CONC-04: another surface that still offers a decided draft is told who decided and when, never nothing."""
    system, (one, other) = desk
    await one.put_draft(KEY, "Thank you", channel="reply")
    await one.send_draft(KEY, by="ann")
    await system.work()
    with pytest.raises(ConflictError, match=r"approved by ann at 2.*sent at 2"):
        await other.send_draft(KEY, by="bob")
    with pytest.raises(ConflictError, match="approved by ann"):
        await other.reject_draft(KEY, by="bob")


@pytest.mark.parametrize("verb", ["send", "reject"])
async def test_secu_05_a_link_decides_nothing(desk: tuple[System, list[Ringonce]], verb: str) -> None:
    """SECU-05: a preview followed the link in a message, and so approved what nobody had read.

    justingit/dada-mail#1048, Team-Commonly/commonly#706. Here: nothing is decided by GET; a POST names the version
    that its approver saw, and the second one learns who was first.
    """
    system, (one, other) = desk
    saved = await system.ring.put_draft(KEY, "Thank you", channel="reply")
    seen = {"version": saved.draft.row.state.version}
    url = "/v1/drafts/review%3A7"
    first, second = Caller(create_app(one)), Caller(create_app(other))
    assert (await first.get(f"{url}/{verb}")).status == 405
    assert state_of((await one.draft(KEY)).row.state) == "draft"
    stale = await second.post(f"{url}/{verb}", {"version": 99, "by": "bob"})
    assert (stale.status, stale.json["code"]) == (409, "stale_version")
    done = await first.post(f"{url}/{verb}", {**seen, "by": "ann"})
    assert done.json["state"] == {"send": "pending", "reject": "rejected"}[verb]
    again = await second.post(f"{url}/{verb}", {**seen, "by": "bob"})
    assert [entry["by"] for entry in again.json["history"]] == ["library", "ann"]
