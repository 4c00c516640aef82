"""B02, B03, B06: schedules, what the API tells of a failure, and that accepting never waits for a provider."""

import asyncio
import json
from functools import partial
from itertools import pairwise
from uuid import UUID

import pytest

from ringonce.api.app import create_app
from ringonce.errors import InputError, RingonceError
from ringonce.store.schema import attempts, contents, events, journal, notifications
from ringonce.vendors.script import plan
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from tests.api.asgi import Caller
from tests.requirements.conftest import SECRET, Start, System, calls, webhook

TOKEN = "1:telegram"
HOURS = {"kind": "fixed", "base": "1h", "jitter": 0}
FORMULA = {"kind": "exponential", "base": "5s", "factor": 2, "cap": "12s", "jitter": "1s"}
LITERAL = {"kind": "schedule", "delays": ["5s", "30s", "5m"], "jitter": "1s"}


async def called(system: System, id_: UUID, times: int) -> bool:
    """It has been called so often."""
    return bool((await system.view(id_))["attempts"] == times)


async def waits(system: System, channel: str, count: int) -> list[list[float]]:
    """The waits of ``count`` notifications before each of their retries, until they end.

    However long a turn takes, its worker has one cycle only, so that no row is retried twice in it.
    """
    system.config["retry"]["cycle"] = "10m"
    await system.reconfigure()
    ids = [await system.accept(channel, f"a{n}") for n in range(count)]
    found: list[list[float]] = []
    while True:
        async with system.working(system.ring):
            for id_ in ids:
                await system.until(partial(called, system, id_, len(found) + 1))
        if all([(await system.view(id_))["final"] for id_ in ids]):
            return found
        found.append([await system.wait(id_) for id_ in ids])
        await system.pass_time(3600)


async def test_B02_a_the_formula(start: Start) -> None:
    """Delay(n) = min(max_delay, base * 2^n + rand(0, 1000 ms)), n from 0: the cap comes after the jitter."""
    system = await start(push={"provider": "sandbox", "script": ["transient"], "backoff": FORMULA})
    first, second, third = await waits(system, "push", 12)
    assert all(5 <= wait <= 6 for wait in first)
    assert all(10 <= wait <= 11 for wait in second)
    assert third == [12] * 12
    assert max(first) - min(first) > 0.1, "without jitter all come back at once"


async def test_B02_b_the_literal_schedule(start: Start) -> None:
    """At once, 5 s + jitter, 30 s + jitter, 5 min without jitter; then it has failed: 4 calls for 3 retries."""
    system = await start(push={"provider": "sandbox", "script": ["transient"], "backoff": LITERAL})
    first, second, third = await waits(system, "push", 12)
    assert all(5 <= wait <= 6 for wait in first)
    assert all(30 <= wait <= 31 for wait in second)
    assert third == [300] * 12
    assert max(second) - min(second) > 0.1
    rows = await system.ring.search(limit=12)
    assert {row.state.attempts for row in rows} == {4}


async def test_B02_c_budgets_count_retries_of_a_class(start: Start) -> None:
    """3 retries after transient failures, 5 after rate limits with longer waits: 4 and 6 calls."""
    budgets = {"transient": 3, "rate_limited": 5}
    common = {
        "provider": "sandbox",
        "budgets": budgets,
        "backoff": {"kind": "fixed", "base": "10s", "jitter": 0},
    }
    system = await start(
        down={**common, "script": ["transient"]}, busy={**common, "script": ["rate_limited:1"]}
    )
    down = [wait for (wait,) in await waits(system, "down", 1)]
    busy = [wait for (wait,) in await waits(system, "busy", 1)]
    assert down == [10] * 3
    assert busy == [40] * 5
    shown = json.loads(await system.command("policy", "show", "down", "--json"))[0]
    assert [row["wait"] for row in shown["transient"]] == ["10s"] * 3
    assert [row["wait"] for row in shown["rate_limited"]] == ["40s"] * 5


