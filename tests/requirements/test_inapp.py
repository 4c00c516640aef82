"""A11 and AC5: in-app copies."""

import asyncio
from typing import Any

from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.transition import Answered
from ringonce.ports import Change, ReadMark
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


async def test_A11_a_read_mark_reaches_the_other_devices(start: Start) -> None:
    """What one device reads comes to the others in the order in which it happened, and the counter is in step."""
    system = await start(app={"provider": "inapp"})
    made = [(await tell(system))["app"].id for _ in range(2)]
    async with system.ring.stream("user-1") as phone, system.ring.stream("user-1") as desk:
        waiting = asyncio.create_task(desk.changes(30))
        await system.ring.mark_read("user-1", [made[0]])
        (mark,) = await waiting
        assert isinstance(mark, ReadMark)
        assert mark.id == made[0]
        assert mark.read_at is not None
        assert await desk.unread() == await phone.unread() == 1
        later = (await tell(system))["app"].id
        assert [one.id for one in await phone.changes(30)] == [made[0], later]
        assert [one.id for one in await desk.next(30)] == [later]


async def test_A11_what_was_read_while_a_device_was_away_is_not_lost(start: Start) -> None:
    """A device that comes back gets every copy and every mark since, once, in one order with the copies."""
    system = await start(app={"provider": "inapp"})
    async with system.ring.stream("user-1") as stream:
        first = (await tell(system))["app"].id
        (seen,) = await stream.next(30)
    other = (await tell(system))["app"].id
    await system.ring.mark_read("user-1", [other])
    await system.ring.mark_read("user-1", [first])
    async with system.ring.stream("user-1", after=seen.seq) as stream:
        found = await stream.changes(30)
    assert [(one.id, isinstance(one, ReadMark)) for one in found] == [
        (other, False),
        (other, True),
        (first, True),
    ]
    assert found[0].read_at is not None
    assert [one.seq for one in found] == [2, 3, 4]


async def test_A11_marks_and_copies_of_many_lose_nothing(start: Start) -> None:
    """While copies come and others read them at the same time, a stream sees each copy and each mark exactly once."""
    system = await start(app={"provider": "inapp"})

    async def one() -> Any:
        id_ = (await tell(system))["app"].id
        await system.ring.mark_read("user-1", [id_])
        return id_

    async with system.ring.stream("user-1") as stream:
        made = await asyncio.gather(*(one() for _ in range(20)))
        found: list[tuple[Any, bool]] = []
        while len(found) < 40:
            found += [(change.id, isinstance(change, ReadMark)) for change in await stream.changes(30)]
    assert sorted(found) == sorted([(id_, mark) for id_ in made for mark in (False, True)])
    assert await system.ring.unread("user-1") == 0


HOOK = {"provider": "webhook", "secret": SECRET}


async def test_stop_when_read_cancels_what_is_not_begun(start: Start, receiver: WebhookReceiver) -> None:
    """SPEC section 2, Read: with stop_when_read reading the copy cancels the unsent sibling, and says why."""
    system = await start(app={"provider": "inapp"}, hook=HOOK)
    await system.ring.register("user-1", "hook", receiver.url)
    stopped = await tell(system, stop_when_read=True)
    kept = await tell(system)
    await system.ring.mark_read("user-1")
    view = await system.view(stopped["hook"].id)
    assert (view["status"], view["final"], view["attempts"]) == ("cancelled", True, 0)
    assert "stop_when_read" in "\n".join(await system.ring.explain(stopped["hook"].id))
    assert (await system.view(kept["hook"].id))["status"] == "pending"
    assert (await system.view(stopped["app"].id))["status"] == "sent"
    await system.work()
    assert [delivery.reference for delivery in receiver.ledger.entries] == [str(kept["hook"].id)]


async def test_stop_when_read_stops_what_waits_for_a_retry(start: Start) -> None:
    """A sibling that failed and would be tried again is not tried again."""
    system = await start(
        app={"provider": "inapp", "stop_when_read": True},
        box={"provider": "sandbox", "script": ["transient"]},
    )
    await system.ring.register("user-1", "box", "ada")
    made = await tell(system)
    await system.work()
    assert (await system.view(made["box"].id))["status"] == "failed"
    await system.ring.mark_read("user-1", [made["app"].id])
    view = await system.view(made["box"].id)
    assert (view["status"], view["final"], view["attempts"]) == ("cancelled", True, 1)


