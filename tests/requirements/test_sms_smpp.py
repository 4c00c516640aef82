"""Short messages over SMPP, from acceptance to report, on both stores."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ringonce.vendors.script import plan
from ringonce.vendors.smpp import SmsCenter, delivery
from tests.requirements.conftest import Facts, Start, System, outcomes

NUMBER = "+447700900123"


@pytest.fixture
def center() -> Iterator[SmsCenter]:
    """A center without faults that reports nothing by itself."""
    with SmsCenter("acme", "secret") as server:
        yield server


def sms(server: SmsCenter, **more: object) -> Facts:
    """A channel for it."""
    return {
        "provider": "smpp",
        "url": f"smpp://acme:secret@127.0.0.1:{server.port}",
        "from": "Acme",
        "backoff": {"kind": "fixed", "base": "50s", "jitter": 0},
        **more,
    }


async def arrived(system: System, id_: Any) -> Facts:
    """Wait until its life tells that it was delivered."""

    async def told() -> bool:
        return any(entry["kind"] == "receipt" and "delivered" in str(entry) for entry in await life())

    async def life() -> list[Facts]:
        return list((await system.view(id_))["timeline"])

    await system.until(told)
    return await system.view(id_)


async def has(system: System, id_: Any, name: str, value: object = True) -> Facts:
    """Wait until the notification says so."""

    async def told() -> bool:
        found = (await system.view(id_))[name]
        return bool(found) if value is True else found == value

    await system.until(told)
    return await system.view(id_)


@pytest.mark.parametrize("decimal", [False, True])
async def test_delivered(start: Start, decimal: bool) -> None:
    """A report of delivery is a fact on the notification, whichever way the center writes its ids."""
    with SmsCenter("acme", "secret", report="DELIVRD", decimal=decimal, bare=decimal) as server:
        system = await start(sms=sms(server, report_ids="decimal" if decimal else "same"))
        async with system.working(system.ring):
            id_ = await system.accept("sms", NUMBER)
            view = await arrived(system, id_)
        assert (view["status"], view["attempts"]) == ("sent", 1)
        assert server.acknowledged[-1] == 0


async def test_an_early_report(start: Start) -> None:
    """A report that comes before the response belongs to its message all the same."""
    with SmsCenter("acme", "secret", report="DELIVRD", early=True) as server:
        system = await start(sms=sms(server))
        async with system.working(system.ring):
            id_ = await system.accept("sms", NUMBER)
            await arrived(system, id_)


async def test_undeliverable(start: Start, center: SmsCenter) -> None:
    """A failure that is reported ends what was sent: it is shown as failed, and the number is kept."""
    system = await start(sms=sms(center))
    async with system.working(system.ring):
        id_ = await system.accept("sms", NUMBER)
        await has(system, id_, "status", "sent")
        center.tell(center.taken[0], "UNDELIV", "0C1")
        view = await has(system, id_, "status", "failed")
    assert view["last_error"]["code"] == "NTF_PROVIDER_INVALID_RECIPIENT"
    assert view["final"]
    assert len(center.taken) == 1


async def test_reports_out_of_order(start: Start, center: SmsCenter) -> None:
    """What arrived has arrived: a later word of failure, or of being under way, changes nothing."""
    system = await start(sms=sms(center))
    async with system.working(system.ring):
        id_ = await system.accept("sms", NUMBER)
        await has(system, id_, "status", "sent")
        for state in ("DELIVRD", "ACCEPTD", "EXPIRED"):
            center.tell(center.taken[0], state)
        await system.until(lambda: _acknowledged(center, 3))
        view = await arrived(system, id_)
    assert (view["status"], view["last_error"]) == ("sent", None)


async def _acknowledged(center: SmsCenter, count: int) -> bool:
    return center.acknowledged.count(0) >= count


async def test_what_is_no_report_of_ours(start: Start, center: SmsCenter) -> None:
    """A person's message that looks like a report, and a report of what nobody knows, change nothing."""
    system = await start(sms=sms(center))
    async with system.working(system.ring):
        id_ = await system.accept("sms", NUMBER)
        await has(system, id_, "status", "sent")
        (part,) = center.taken
        forged = f"id:{part.id} sub:001 dlvrd:001 stat:UNDELIV err:001 text:".encode()
        center.deliver(delivery(part.destination, part.source, forged))
        center.deliver(delivery(part.destination, part.source, b"id:FFFF stat:UNDELIV err:001", 0x04))
        await system.until(lambda: _acknowledged(center, 2))
    assert (await system.view(id_))["status"] == "sent"
    assert system.metric("ringonce_receipts_total", channel="sms", kind="failed", fate="unknown") == 1


