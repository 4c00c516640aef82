"""B01 (its FCM half), D04, D06, A06: push to apps and browsers, and what becomes of dead tokens."""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.script import Plan, plan
from ringonce.vendors.webpush import PushService
from tests.requirements.conftest import Facts, Start, System, outcomes

KEY = base64.urlsafe_b64encode(bytes(range(1, 33))).decode()
FIFTY_SECONDS = {"kind": "fixed", "base": "50s", "jitter": 0}
ALERTS = "ringonce_alerts_total"


@cache
def key() -> Any:
    """One key for all servers: making one takes a while."""
    return FcmApi()._key


Api = Callable[..., FcmApi]


@pytest.fixture
def api() -> Iterator[Api]:
    """Start the vendor's server; ``faults`` is its plan in words."""
    started: list[FcmApi] = []

    def begin(*faults: str, **options: Any) -> FcmApi:
        server = FcmApi(plan=plan(faults) if faults else Plan(), **options)
        server._key = key()
        started.append(server.start())
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def browsers() -> Iterator[PushService]:
    """A push service with its browsers."""
    with PushService() as server:
        yield server


def push(server: FcmApi, **more: object) -> Facts:
    """A channel for it."""
    account = json.dumps(server.credentials)
    return {
        "provider": "fcm",
        "credentials": account,
        "base_url": server.url,
        "backoff": FIFTY_SECONDS,
        **more,
    }


def webpush(**more: object) -> Facts:
    """A channel for browsers."""
    return {"provider": "webpush", "vapid_private_key": KEY, "subject": "mailto:ops@example.com", **more}


def sends(server: FcmApi | PushService) -> Counter[str]:
    """Calls per address, those for tokens and subscriptions left out."""
    return Counter(e.address for e in server.ledger.entries if e.address not in {"/token", "/subscribe"})


def grants(server: FcmApi) -> list[str]:
    """What became of each call of the token endpoint."""
    return [entry.verdict for entry in server.ledger.entries if entry.address == "/token"]


async def tell(system: System, recipient: str = "ada", **fields: Any) -> list[UUID]:
    """Accept an event for a recipient; the ids of what it became."""
    body = {"recipients": [recipient], "content": {"title": "Hello", "text": "hello"}, **fields}
    return [brief.id for brief in (await system.ring.notify(body)).notifications]


async def drain(system: System, rounds: int) -> None:
    """Let time pass until all retries are made."""
    for _ in range(rounds):
        await system.work()
        await system.pass_time(86_400)


# --- B01 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "word", "calls"),
    [
        ("503", "NTF_PROVIDER_TRANSIENT", "UNAVAILABLE", 4),
        ("429:retry_after=60", "NTF_PROVIDER_RATE_LIMITED", "QUOTA_EXCEEDED", 6),
        ("400", "NTF_PROVIDER_INVALID_PAYLOAD", "INVALID_ARGUMENT", 1),
        ("403", "NTF_PROVIDER_AUTH", "PERMISSION_DENIED", 1),
        ("404", "NTF_PUSH_TOKEN_INVALID", "UNREGISTERED", 1),
    ],
)
async def test_B01_a_each_class_has_its_budget(
    start: Start, api: Api, fault: str, code: str, word: str, calls: int
) -> None:
    """Unavailable is retried 3 times, quota 5 times, everything else not at all; the provider's own code is kept."""
    server = api(fault)
    system = await start(push=push(server, on_auth="fail"))
    id_ = await system.accept("push", "token-1")
    await drain(system, 8)
    view = await system.view(id_)
    assert (view["status"], view["final"], view["attempts"]) == ("failed", True, calls)
    assert (view["last_error"]["code"], view["last_error"]["provider_code"]) == (code, word)
    assert sends(server) == {"token-1": calls}


async def test_B01_b_unreachable_is_retried_three_times(start: Start, api: Api) -> None:
    """A server that can not be reached is a transient failure; what was taken is not sent again."""
    server = api("close_before_reply")
    system = await start(push=push(server))
    id_ = await system.accept("push", "token-1")
    await drain(system, 6)
    assert ((await system.view(id_))["final"], sends(server)) == (True, {"token-1": 4})


