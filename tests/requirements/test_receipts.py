"""A08 (by callback), A09, A10, AC7, AC8: what vendors report later, over real HTTP, signed as they sign."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from ringonce.vendors.reports import Told
from ringonce.vendors.script import plan
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.requirements.conftest import Facts, Start, System, outcomes
from tests.requirements.reporting import callable_at, report

NUMBER = "106540352242922"
SECRET = "app-secret"
AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}
HOURS = {"kind": "fixed", "base": "1h", "jitter": 0}
ADA = "+15550001234"


def way(server: WhatsAppApi, **more: object) -> Facts:
    """A channel for it."""
    keys = {"provider": "whatsapp", "token": "t", "phone_number_id": NUMBER, "receipt_secret": SECRET}
    return {**keys, "base_url": server.url, **more}


def stand_in(*faults: str, **more: object) -> WhatsAppApi:
    """The vendor."""
    return WhatsAppApi("t", NUMBER, receipt_secret=SECRET, plan=plan(faults), **more)


async def listening(stack: AsyncExitStack, system: System, *servers: WhatsAppApi | ViberApi) -> None:
    """The vendors know where to call us."""
    url = await stack.enter_async_context(callable_at(system.ring))
    for server in servers:
        server.reports_to = f"{url}/v1/receipts/{'way' if isinstance(server, WhatsAppApi) else 'bot'}"


def kinds(view: Facts) -> list[str]:
    """What the timeline tells of receipts."""
    return [note["detail"]["kind"] for note in view["timeline"] if note["kind"] == "receipt"]


async def test_A08_a_report_with_our_reference_settles_the_doubt(start: Start) -> None:
    """The worker is killed between acceptance and commit; the callback brings our reference, and it is sent by fact."""
    with stand_in("accept_then_hang:first=1") as server:
        system = await start(way=way(server, lease="1s", timeout="30s", in_doubt="hold"))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            id_ = await system.accept("way", ADA)
            worker = await system.process("worker")
            try:
                assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) > 0, 120)
            finally:
                worker.kill()
                await worker.communicate()
            async with system.working(system.ring):

                async def doubtful() -> bool:
                    return (await system.view(id_))["status"] == "in_doubt"

                await system.until(doubtful)
            (told,) = server.told
            assert told.reference == str(id_)
            assert await report(server, told, "sent") == 200
            view = await system.view(id_)
            assert (view["status"], view["final"], view["assumed"]) == ("sent", True, False)
            assert (view["provider_message_id"], outcomes(view)) == (told.message_id, ["accepted"])
            await system.pass_time(86_400)
            await system.work()
        assert len(server.ledger.entries) == 1
        assert [one["status"] for one in await system.dispatched(id_)] == ["Sent"]
        (report_,) = await system.ring.report()
        assert (report_["sent"], report_["assumed"], report_["in_doubt"]) == (1, 0, 0)


async def test_A09_a_worker_never_overwrites_a_fresher_report(start: Start) -> None:
    """The vendor reports the arrival and then breaks the call: the worker that lost re-reads, and Sent stays."""
    with stand_in("accept_then_reset:first=1", reports=["early:delivered"]) as server:
        system = await start(way=way(server, in_doubt="resend", backoff=AT_ONCE))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            id_ = await system.accept("way", ADA)
            await system.work()
            await system.pass_time()
            await system.work()
        view = await system.view(id_)
        assert (view["status"], view["assumed"], view["attempts"]) == ("sent", False, 1)
        assert server.answers == [("delivered", 200)]
        assert len(server.ledger.entries) == 1
        assert [one["status"] for one in await system.dispatched(id_)] == ["Sent"]


@pytest.mark.parametrize("first", ["receipt", "retry"])
async def test_AC8_of_a_report_and_a_retry_the_first_commit_wins(start: Start, first: str) -> None:
    """A report of the first call beats the retry, or comes too late to roll its Sent back."""
    with stand_in("accept_then_reset:first=1", "delay:after=1,seconds=0") as server:
        system = await start(way=way(server, in_doubt="resend", backoff=HOURS))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            id_ = await system.accept("way", ADA)
            await system.work()
            assert (await system.view(id_))["status"] == "failed"
            if first == "receipt":
                assert await report(server, server.told[0], "delivered") == 200
            await system.pass_time()
            await system.work()
            if first == "retry":
                assert await report(server, server.told[0], "failed") == 200
            view = await system.view(id_)
            assert (view["status"], view["final"]) == ("sent", True)
        calls = {"receipt": 1, "retry": 2}[first]
        assert (view["attempts"], len(server.ledger.entries)) == (calls, calls)
        assert [one["status"] for one in await system.dispatched(id_)] == ["Sent"]


async def test_AC8_a_terminal_sent_survives_any_mix_of_reads_reports_and_workers(start: Start) -> None:
    """Reports of all kinds at once, from several connections, while a worker runs: what arrived ends as sent."""
    with stand_in() as server:
        system = await start(way=way(server, backoff=AT_ONCE))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            ids = [await system.accept("way", f"+1555000{n}") for n in range(1000, 1010)]
            await system.work()
            words = ["sent", "delivered", "failed=131000", "read", "delivered"]
            async with system.working(system.ring):
                answers = await asyncio.gather(
                    *(report(server, told, word) for told in list(server.told) for word in words)
                )
            await system.pass_time()
            await system.work()
        assert set(answers) == {200}
        views = [await system.view(id_) for id_ in ids]
        assert {(view["status"], view["final"]) for view in views} == {("sent", True)}
        assert all(view["read_at"] for view in views)


async def test_A10_a_failed_report_reopens_and_a_delivered_one_confirms(start: Start) -> None:
    """Failed: Sent -> Failed, in the loop again, published again at its end; delivered: only the timeline says more."""
    with stand_in() as server:
        system = await start(way=way(server, backoff=AT_ONCE))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            good, bad = await system.accept("way", ADA), await system.accept("way", "+15550009999")
            await system.work()
            told = {one.reference: one for one in server.told}
            assert await report(server, told[str(good)], "delivered", at=1_800_000_000.0) == 200
            assert await report(server, told[str(bad)], "failed=131000") == 200
            confirmed, reopened = await system.view(good), await system.view(bad)
            assert (confirmed["status"], confirmed["revision"], kinds(confirmed)) == (
                "sent",
                1,
                ["delivered"],
            )
            assert confirmed["delivered_at"] == "2027-01-15T08:00:00.000000Z"
            assert reopened["delivered_at"] is None
            assert (reopened["status"], reopened["final"], reopened["revision"]) == ("failed", False, 2)
            assert reopened["last_error"]["provider_code"] == "131000"
            await system.pass_time()
            await system.work()
            again = await system.view(bad)
            assert (again["status"], again["attempts"], outcomes(again)) == (
                "sent",
                2,
                ["accepted", "accepted"],
            )
            assert server.told[-1].reference == f"{bad}.r2"
        assert [one["revision"] for one in await system.dispatched(bad)] == [1, 2]
        assert "reports attempt 1 as failed (NTF_PROVIDER_TRANSIENT 131000)" in await system.command(
            "explain", str(bad)
        )


async def test_AC7_failed_reports_exhaust_into_a_terminal_failure(start: Start) -> None:
    """A vendor that accepts and then reports a failure, each time: Sent, Failed, in the loop, at last terminal."""
    with stand_in(reports=["failed=131000"]) as server:
        system = await start(way=way(server, backoff=AT_ONCE, budgets={"transient": 2}))
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            id_ = await system.accept("way", ADA)

            async def over() -> bool:
                view = await system.view(id_)
                return view["status"] == "failed" and bool(view["final"])

            async with system.working(system.ring):
                await system.until(over)
        view = await system.view(id_)
        assert (view["attempts"], view["last_error"]["code"]) == (3, "NTF_PROVIDER_TRANSIENT")
        assert len(server.ledger.entries) == 3
        assert (await system.dispatched(id_))[-1]["status"] == "Failed"
        assert str(id_) in await system.command("failures", "list")


async def test_A10_a_report_by_the_vendors_own_id_before_our_commit(start: Start) -> None:
    """A vendor that carries no reference of ours reports before it answers: the report waits, and is matched."""
    with ViberApi("vb-token", reports=["early:failed"]) as server:
        keys = {"provider": "viber", "token": "vb-token", "sender": "Shop", "base_url": server.url}
        system = await start(bot={**keys, "backoff": HOURS})
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            id_ = await system.accept("bot", "01234567890A=")

            async def reopened() -> bool:
                return (await system.view(id_))["revision"] == 2

            async with system.working(system.ring):
                await system.until(reopened)
        view = await system.view(id_)
        assert (view["status"], view["final"], kinds(view)) == ("failed", False, ["failed"])
        assert {status for _, status in server.answers} == {200}
        metric = ("ringonce_receipts_total", {"channel": "bot", "kind": "failed"})
        assert system.metric(metric[0], **metric[1], fate="unknown") == 1
        assert system.metric(metric[0], **metric[1], fate="taken") == 1


async def test_A10_who_blocks_us_is_not_written_to_again(start: Start) -> None:
    """A block that is reported drops the address as a refusal would; who comes back is written to again."""
    with ViberApi("vb-token") as server:
        keys = {"provider": "viber", "token": "vb-token", "sender": "Shop", "base_url": server.url}
        system = await start(bot=keys)
        person = "01234567890A="
        await system.ring.register("ada", "bot", person, tenant="acme")
        async with AsyncExitStack() as stack:
            await listening(stack, system, server)
            told = Told(address=person)
            assert await report(server, told, "unsubscribed") == 200
            (dead,) = await system.ring.addresses("ada", tenant="acme", invalidated=True)
            assert dead.reason == "NTF_PROVIDER_BLOCKED"
            assert await report(server, told, "subscribed") == 200
            (alive,) = await system.ring.addresses("ada", tenant="acme")
            assert (alive.id, alive.invalidated_at) == (dead.id, None)
            assert await report(server, told, "forged:unsubscribed") == 401
        assert len(await system.ring.addresses("ada", tenant="acme")) == 1
