"""A01 to A05, AC1 to AC4: a failing provider, retries, and their end."""

import asyncio
import json
import logging
from collections import Counter
from functools import partial
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.errors import ConfigError
from ringonce.ports import RETRY_LEASE
from ringonce.store.schema import leases, notifications
from ringonce.vendors.script import plan
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.requirements.conftest import SECRET, Start, System, calls, outcomes, started, webhook

HOURS = {"kind": "fixed", "base": "1h", "jitter": 0}
AT_ONCE = {"kind": "fixed", "base": "10ms", "jitter": 0}
TOKEN = "1:telegram"


async def held(system: System) -> bool:
    """Somebody holds it."""
    return await holder(system) is not None


async def measured(system: System) -> bool:
    """Its worker has had a whole cycle."""
    return "ringonce_failed_backlog{" in system.ring.telemetry.exposition()


async def holder(system: System) -> tuple[str, int] | None:
    """Who holds the lease of the retry loop, and the number of the term."""
    query = sa.select(leases.c.holder, leases.c.term).where(leases.c.name == RETRY_LEASE)
    row = await system.sql(lambda c: c.execute(query).one_or_none())
    return None if row is None else (row.holder, row.term)


# --- A01 ---------------------------------------------------------------------------------------------------------


async def test_A01_a_retriable_error_makes_it_failed_with_its_next_attempt(start: Start) -> None:
    """A 503 moves Pending to Failed: attempts 1, next_attempt_at = now + backoff(1), the NTF_ code, version + 1."""
    with WebhookReceiver([SECRET], plan=plan(["503:first=1"])) as server:
        backoff = {"kind": "exponential", "base": "40s", "jitter": "2s"}
        system = await start(hook=webhook(backoff=backoff))
        id_ = await system.accept("hook", f"{server.url}/ada")
        before = await system.view(id_)
        assert (before["status"], before["attempts"], before["last_error"]) == ("pending", 0, None)
        await system.work()
        after = await system.view(id_)
        assert (after["status"], after["final"], after["attempts"]) == ("failed", False, 1)
        assert after["last_error"]["code"] == "NTF_PROVIDER_TRANSIENT"
        assert after["last_error"]["provider_code"] == "503"
        assert after["version"] == before["version"] + 1
        assert 40 <= await system.wait(id_) <= 42
        assert calls(server) == {str(id_): 1}


async def test_A01_b_the_retry_loop_sees_only_what_is_committed(start: Start) -> None:
    """While the failure can not be written the row is still its worker's: nobody retries, nothing is sent again."""
    with WebhookReceiver([SECRET], plan=plan(["503:first=1"])) as server:
        system = await start(hook=webhook(backoff=AT_ONCE))
        await system.refuse("ringonce_attempts", "NEW.number > 0")
        id_ = await system.accept("hook", f"{server.url}/ada")
        async with system.working(system.ring):
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) > 0)
            assert (await system.view(id_))["attempts"] == 0
            await system.allow("ringonce_attempts")
            await system.ended(id_)
        view = await system.view(id_)
        assert (view["status"], outcomes(view)) == ("sent", ["transient", "accepted"])
        assert calls(server) == {str(id_): 2}


# --- A02, AC4 ------------------------------------------------------------------------------------------------------