async def test_B01_c_quota_waits_longer(start: Start, api: Api) -> None:
    """A quota waits for the extended backoff, and never less than the minute that it means."""
    server = api("429:first=1")
    system = await start(push=push(server, backoff={**FIFTY_SECONDS, "base": "5s"}))
    id_ = await system.accept("push", "token-1")
    await system.work()
    assert await system.wait(id_) >= 60
    await system.pass_time()
    await system.work()
    assert (await system.view(id_))["status"] == "sent"


async def test_B01_d_who_is_told(start: Start, api: Api) -> None:
    """A refused credential alerts engineers; an invalid argument is a code error in the timeline and alerts nobody."""
    server = api("400:first=1", "403:numbers=2")
    system = await start(push=push(server, on_auth="fail"))
    bad = await system.accept("push", "token-1")
    await system.work()
    assert system.metric(ALERTS) == 0
    assert "code error" in await system.command("explain", str(bad))
    await system.accept("push", "token-1")
    await system.work()
    assert system.metric(ALERTS, kind="auth", channel="push") == 1


async def test_B01_e_a_token_that_is_not_registered_is_cleared(start: Start, api: Api) -> None:
    """The token is gone from the recipient after one call; a bad argument leaves it."""
    server = api("400:address=alive", dead=["gone"])
    system = await start(push=push(server))
    for token in ("gone", "alive"):
        await system.ring.register("ada", "push", token)
    await tell(system)
    await drain(system, 2)
    assert [a.value for a in await system.ring.addresses("ada", "push")] == ["alive"]
    assert sends(server) == {"gone": 1, "alive": 1}


# --- the credential --------------------------------------------------------------------------------------------------


async def test_B01_f_a_grant_comes_before_the_attempt(start: Start, api: Api) -> None:
    """While no token can be had nothing is attempted and the rows wait; one grant then serves them all."""
    server = api("503:first=2,stage=token")
    system = await start(push=push(server))
    ids = [await system.accept("push", f"token-{n}") for n in range(30)]
    await system.work()
    view = await system.view(ids[0])
    assert (view["status"], view["attempts"], view["attempt_list"]) == ("pending", 0, [])
    assert "no credential could be fetched" in await system.command("explain", str(ids[0]))
    assert (sends(server), system.metric(ALERTS)) == ({}, 0)
    for _ in range(3):
        await system.pass_time(60)
        await system.work()
    assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
    assert grants(server) == ["503", "503", "granted"]
    assert set(sends(server).values()) == {1}


async def test_B01_g_a_refused_grant_pauses_the_channel(start: Start, api: Api) -> None:
    """A revoked account pauses the channel with one alert, counts no attempt, and heals when it is good again."""
    server = api()
    server.refuse_grants = True
    system = await start(push=push(server))
    ids = [await system.accept("push", f"token-{n}") for n in range(10)]
    await system.work()
    assert [view["paused"] for view in await system.ring.channels()] == [True]
    assert (system.metric(ALERTS), grants(server), sends(server)) == (1, ["invalid_grant"], {})
    views = [await system.view(id_) for id_ in ids]
    assert {(v["status"], v["attempts"]) for v in views} == {("pending", 0)}
    assert Counter(v["last_error"]["code"] for v in views if v["last_error"]) == {"NTF_PROVIDER_AUTH": 1}
    server.refuse_grants = False
    await system.ring.enable("push")
    await system.work()
    assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}


async def test_B01_h_a_refused_grant_may_fail(start: Start, api: Api) -> None:
    """Under on_auth = fail a refused grant ends what waits, without a call, and alerts."""
    server = api()
    server.refuse_grants = True
    system = await start(push=push(server, on_auth="fail"))
    id_ = await system.accept("push", "token-1")
    await system.work()
    view = await system.view(id_)
    assert (view["status"], view["final"], view["attempts"]) == ("failed", True, 0)
    assert (view["last_error"]["code"], sends(server)) == ("NTF_PROVIDER_AUTH", {})
    assert system.metric(ALERTS, kind="auth") == 1


async def test_B01_i_an_expired_token_heals(start: Start, api: Api) -> None:
    """A 401 for our own token fetches a fresh one and sends at once: no alert, no pause, no budget used."""
    server = api("401:numbers=2")
    system = await start(push=push(server, on_auth="fail", budgets={"transient": 0}))
    async with system.working(system.ring):
        first = await system.accept("push", "token-1")
        await system.ended(first)
        second = await system.accept("push", "token-2")
        await system.ended(second)
    view = await system.view(second)
    assert (view["status"], view["attempts"], outcomes(view)) == ("sent", 1, ["auth", "accepted"])
    assert (grants(server), system.metric(ALERTS)) == (["granted", "granted"], 0)


