"""A08, AC6, B07, D07: the worker dies around the call, the bus delivers twice, and nobody is told twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa

from ringonce.store.schema import events, journal, notifications
from ringonce.vendors.ledger import Ledger
from ringonce.vendors.script import plan
from ringonce.vendors.standin import StandIn
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, calls, outcomes, webhook

TOKEN = "1:telegram"
AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}
SHORT = {"lease": "1s", "timeout": "30s"}
"""A lease that is over soon after its worker is gone, and a call that is under way when it dies."""


def chat(server: TelegramApi, **more: object) -> dict[str, object]:
    """A channel for it."""
    return {"provider": "telegram", "token": TOKEN, "base_url": server.url, **more}


@asynccontextmanager
async def killed_after_acceptance(system: System, server: StandIn) -> AsyncIterator[None]:
    """A worker process is killed with SIGKILL when the server has accepted something and not answered."""
    worker = await system.process("worker")
    try:
        told = await asyncio.to_thread(
            server.ledger.wait_for, lambda entries: any(entry.accepted for entry in entries), 120
        )
        assert told, "the worker never called"
        yield
    finally:
        worker.kill()
        await worker.communicate()


async def test_A08_AC6_a_the_next_attempt_carries_the_same_reference(start: Start) -> None:
    """After a SIGKILL between acceptance and commit the same reference goes out again: the receiver ignores it."""
    with WebhookReceiver([SECRET], plan=plan(["accept_then_hang:first=1"])) as server:
        system = await start(hook=webhook(**SHORT))
        id_ = await system.accept("hook", f"{server.url}/ada")
        async with killed_after_acceptance(system, server):
            assert (await system.view(id_))["status"] == "pending"
        async with system.working(system.ring):
            await system.called(id_)
        view = await system.view(id_)
        assert (view["status"], view["final"], outcomes(view)) == ("failed", False, ["unknown"])
        assert view["last_error"]["code"] == "NTF_PROVIDER_TRANSIENT"
        await system.pass_time()
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["assumed"], outcomes(view)) == ("sent", False, ["unknown", "accepted"])
        assert {attempt["reference"] for attempt in view["attempt_list"]} == {str(id_)}
        assert calls(server) == {str(id_): 2}
        assert [entry.verdict for entry in server.ledger.entries] == ["accept_then_hang", "repeat"]
        assert server.ledger.repeats() == {}
        assert [one["status"] for one in await system.dispatched(id_)] == ["Sent"]
        (report,) = await system.ring.report()
        assert (report["sent"], report["assumed"], report["in_doubt"]) == (1, 0, 0)


async def test_A08_AC6_b_without_a_key_the_ledger_prevents_the_second_send(start: Start) -> None:
    """Where the provider knows no reference, the durable mark of the begun attempt stands for the message."""
    with TelegramApi(TOKEN, plan=plan(["accept_then_hang:first=1"])) as server:
        system = await start(chat=chat(server, **SHORT))
        id_ = await system.accept("chat", "4815162342")
        async with killed_after_acceptance(system, server):
            pass
        async with system.working(system.ring):
            await system.ended(id_)
        await system.pass_time(86_400)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["assumed"], outcomes(view)) == ("sent", True, ["unknown"])
        assert view["provider_message_id"] is None
        assert len(server.ledger.entries) == 1
        assert [(one["status"], one["assumed"]) for one in await system.dispatched(id_)] == [("Sent", True)]
        assert "no verdict" in await system.command("explain", str(id_))
        (report,) = await system.ring.report()
        assert (report["sent"], report["assumed"]) == (1, 1)


async def test_A08_AC6_c_what_was_not_begun_is_sent_after_the_crash(start: Start) -> None:
    """Rows that the dead worker had claimed and not begun are sent once by the next one, as first attempts."""
    with WebhookReceiver([SECRET], plan=plan(["accept_then_hang:first=1"])) as server:
        system = await start(hook=webhook(**SHORT, concurrency=1))
        ids = [await system.accept("hook", f"{server.url}/{n}") for n in range(10)]
        async with killed_after_acceptance(system, server):
            pass
        await system.pass_time(60)
        async with system.working(system.ring):
            for id_ in ids:
                await system.called(id_)
        await system.pass_time()
        await system.work()
        views = [await system.view(id_) for id_ in ids]
        assert {view["status"] for view in views} == {"sent"}
        assert sorted(view["attempts"] for view in views) == [1] * 9 + [2]
        assert server.ledger.repeats() == {}
        assert len(server.ledger.accepted()) == 10


async def test_A08_AC6_d_under_hold_a_person_decides(start: Start) -> None:
    """With in_doubt = hold nothing is sent again until somebody who looked says what became of it."""
    with TelegramApi(TOKEN, plan=plan(["accept_then_reset:first=2"])) as server:
        system = await start(chat=chat(server, in_doubt="hold", backoff=AT_ONCE))
        arrived, lost = await system.accept("chat", "1"), await system.accept("chat", "2")
        await system.work()
        await system.pass_time(86_400)
        await system.work()
        for id_ in (arrived, lost):
            assert (await system.view(id_))["status"] == "in_doubt"
        await system.ring.resolve(arrived, "sent", by="ada")
        await system.ring.resolve(lost, "not_sent", by="ada")
        await system.work()
        views = [await system.view(id_) for id_ in (arrived, lost)]
        assert [(view["status"], view["attempts"]) for view in views] == [("sent", 1), ("sent", 2)]


async def test_B07_success_marks_sent_and_retries_never_duplicate(start: Start) -> None:
    """503, a reset after acceptance and a reset before it: sent in the end, and the phone rang once for each."""
    faults = ["503:each=1,address=/1", "accept_then_reset:each=1,address=/2", "reset:each=1,address=/3"]
    with WebhookReceiver([SECRET], plan=plan(faults)) as server:
        system = await start(hook=webhook(backoff=AT_ONCE))
        ids = [await system.accept("hook", f"{server.url}/{n}") for n in range(5)]
        async with system.working(system.ring):
            for id_ in ids:
                await system.ended(id_)
        assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
        assert server.ledger.repeats() == {}
        assert {reference for reference, _ in server.ledger.accepted()} == {str(id_) for id_ in ids}
        (report,) = await system.ring.report()
        assert (report["accepted"], report["sent"]) == (5, 5)


# --- D07 -----------------------------------------------------------------------------------------------------------


async def rows(system: System) -> tuple[int, int, int]:
    """Events, journal rows, notifications."""
    return await system.count(events), await system.count(journal), await system.count(notifications)


async def test_D07_a_journal_row_and_notification_are_one_transaction(start: Start) -> None:
    """When the notification can not be stored, neither is the journal row: the event delivered again rings."""
    from ringonce.errors import RingonceError

    system = await start(sand={"provider": "sandbox"})
    body = {"event_id": "msg-981", "to": {"sand": "ada"}, "content": {"text": "hello"}}
    await system.refuse("ringonce_notifications", "NEW.attempts = 0")
    with pytest.raises(RingonceError):
        await system.ring.notify(body)
    assert await rows(system) == (0, 0, 0)
    await system.allow("ringonce_notifications")
    again = await system.ring.notify(body)
    assert (again.duplicate, await rows(system)) == (False, (1, 1, 1))
    await system.work()
    assert (await system.view(again.notifications[0].id))["status"] == "sent"


async def test_D07_b_a_redelivered_event_inserts_nothing_and_rings_nobody(
    start: Start, receiver: WebhookReceiver
) -> None:
    """The same event again, before and after its end, by many at once, with a new device: the first answer, no row."""
    system = await start(hook=webhook())
    await system.ring.register("user-1", "hook", f"{receiver.url}/1")
    body = {"event_id": "msg-981", "type": "message.new", "recipients": ["user-1"], "content": {"text": "hi"}}
    answers = await asyncio.gather(*(system.ring.notify(body) for _ in range(8)))
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 7
    assert {answer.notifications[0].id for answer in answers} == {answers[0].notifications[0].id}
    before = await rows(system)
    assert before == (1, 1, 1)
    await system.work()
    await system.ring.register("user-1", "hook", f"{receiver.url}/2")
    late = await system.ring.notify(body)
    await system.work()
    assert (late.duplicate, await rows(system)) == (True, before)
    assert len(receiver.ledger.entries) == 1
    (report,) = await system.ring.report()
    assert report["duplicates_refused"] == 8


async def test_D07_c_a_fan_out_that_was_cut_goes_on_where_it_was(
    start: Start, receiver: WebhookReceiver
) -> None:
    """A fan-out to 250 recipients that the database cuts in the middle loses and repeats nobody."""
    system = await start(hook=webhook(concurrency=50))
    people = [{"id": f"user-{n:03}", "addresses": {"hook": f"{receiver.url}/{n:03}"}} for n in range(250)]
    accepted = await system.ring.notify(
        {"event_id": "msg-1", "recipients": people, "content": {"text": "hi"}}
    )
    assert accepted.expanding
    await system.refuse("ringonce_event_recipients", "NEW.recipient = 'user-150'")
    async with system.working(system.ring):

        async def stuck() -> bool:
            return 0 < await system.count(notifications) < 250 and len(receiver.ledger.entries) > 0

        await system.until(stuck)
        assert await system.count(journal) == await system.count(notifications)
    await system.allow("ringonce_event_recipients")
    await system.work()
    assert await rows(system) == (1, 250, 250)
    assert len(receiver.ledger.entries) == 250
    assert server_addresses(receiver.ledger) == {f"/{n:03}" for n in range(250)}
    told = await system.sql(
        lambda c: c.execute(sa.select(sa.func.count(notifications.c.recipient.distinct()))).scalar_one()
    )
    assert told == 250


def server_addresses(ledger: Ledger) -> set[str]:
    """Who was told."""
    return {entry.address for entry in ledger.entries if entry.accepted}


async def test_D07_d_silence_is_the_better_side_of_the_error(start: Start) -> None:
    """in_doubt = assume_sent, killed after the send: neither the event again nor the next worker rings again."""
    with WebhookReceiver([SECRET], plan=plan(["accept_then_hang:first=1"])) as server:
        system = await start(hook=webhook(in_doubt="assume_sent", **SHORT))
        body = {"event_id": "msg-1", "to": {"hook": f"{server.url}/ada"}, "content": {"text": "hi"}}
        id_ = (await system.ring.notify(body)).notifications[0].id
        async with killed_after_acceptance(system, server):
            assert (await system.ring.notify(body)).duplicate
        async with system.working(system.ring):
            await system.ended(id_)
            assert (await system.ring.notify(body)).duplicate
        await system.pass_time(86_400)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["assumed"], view["attempts"]) == ("sent", True, 1)
        assert calls(server) == {str(id_): 1}