async def test_A02_a_only_the_owner_of_the_lock_releases_due_retries(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another one holds `notifications:retry-worker` a due row stays; when its time is over the row is taken."""
    monkeypatch.setattr("ringonce.engine.worker.LAST_WORDS", 60.0)
    system = await start(sand={"provider": "sandbox", "script": ["transient", "ok"], "backoff": HOURS})
    id_ = await system.accept("sand")
    other = await started(system.config)
    try:
        async with system.working(system.ring):
            await system.called(id_)
            await system.until(lambda: held(system))
            assert await other.store.take_lease(RETRY_LEASE, "somebody else", 60_000_000) is None
            found = await holder(system)
        assert found is not None
        mine, term = found
        # A worker that stops gives the lease up, so that the next one need not wait.
        taken = await other.store.take_lease(RETRY_LEASE, "somebody else", 86_400_000_000)
        assert taken == term + 1
        await system.pass_time(3600)
        async with system.working(system.ring):
            witness = await system.accept("sand", send_at=None)
            await system.called(witness)
            assert (await system.view(id_))["attempts"] == 1
            assert await holder(system) == ("somebody else", taken)
            await other.store.drop_lease(RETRY_LEASE, "somebody else")
            await system.ended(id_)
        now = await holder(system)
        assert now is not None
        assert now[0] not in {"somebody else", mine}
    finally:
        await other.close()


async def test_A02_b_retries_start_with_a_cycle(start: Start) -> None:
    """Between two ticks of the cycle nothing is released, however long it is due; a new tick releases it."""
    system = await start(sand={"provider": "sandbox", "script": ["transient", "ok"], "backoff": HOURS})
    system.config["retry"]["cycle"] = "10m"
    await system.reconfigure()
    assert system.ring.config.retry.cycle == 600_000_000
    async with system.working(system.ring):
        # The first cycle ends with a look at what waits.
        await system.until(partial(measured, system))
        id_ = await system.accept("sand")
        await system.called(id_)
        await system.pass_time(3600)
        other = await system.accept("sand")
        await system.called(other)
        assert (await system.view(id_))["attempts"] == 1
    async with system.working(system.ring):
        await system.ended(id_)
    assert Ringonce().config.retry.cycle == 1_000_000
    with pytest.raises(ConfigError, match=r"retry\.cycle"):
        Ringonce({"retry": {"cycle": "soon"}})


async def test_A02_c_only_due_rows_with_calls_left_are_taken(start: Start) -> None:
    """A row that is not due stays, and one whose calls are used is never called again."""
    system = await start(
        early={"provider": "sandbox", "script": ["transient"], "backoff": HOURS},
        spent={"provider": "sandbox", "script": ["transient"], "backoff": AT_ONCE, "max_attempts": 2},
    )
    early, spent = await system.accept("early"), await system.accept("spent")
    async with system.working(system.ring):
        await system.ended(spent)
    await system.pass_time(60)
    await system.work()
    assert [(await system.view(id_))["attempts"] for id_ in (early, spent)] == [1, 2]


async def test_A02_AC4_two_workers_never_take_one_row(start: Start, receiver: WebhookReceiver) -> None:
    """Two instances work on the same first sends and the same retries: each row is called once for each attempt."""
    count = 150
    receiver.plan = plan(["503:every=5"])
    system = await start(hook=webhook(backoff=AT_ONCE, budgets={"transient": 20}, max_attempts=30))
    ids = await accept_many(system, receiver, count)
    second = await started(system.config)
    try:
        async with system.working(system.ring, second):
            await system.until(lambda: all_are(system, "sent", count))
    finally:
        await second.close()
    views = [await system.view(UUID(one)) for one in ids]
    assert calls(receiver) == {view["id"]: view["attempts"] for view in views}
    assert sum(view["attempts"] for view in views) > count
    assert all(outcomes(view)[-1] == "accepted" for view in views)
    assert len(await system.dispatched()) == count


async def accept_many(system: System, receiver: WebhookReceiver, count: int) -> list[str]:
    """Accept notifications for so many addresses of one receiver."""
    bodies = [
        {"event_id": f"e{n}", "to": {"hook": f"{receiver.url}/{n}"}, "content": {"text": "hello"}}
        for n in range(count)
    ]
    return [str(one.notifications[0].id) for one in await system.ring.notify_many(bodies)]


async def all_are(system: System, status: str, count: int) -> bool:
    """So many notifications have this status."""
    query = sa.select(sa.func.count()).where(notifications.c.status == status)
    return bool(await system.sql(lambda c: c.execute(query).scalar_one()) == count)


# --- A03, AC1 ------------------------------------------------------------------------------------------------------


async def test_A03_a_a_retry_that_succeeds_stores_the_message_id(start: Start) -> None:
    """Failed becomes Sent with the provider's own message id, and the retry is counted."""
    with TelegramApi(TOKEN, plan=plan(["500:first=1"])) as server:
        system = await start(
            chat={"provider": "telegram", "token": TOKEN, "base_url": server.url, "backoff": HOURS}
        )
        id_ = await system.accept("chat", "4815162342")
        await system.work()
        assert (await system.view(id_))["status"] == "failed"
        await system.pass_time()
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["attempts"], view["provider_message_id"]) == ("sent", 2, "1")
        assert system.metric("ringonce_retry_sent_total", channel="chat") == 1