async def test_B03_a_spent_budget_is_told_with_both_codes(start: Start) -> None:
    """When the budget is spent the API tells Failed, the NTF_ code and the provider's literal code."""
    with TelegramApi(TOKEN, plan=plan(["502"])) as server:
        system = await start(
            chat={
                "provider": "telegram",
                "token": TOKEN,
                "base_url": server.url,
                "backoff": HOURS,
                "budgets": {"transient": 1},
            }
        )
        id_ = await system.accept("chat", "4815162342")
        api = Caller(create_app(system.ring, max_payload=65_536))
        for status, final in (("failed", False), ("failed", True)):
            await system.work()
            answer = (await api.get(f"/v1/notifications/{id_}")).json
            assert (answer["status"], answer["final"]) == (status, final)
            error = answer["last_error"]
            assert (error["code"], error["provider_code"]) == ("NTF_PROVIDER_TRANSIENT", "502")
            await system.pass_time()
        listed = (await api.get("/v1/notifications?failures=true")).json["notifications"]
        assert [(item["id"], item["last_error"]) for item in listed] == [(str(id_), error)]


# --- B06 -----------------------------------------------------------------------------------------------------------


async def test_B06_a_accepting_never_waits_for_the_provider(start: Start) -> None:
    """With a provider that hangs, and a worker stuck in it, library and HTTP accept at once; no call is theirs."""
    with WebhookReceiver([SECRET], plan=plan(["hang"])) as server:
        system = await start(hook=webhook(timeout="10m", concurrency=1))
        system.config["worker"]["grace"] = "10ms"
        await system.reconfigure()
        api = Caller(create_app(system.ring, max_payload=65_536))
        async with system.working(system.ring):
            await system.accept("hook", f"{server.url}/stuck")
            assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) > 0)
            # Whatever waited for the provider would wait until the test's own time is over.
            for n in range(5):
                id_ = await system.accept("hook", f"{server.url}/{n}")
                body = {"to": {"hook": f"{server.url}/api{n}"}, "content": {"text": "hello"}}
                answer = await api.post("/v1/notifications", body)
                assert answer.status == 202
                assert (await system.view(id_))["status"] == "pending"
            assert len(server.ledger.entries) == 1


async def test_B06_b_accepting_without_a_worker_calls_nobody(start: Start, receiver: WebhookReceiver) -> None:
    """The state is stored first: nothing leaves until a worker runs, and then all of it does."""
    system = await start(hook=webhook())
    ids = [await system.accept("hook", f"{receiver.url}/{n}") for n in range(3)]
    assert receiver.ledger.entries == []
    await system.reconfigure()
    await system.work()
    assert calls(receiver) == {str(id_): 1 for id_ in ids}


async def everything(system: System) -> list[int]:
    """Rows of all tables that accepting writes."""
    return [await system.count(table) for table in (events, journal, contents, notifications, attempts)]


async def test_B06_c_a_failing_accept_stores_nothing(start: Start) -> None:
    """Refused before the first statement or by the database in the middle: no row remains, the next one works."""
    system = await start(sand={"provider": "sandbox"})
    good = {"to": {"sand": "ada"}, "content": {"text": "hello"}}
    for bad in ({**good, "type": "x" * 65}, {**good, "to": {"pigeon": "x"}}, {**good, "colour": "red"}):
        with pytest.raises(InputError):
            await system.ring.notify(bad)
        with pytest.raises(InputError) as raised:
            await system.ring.notify_many([good, bad])
        assert (raised.value.field or "").startswith("[1]")
    assert await everything(system) == [0] * 5
    for table, condition in (
        ("ringonce_events", "NEW.total > 0"),
        ("ringonce_event_recipients", "NEW.created_at > 0"),
        ("ringonce_contents", "NEW.created_at > 0"),
        ("ringonce_notifications", "NEW.attempts = 0"),
        ("ringonce_dispatch", "NEW.fence = 0"),
    ):
        await system.refuse(table, condition)
        with pytest.raises(RingonceError):
            await system.ring.notify(good)
        with pytest.raises(RingonceError):
            await system.ring.notify_many([good, good])
        assert await everything(system) == [0] * 5, table
        await system.allow(table)
    await system.ring.notify(good)
    assert await everything(system) == [1, 1, 1, 1, 0]


async def test_B06_d_the_send_happens_in_the_background(start: Start, receiver: WebhookReceiver) -> None:
    """A running worker sends what was accepted without being asked, soon after the acceptance."""
    system = await start(hook=webhook())
    async with system.working(system.ring):
        ids = [await system.accept("hook", f"{receiver.url}/{n}") for n in range(3)]
        for id_ in ids:
            await system.ended(id_)
    stamps = [entry.at for entry in receiver.ledger.entries]
    assert len(stamps) == 3
    assert all(later >= earlier for earlier, later in pairwise(stamps))
