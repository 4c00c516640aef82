"""A11 and AC5: in-app copies."""

import asyncio
from typing import Any

from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, started


async def tell(system: System, recipient: str = "user-1", **fields: object) -> dict[str, Any]:
    """Accept one event for a recipient on all channels; the briefs by channel."""
    body = {"recipients": [recipient], "content": {"text": "hello"}, **fields}
    return {one.channel: one for one in (await system.ring.notify(body)).notifications}


async def test_AC5_the_copy_is_sent_though_the_other_channel_failed(start: Start) -> None:
    """The external channel ends Failed, the in-app copy of the same event is Sent, each with its own event."""
    system = await start(app={"provider": "inapp"}, box={"provider": "sandbox", "script": ["blocked"]})
    await system.ring.register("user-1", "box", "ada")
    made = await tell(system)
    await system.work()
    failed, sent = await system.view(made["box"].id), await system.view(made["app"].id)
    assert (failed["status"], failed["final"]) == ("failed", True)
    assert (sent["status"], sent["final"]) == ("sent", True)
    assert [one["status"] for one in await system.dispatched(made["app"].id)] == ["Sent"]
    assert [one["status"] for one in await system.dispatched(made["box"].id)] == ["Failed"]


async def test_A11_the_copy_is_there_when_accepting_returns(start: Start) -> None:
    """Without any worker, and while the external channel hangs, the copy is Sent and can be read: no attempt."""
    system = await start(app={"provider": "inapp"}, box={"provider": "sandbox", "script": ["hang"]})
    await system.ring.register("user-1", "box", "ada")
    made = await tell(system)
    view = await system.view(made["app"].id)
    assert (view["status"], view["attempts"], view["attempt_list"], view["due"]) == ("sent", 0, [], None)
    page = await system.ring.inbox("user-1")
    assert [(copy.id, copy.content.text, copy.read_at) for copy in page.copies] == [
        (made["app"].id, "hello", None)
    ]


async def test_A11_the_copy_comes_through_the_stream_at_once(start: Start) -> None:
    """A stream that is open gets the recipient's copies, and nobody else's, from this process and from others."""
    system = await start(app={"provider": "inapp"})
    other = await started(system.config)
    async with system.ring.stream("user-1") as stream:
        waiting = asyncio.create_task(stream.next(30))
        made = await tell(system)
        assert [copy.id for copy in await waiting] == [made["app"].id]
        await tell(system, "user-2")
        (foreign,) = (await other.notify(recipients=["user-1"], content={"text": "hello"})).notifications
        assert [copy.id for copy in await stream.next(30)] == [foreign.id]
    await other.close()


async def test_A11_what_came_while_nobody_listened_is_not_lost(start: Start) -> None:
    """A stream that resumes after the last copy that was seen gets everything since, in order, nothing twice."""
    system = await start(app={"provider": "inapp"})
    async with system.ring.stream("user-1") as stream:
        await tell(system)
        (seen,) = await stream.next(30)
    missed = [(await tell(system))["app"].id for _ in range(60)]
    async with system.ring.stream("user-1", after=seen.seq) as stream:
        found: list[Any] = []
        while len(found) < len(missed):
            found += [copy.id for copy in await stream.next(30)]
    assert found == missed


async def test_A11_concurrent_writers_lose_nothing(start: Start) -> None:
    """While many accept at once, a stream that only ever moves forward sees every copy exactly once."""
    system = await start(app={"provider": "inapp"})
    async with system.ring.stream("user-1") as stream:
        made = await asyncio.gather(*(tell(system) for _ in range(40)))
        found: list[Any] = []
        while len(found) < len(made):
            found += [copy.id for copy in await stream.next(30)]
    assert len(found) == len(set(found)) == 40
    assert set(found) == {one["app"].id for one in made}


async def test_A11_a_copy_for_later_appears_when_it_is_due(start: Start) -> None:
    """With send_at the copy waits unseen, can still be withdrawn, and appears when it is due."""
    system = await start(app={"provider": "inapp"})
    later = {"send_at": "2100-01-01T00:00:00Z"}
    kept, withdrawn = await tell(system, **later), await tell(system, subject="order:1", **later)
    assert (await system.ring.inbox("user-1")).copies == ()
    await system.ring.cancel_subject("order:1")
    await system.pass_time(100 * 366 * 86_400)
    await system.work()
    assert [copy.id for copy in (await system.ring.inbox("user-1")).copies] == [kept["app"].id]
    assert (await system.view(withdrawn["app"].id))["status"] == "cancelled"
    assert (await system.view(kept["app"].id))["attempt_list"] == []


async def test_A11_reading_is_a_fact_on_the_copy(start: Start, receiver: WebhookReceiver) -> None:
    """Reading sets read_at once, lowers the counter, changes neither the status nor the other channel's copy."""
    system = await start(app={"provider": "inapp"}, hook={"provider": "webhook", "secret": SECRET})
    await system.ring.register("user-1", "hook", receiver.url)
    made = await tell(system)
    await tell(system)
    assert await system.ring.unread("user-1") == 2
    assert await system.ring.mark_read("user-1", [made["app"].id]) == 1
    first = (await system.view(made["app"].id))["read_at"]
    assert first is not None
    assert await system.ring.mark_read("user-1", [made["app"].id]) == 0
    assert (await system.view(made["app"].id))["read_at"] == first
    assert await system.ring.unread("user-1") == 1
    assert [c.id for c in (await system.ring.inbox("user-1", unread=True)).copies] != [made["app"].id]
    assert (await system.view(made["hook"].id))["read_at"] is None
    assert await system.ring.mark_read("user-2") == 0
    assert await system.ring.mark_read("user-1") == 1
    assert await system.ring.unread("user-1") == 0