async def test_A03_b_status_and_event_are_one_transaction(start: Start, receiver: WebhookReceiver) -> None:
    """Without room for the event the status does not change either; the write is repeated, never the call."""
    system = await start(hook=webhook())
    id_ = await system.accept("hook", f"{receiver.url}/ada")
    await system.execute("ALTER TABLE ringonce_outbox RENAME TO ringonce_away")
    async with system.working(system.ring):
        assert await asyncio.to_thread(receiver.ledger.wait_for, lambda entries: len(entries) > 0)
        await system.counted("ringonce_alerts_total", kind="store_unavailable")
        assert (await system.view(id_))["status"] == "pending"
        await system.execute("ALTER TABLE ringonce_away RENAME TO ringonce_outbox")
        await system.ended(id_)
    assert [one["status"] for one in await system.dispatched(id_)] == ["Sent"]
    assert calls(receiver) == {str(id_): 1}


async def test_A03_c_one_bad_row_never_fails_its_neighbours(start: Start, receiver: WebhookReceiver) -> None:
    """In a batch whose one answer the database refuses, all others end, and that one ends without its raw answer."""
    receiver.plan = plan(["410:address=/7"])
    system = await start(hook=webhook())
    await system.refuse("ringonce_attempts", "NEW.outcome <> 'accepted' AND NEW.answer <> ''")
    ids = await accept_many(system, receiver, 40)
    await system.work()
    views = [await system.view(one) for one in map(UUID, ids)]
    assert Counter(view["status"] for view in views) == {"sent": 39, "failed": 1}
    assert outcomes(views[7]) == ["invalid_recipient"]
    assert views[7]["attempt_list"][0]["answer"] == ""
    assert len(await system.dispatched()) == 40


@pytest.mark.parametrize("errors", [0, 1, 3])
async def test_AC1_n_errors_n_retries_then_sent(start: Start, errors: int) -> None:
    """N retriable errors lead to N retries, each after its backoff, and then to Sent."""
    with WebhookReceiver([SECRET], plan=plan([f"503:first={errors}"])) as server:
        system = await start(hook=webhook(backoff={**HOURS, "base": "60s"}))
        id_ = await system.accept("hook", f"{server.url}/ada")
        for number in range(1, errors + 1):
            await system.work()
            view = await system.view(id_)
            assert (view["status"], view["attempts"]) == ("failed", number)
            await system.pass_time(60)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], outcomes(view)) == ("sent", ["transient"] * errors + ["accepted"])
        assert calls(server) == {str(id_): errors + 1}


# --- A04 -----------------------------------------------------------------------------------------------------------


async def test_A04_only_the_end_is_published(start: Start) -> None:
    """Intermediate failures publish nothing; Sent and terminal Failed publish one event each, keyed by the id."""
    system = await start(
        good={"provider": "sandbox", "script": ["transient", "ok"], "backoff": HOURS},
        bad={"provider": "sandbox", "script": ["transient"], "backoff": HOURS, "max_attempts": 2},
        none={"provider": "sandbox"},
    )
    good, bad = await system.accept("good"), await system.accept("bad", tenant="acme")
    cancelled = await system.accept("none", send_at="2099-01-01T00:00:00Z")
    expired = await system.accept("none", expires_at="2020-01-01T00:00:00Z")
    await system.ring.cancel(cancelled)
    await system.work()
    assert (await system.view(expired))["status"] == "expired"
    assert await system.ring.outbox() == []
    await system.pass_time()
    await system.work()
    by_library = await system.ring.outbox()
    by_command = json.loads(await system.command("outbox", "list", "--json"))
    assert [(row.event_id, row.key) for _, row in by_library] == [
        (event["event_id"], event["key"]) for event in by_command
    ]
    events = {event["key"]: event for event in by_command}
    assert set(events) == {str(good), str(bad)}
    assert len(by_command) == 2
    for id_, status, tenant in ((good, "Sent", None), (bad, "Failed", "acme")):
        event = events[str(id_)]
        assert (event["kind"], event["event_id"]) == ("notification.dispatched", f"{id_}.r1")
        data = event["payload"]["data"]
        assert (data["notificationId"], data["status"], data["contractVersion"]) == (str(id_), status, 1)
        assert (data["tenant"], data["revision"], data["assumed"]) == (tenant, 1, False)
    assert events[str(bad)]["payload"]["data"]["code"] == "NTF_PROVIDER_TRANSIENT"