async def test_two_senders_share_a_center(start: Start, center: SmsCenter) -> None:
    """Reports come to the message they are about, whichever channel sent it."""
    system = await start(one=sms(center), two=sms(center, **{"from": "Other"}))
    async with system.working(system.ring):
        ids = [await system.accept(name, NUMBER) for name in ("one", "two")]
        for id_ in ids:
            await has(system, id_, "status", "sent")
        for part in list(center.taken):
            center.tell(part, "DELIVRD")
        for id_ in ids:
            await arrived(system, id_)
    assert {part.source[2] for part in center.taken} == {"Acme", "Other"}
    assert center.binds == 1


async def test_a_lost_response_is_assumed_and_never_sent_again(start: Start) -> None:
    """A message whose response was lost counts as sent; the center gets no second one however much time passes."""
    with SmsCenter("acme", "secret", plan=plan(["accept_then_close:first=1"])) as server:
        system = await start(sms=sms(server))
        id_ = await system.accept("sms", NUMBER)
        for _ in range(3):
            await system.work()
            await system.pass_time(86_400)
        view = await system.view(id_)
        assert (view["status"], view["assumed"]) == ("sent", True)
        assert outcomes(view) == ["unknown"]
        assert len(server.ledger.entries) == 1


async def test_a_killed_worker_hands_nothing_in_again(start: Start) -> None:
    """A worker dies while the center has the message and has not answered: it counts as sent, and comes once."""
    with SmsCenter("acme", "secret", plan=plan(["accept_then_hang:first=1"])) as server:
        system = await start(sms=sms(server, lease="1s", timeout="30s"))
        id_ = await system.accept("sms", NUMBER)
        worker = await system.process("worker")
        try:
            assert await asyncio.to_thread(server.ledger.wait_for, bool, 120)
        finally:
            worker.kill()
            await worker.communicate()
        async with system.working(system.ring):
            view = await has(system, id_, "status", "sent")
        assert (view["assumed"], outcomes(view)) == (True, ["unknown"])
        assert len(server.ledger.entries) == 1


async def test_a_refused_bind_pauses_the_channel(start: Start, center: SmsCenter) -> None:
    """Wrong credentials stop the channel and call a person; the message waits and costs no attempt of its budget."""
    system = await start(sms=sms(center, url=f"smpp://acme:wrong@127.0.0.1:{center.port}"))
    id_ = await system.accept("sms", NUMBER)
    await system.work()
    view = await system.view(id_)
    assert view["last_error"]["code"] == "NTF_PROVIDER_AUTH"
    assert not view["final"]
    assert system.metric("ringonce_alerts_total", kind="auth", channel="sms") == 1
    assert center.ledger.entries == []
    await system.reconfigure(sms=sms(center))
    await system.ring.enable("sms")
    await system.work()
    assert (await system.view(id_))["status"] == "sent"


async def test_throttled_messages_wait(start: Start) -> None:
    """A throttled message is not lost, and comes once the center takes it."""
    soon = {"backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}, "floors": {"rate_limited": "10ms"}}
    with SmsCenter("acme", "secret", plan=plan(["88:first=1"])) as server:
        system = await start(sms=sms(server, **soon))
        async with system.working(system.ring):
            id_ = await system.accept("sms", NUMBER)
            view = await has(system, id_, "status", "sent")
        assert outcomes(view) == ["rate_limited", "accepted"]
        assert [entry.verdict for entry in server.ledger.entries] == ["88", "0"]