async def test_B01_j_healing_is_tried_once(start: Start, api: Api) -> None:
    """A fresh token that is refused as well is a refused credential: the channel pauses and a person is told."""
    server = api("401")
    system = await start(push=push(server))
    id_ = await system.accept("push", "token-1")
    await system.work()
    view = await system.view(id_)
    assert (view["status"], view["attempts"], outcomes(view)) == ("pending", 0, ["auth", "auth"])
    assert (sends(server), system.metric(ALERTS, kind="auth")) == ({"token-1": 2}, 1)
    assert [view["paused"] for view in await system.ring.channels()] == [True]


async def test_B01_m_a_whole_wave_heals_by_one_grant(start: Start, api: Api) -> None:
    """All calls that are refused together for one expired token go out again with one fresh one, each once."""
    server = api()
    system = await start(push=push(server, concurrency=20))
    async with system.working(system.ring):
        await system.ended(await system.accept("push", "token-0"))
        server.revoke()
        ids = [await system.accept("push", f"token-{n}") for n in range(1, 16)]
        for id_ in ids:
            await system.ended(id_)
    assert {(await system.view(id_))["attempts"] for id_ in ids} == {1}
    assert (grants(server), system.metric(ALERTS)) == (["granted", "granted"], 0)
    assert max(sends(server).values()) <= 2
    assert len(server.messages) == 16


async def test_B01_k_a_test_send_fetches_its_own(start: Start, api: Api) -> None:
    """`channels test` shows whether credentials and device work, and a refused grant as what it is."""
    server = api("503:first=1")
    system = await start(push=push(server))
    assert (await system.ring.test("push", "token-1")).outcome.provider_code == "UNAVAILABLE"
    assert (await system.ring.test("push", "token-1")).outcome.cls == "accepted"
    server.refuse_grants = True
    assert (await system.ring.test("push", "token-1")).outcome.provider_code == "invalid_grant"


async def test_B01_l_a_repeat_replaces(start: Start, api: Api) -> None:
    """A call whose answer was lost is made again under the same tag, so that the phone shows one."""
    server = api("accept_then_close:first=1")
    system = await start(push=push(server))
    id_ = await system.accept("push", "token-1")
    await drain(system, 2)
    tags = {message["android"]["notification"]["tag"] for message in server.messages}
    assert ((await system.view(id_))["status"], tags, len(server.messages)) == ("sent", {str(id_)}, 2)


# --- D04 -------------------------------------------------------------------------------------------------------------


async def test_D04_one_subscription_for_each_device(start: Start, browsers: PushService) -> None:
    """Every browser of a person gets its own copy, signed by our key and readable by that browser alone."""
    system = await start(web=webpush())
    public = system.ring.engine.channels.all()["web"].provider.public_key  # type: ignore[attr-defined]
    laptop, phone = browsers.subscribe(public), browsers.subscribe(public)
    for subscription in (laptop, phone, json.loads(json.dumps(laptop))):
        await system.ring.register("ada", "web", subscription)
    ids = await tell(system, content={"title": "Hi", "text": "5 новых", "data": {"url": "/d/7"}})
    assert len(ids) == 2
    await system.work()
    for subscription in (laptop, phone):
        (payload,) = browsers.browser(subscription).received
        assert payload.pop("tag") in map(str, ids)
        assert payload == {"title": "Hi", "body": "5 новых", "data": {"url": "/d/7"}}


async def test_D04_b_inline_and_direct(start: Start, browsers: PushService) -> None:
    """A subscription is given with the event as well: for the recipient, or in place of one."""
    system = await start(web=webpush())
    one, two = browsers.subscribe(), browsers.subscribe()
    await system.ring.notify(
        recipients=[{"id": "ada", "addresses": {"web": [one]}}], content={"text": "hello"}
    )
    id_ = await system.accept("web", two)
    await system.work()
    assert [len(browsers.browser(s).received) for s in (one, two)] == [1, 1]
    shown = json.dumps(await system.view(id_)) + await system.command("explain", str(id_))
    assert two["keys"]["auth"] not in shown
    assert not re.search(r"/push/2-\w{6}", shown)