# --- A05, AC2, AC3 ---------------------------------------------------------------------------------------------------


async def test_A05_AC2_exhaustion_is_terminal_published_and_alerted(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """At max_attempts it is Failed for good: one dispatched(Failed), an alert, no further call, a person's turn."""
    with WebhookReceiver([SECRET], plan=plan(["503"])) as server:
        system = await start(hook=webhook(backoff=HOURS, max_attempts=3))
        id_ = await system.accept("hook", f"{server.url}/ada")
        with caplog.at_level(logging.WARNING, "ringonce.alerts"):
            for _ in range(3):
                await system.work()
                await system.pass_time()
        view = await system.view(id_)
        assert (view["status"], view["final"], view["attempts"]) == ("failed", True, 3)
        assert (view["next_attempt_at"], view["due"]) == (None, None)
        assert [one["status"] for one in await system.dispatched(id_)] == ["Failed"]
        (alert,) = [json.loads(record.getMessage()) for record in caplog.records]
        assert (alert["alert"], alert["channel"]) == ("exhausted", "hook")
        assert system.metric("ringonce_alerts_total", kind="exhausted", channel="hook") == 1
        await system.pass_time(365 * 86_400)
        await system.work()
        assert calls(server) == {str(id_): 3}
        assert system.metric("ringonce_failed_backlog", channel="hook") == 0
        listed = json.loads(await system.command("failures", "list", "--json"))
        assert [item["id"] for item in listed] == [str(id_)]
        assert "a person must look" in await system.command("explain", str(id_))


async def test_A05_b_a_person_sends_it_again(start: Start) -> None:
    """A retry by hand is a new revision with new budgets, and its end is published again."""
    with WebhookReceiver([SECRET], plan=plan(["503:first=2"])) as server:
        system = await start(hook=webhook(backoff=AT_ONCE, max_attempts=2))
        id_ = await system.accept("hook", f"{server.url}/ada")
        async with system.working(system.ring):
            await system.ended(id_)
        await system.command("failures", "retry", str(id_), "--by", "ada")
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["revision"], view["attempts"]) == ("sent", 2, 3)
        told = [(one["status"], one["revision"]) for one in await system.dispatched(id_)]
        assert told == [("Failed", 1), ("Sent", 2)]
        assert calls(server) == {str(id_): 2, f"{id_}_r2": 1}


async def test_AC3_an_invalid_recipient_is_called_once(start: Start) -> None:
    """A recipient that does not exist ends at once: one provider call, terminal Failed, dispatched(Failed)."""
    with TelegramApi(TOKEN, unknown=["404"]) as server:
        system = await start(
            chat={"provider": "telegram", "token": TOKEN, "base_url": server.url, "backoff": AT_ONCE}
        )
        id_ = await system.accept("chat", "404")
        await system.work()
        await system.pass_time()
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["final"], view["attempts"]) == ("failed", True, 1)
        assert view["last_error"]["code"] == "NTF_PROVIDER_INVALID_RECIPIENT"
        assert [one["code"] for one in await system.dispatched(id_)] == ["NTF_PROVIDER_INVALID_RECIPIENT"]
        assert len(server.ledger.entries) == 1
