"""C06: answers on a marketplace are published once, for what stands there is read before anything is sent again."""

import asyncio

import pytest

from ringonce.vendors.script import plan
from ringonce.vendors.wildberries import WildberriesApi
from tests.requirements.conftest import Start, System, outcomes
from tests.requirements.test_doubt import AT_ONCE, SHORT, killed_after_acceptance

TOKEN = "seller"
MINUTE, LATER = 61, 160
"""Seconds until the first look, and between two."""


def shop(*faults: str) -> WildberriesApi:
    """The marketplace, with a feedback and a question."""
    return WildberriesApi(TOKEN, feedbacks=["f1"], questions=["q1"], plan=plan(faults))


def reply(server: WildberriesApi, **more: object) -> dict[str, object]:
    """A channel for it."""
    return {
        "provider": "wildberries",
        "token": TOKEN,
        "base_url": server.url,
        "max_attempts": 3,
        "backoff": AT_ONCE,
        **more,
    }


async def looked(system: System, *seconds: int) -> None:
    """Time passes, and what is due then is done."""
    for some in seconds:
        await system.pass_time(some)
        await system.work()


@pytest.fixture(params=["feedback:f1", "question:q1"])
def address(request: pytest.FixtureRequest) -> str:
    """What is answered."""
    return str(request.param)


async def drained(system: System) -> str:
    """What ``ringonce worker --drain`` says at its end."""
    worker = await system.process("worker", "--drain")
    try:
        out, _ = await asyncio.wait_for(worker.communicate(), 90)
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.communicate()
    assert worker.returncode == 0
    return out.decode()


def published(server: WildberriesApi, address: str) -> int:
    """How often an answer to it was published."""
    kind, _, id_ = address.partition(":")
    return server.published[kind, id_]


async def test_C06_a_crash_after_the_call_publishes_once(start: Start, address: str) -> None:
    """SIGKILL between publication and commit: in doubt, then read back and found: sent by fact, published once."""
    with shop("accept_then_hang:first=1") as server:
        system = await start(reply=reply(server, **SHORT))
        id_ = await system.accept("reply", address)
        async with killed_after_acceptance(system, server):
            pass
        async with system.working(system.ring):
            await system.called(id_)
        view = await system.view(id_)
        assert (view["status"], view["due"]["purpose"]) == ("in_doubt", "lookup")
        await looked(system, MINUTE)
        view = await system.view(id_)
        assert (view["status"], view["assumed"], outcomes(view)) == ("sent", False, ["accepted"])
        assert published(server, address) == 1
        assert [(one["status"], one["assumed"]) for one in await system.dispatched(id_)] == [("Sent", False)]
        (report,) = await system.ring.report()
        assert (report["sent"], report["assumed"], report["repeats"], report["in_doubt"]) == (1, 0, 0, 0)
        assert "it is there" in await system.command("explain", str(id_))


async def test_C06_what_never_arrived_is_sent_after_three_looks(start: Start, address: str) -> None:
    """A broken call that published nothing: three looks over five minutes prove it, then it is published once."""
    with shop("reset:first=1") as server:
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", address)
        await system.work()
        await looked(system, MINUTE, LATER)
        view = await system.view(id_)
        assert (view["status"], view["attempts"], published(server, address)) == ("in_doubt", 1, 0)
        await looked(system, LATER)
        view = await system.view(id_)
        assert (view["status"], view["revision"]) == ("sent", 1)
        assert outcomes(view) == ["transient", "accepted"]
        assert {attempt["reference"] for attempt in view["attempt_list"]} == {str(id_)}
        assert published(server, address) == 1
        (report,) = await system.ring.report()
        assert report["repeats"] == 0


async def test_C06_timeouts_use_the_budget_up_and_publish_nothing(start: Start) -> None:
    """Three calls that certainly did not arrive are all that is tried: an error at the end, and nothing published."""
    with shop("reset:each=9") as server:
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", "feedback:f1")
        await system.work()
        await looked(system, *[MINUTE, LATER, LATER] * 3)
        view = await system.view(id_)
        assert (view["status"], view["final"], view["maybe_sent"]) == ("failed", True, False)
        assert outcomes(view) == ["transient"] * 3
        assert published(server, "feedback:f1") == 0


async def test_C06_another_text_waits_for_a_person(start: Start) -> None:
    """When another answer stands there nobody can tell: it is held, a person is alerted, and decides."""
    with shop("reset:first=1") as server:
        server.answers["feedback", "f1"] = "by hand"
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", "feedback:f1")
        await system.work()
        await looked(system, MINUTE, LATER, LATER)
        view = await system.view(id_)
        assert (view["status"], view["due"]["purpose"], view["due"]["at"]) == ("in_doubt", "hold", None)
        assert system.metric("ringonce_alerts_total", kind="in_doubt") == 1
        assert "1 in doubt: a person or a receipt decides" in await drained(system)
        await system.ring.resolve(id_, "sent", by="ann")
        assert (await system.view(id_))["status"] == "sent"
        assert published(server, "feedback:f1") == 0


async def test_C06_a_reading_that_fails_is_made_again(start: Start) -> None:
    """While what is published can not be read nothing is sent; when it can, the answer is found."""
    with shop("accept_then_reset:first=1", "503:stage=read,first=2") as server:
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", "feedback:f1")
        await system.work()
        await looked(system, MINUTE)
        async with system.working(system.ring):
            await system.ended(id_)
        view = await system.view(id_)
        assert (view["status"], outcomes(view), published(server, "feedback:f1")) == ("sent", ["accepted"], 1)
        told = [note["detail"]["told"] for note in view["timeline"] if note["kind"] == "looked_up"]
        assert told == ["failed", "failed", "arrived"]


async def test_C06_two_workers_look_once(start: Start) -> None:
    """Two workers share the looks: each is made once, and the answer is published once."""
    with shop("accept_then_reset:first=1") as server:
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", "feedback:f1")
        await system.work()
        await system.pass_time(MINUTE)
        async with system.working(system.ring, system.ring):
            await system.ended(id_)
        reads = [entry for entry in server.ledger.entries if not entry.reference]
        assert (len(reads), published(server, "feedback:f1")) == (1, 1)


async def test_C03_drain_waits_for_the_looks(start: Start) -> None:
    """A look is something that the worker moves by itself: drain goes on until the doubt is decided."""
    with shop("accept_then_reset:first=1") as server:
        system = await start(reply=reply(server))
        id_ = await system.accept("reply", "feedback:f1")
        await system.work()
        (item,) = await system.ring.store.backlog()
        assert (item.movable, item.looking, item.held) == (1, 1, 0)
        await system.pass_time(MINUTE)
        assert "nothing is left" in await drained(system)
        assert (await system.view(id_))["status"] == "sent"