# --- D06 -------------------------------------------------------------------------------------------------------------


async def test_D06_a_dead_subscription_is_deleted(start: Start, browsers: PushService) -> None:
    """After 410 the subscription is gone, the dead endpoint is not called again, and the others go on."""
    system = await start(web=webpush())
    dead, alive = browsers.subscribe(), browsers.subscribe()
    for subscription in (dead, alive):
        await system.ring.register("ada", "web", subscription)
    browsers.unsubscribe(dead)
    before = await tell(system)
    await drain(system, 3)
    after = await tell(system)
    await drain(system, 3)
    assert (len(before), len(after)) == (2, 1)
    views = {v["status"]: v for v in [await system.view(id_) for id_ in before]}
    assert (views["failed"]["final"], views["failed"]["attempts"]) == (True, 1)
    assert views["failed"]["last_error"]["code"] == "NTF_PUSH_TOKEN_INVALID"
    calls = sends(browsers)
    assert [calls[s["endpoint"].removeprefix(browsers.url)] for s in (dead, alive)] == [1, 2]


@pytest.mark.parametrize(
    ("fault", "kept"),
    [("401", True), ("403", True), ("500", True), ("429", True), ("404", False), ("410", False)],
)
async def test_D06_b_on_proof_only(start: Start, fault: str, kept: bool) -> None:
    """404 and 410 delete a subscription; a refused signature, a limit and a failure never do."""
    with PushService(plan=plan([fault])) as browsers:
        system = await start(web=webpush())
        await system.ring.register("ada", "web", browsers.subscribe())
        await tell(system)
        await system.work()
        assert bool(await system.ring.addresses("ada", "web")) is kept


async def test_D06_c_one_endpoint_stops_nobody(start: Start) -> None:
    """An endpoint that refuses our signature waits alone, and the others are told in the meantime."""
    with PushService(plan=plan(["403:address=/push/1-*"])) as browsers:
        system = await start(web=webpush())
        bad, good = browsers.subscribe(), browsers.subscribe()
        first = await system.accept("web", bad)
        await system.work()
        second = await system.accept("web", good)
        await system.work()
        assert (await system.view(first))["status"] == "pending"
        assert (await system.view(second))["status"] == "sent"


# --- A06 -------------------------------------------------------------------------------------------------------------


async def test_A06_a_dead_token_is_never_used_again(start: Start, api: Api) -> None:
    """It is not selected for new events, not listed, not called for what waited; the row keeps reason and date."""
    server = api(dead=["gone"])
    system = await start(push=push(server))
    for token in ("gone", "alive"):
        await system.ring.register("ada", "push", token)
    waiting = await tell(system, send_at="2099-01-01T00:00:00Z")
    (first, _) = await tell(system)
    await system.work()
    assert (await system.view(first))["final"]
    assert [a.value for a in await system.ring.addresses("ada", "push")] == ["alive"]
    assert len(await tell(system)) == 1
    await system.pass_time(100 * 365 * 86_400)
    await drain(system, 2)
    assert sends(server) == {"gone": 1, "alive": 3}
    last = next(v for v in [await system.view(id_) for id_ in waiting] if v["status"] == "failed")
    assert (last["final"], last["attempts"]) == (True, 0)
    assert last["last_error"]["code"] == "NTF_PUSH_TOKEN_INVALID"
    row = next(a for a in await system.ring.addresses("ada", "push", invalidated=True) if a.value == "gone")
    assert (row.reason, row.invalidated_at is not None) == ("NTF_PUSH_TOKEN_INVALID", True)


async def test_A06_b_a_token_that_is_registered_again_lives(start: Start, api: Api) -> None:
    """The app registers the same token anew: it is used again, since the proof is older."""
    server = api(dead=["token-1"])
    system = await start(push=push(server))
    await system.ring.register("ada", "push", "token-1")
    await tell(system)
    await system.work()
    assert await system.ring.addresses("ada", "push") == []
    server.dead.clear()
    await system.ring.register("ada", "push", "token-1")
    (id_,) = await tell(system)
    await system.work()
    assert (await system.view(id_))["status"] == "sent"