async def test_stop_when_read_lets_finish_what_has_begun(start: Start) -> None:
    """A sibling whose call has begun is not stopped: it ends as its provider answers; the copy is read."""
    system = await start(app={"provider": "inapp"}, box={"provider": "sandbox"})
    await system.ring.register("user-1", "box", "ada")
    made = await tell(system, stop_when_read=True)
    store, id_ = system.ring.store, made["box"].id
    (claimed,) = (await store.claim("box", "worker", 1, 60_000_000)).rows
    assert claimed.row.lease is not None
    guard = ("worker", claimed.row.lease.fence)
    assert (await store.mark("worker", [(id_, guard[1], claimed.row.state.version)])).begun == {id_: 1}
    assert await system.ring.mark_read("user-1") == 1
    assert (await system.view(id_))["status"] == "pending"
    answer = Answered(1, Outcome(OutcomeClass.ACCEPTED))
    await store.settle([Change(id_, answer, guard)], system.ring.engine.decide)
    assert (await system.view(id_))["status"] == "sent"
    assert (await system.view(made["app"].id))["read_at"] is not None


async def test_stop_when_read_race_with_the_worker(start: Start) -> None:
    """Reading and sending at the same time: the row's lock decides, and each ends either cancelled or sent once."""
    system = await start(app={"provider": "inapp"}, box={"provider": "sandbox"})
    await system.ring.register("user-1", "box", "ada")
    made = [await tell(system, stop_when_read=True) for _ in range(30)]
    async with system.working(system.ring):
        for one in made:
            await system.ring.mark_read("user-1", [one["app"].id])
        for one in made:
            await system.ended(one["box"].id)
    views = [await system.view(one["box"].id) for one in made]
    assert {(view["status"], view["attempts"]) for view in views} <= {("cancelled", 0), ("sent", 1)}


async def test_stop_when_read_is_the_recipients_own(start: Start) -> None:
    """Reading stops nothing of another recipient of the same event, and nothing of another event."""
    system = await start(
        app={"provider": "inapp", "stop_when_read": ["order.*"]},
        box={"provider": "sandbox"},
    )
    for name in ("user-1", "user-2"):
        await system.ring.register(name, "box", name)
    both = await system.ring.notify(
        recipients=["user-1", "user-2"], type="order.left", content={"text": "hello"}
    )
    news = await tell(system, type="news.weekly")
    never = await tell(system, type="order.left", stop_when_read=False)
    await system.ring.mark_read("user-1")
    states = {
        (one.recipient, one.channel): (await system.view(one.id))["status"] for one in both.notifications
    }
    assert states["user-1", "box"] == "cancelled"
    assert states["user-2", "box"] == "pending"
    assert (await system.view(news["box"].id))["status"] == "pending"
    assert (await system.view(never["box"].id))["status"] == "pending"


async def test_AC8_reading_races_the_retry_and_nothing_is_overwritten(start: Start) -> None:
    """While a worker tries the other channel again and again, reading the copy is kept; neither undoes the other."""
    at_once = {"kind": "fixed", "base": "1ms", "jitter": 0}
    script = ["transient", "transient", "ok"]
    box = {"provider": "sandbox", "script": script, "backoff": at_once, "circuit": "off"}
    system = await start(app={"provider": "inapp"}, box=box)
    await system.ring.register("user-1", "box", "ada")
    made = [await tell(system) for _ in range(10)]
    async with system.working(system.ring):
        counts = await asyncio.gather(*(system.ring.mark_read("user-1", [one["app"].id]) for one in made * 2))
        for one in made:
            await system.ended(one["box"].id)
    assert sum(counts) == 10
    for one in made:
        copy, sent = await system.view(one["app"].id), await system.view(one["box"].id)
        assert (copy["status"], copy["read_at"] is not None) == ("sent", True)
        assert (sent["status"], sent["attempts"]) == ("sent", 3)
    assert await system.ring.unread("user-1") == 0
