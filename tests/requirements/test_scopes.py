"""B01 (who is stopped by a refusal, and who is told), A07 (a part that is not served): only what is broken pauses."""

import json
from collections import Counter

import sqlalchemy as sa

from ringonce.store.schema import lanes
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.script import Fault, Plan, Rule, plan
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.webhook import WebhookReceiver
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.requirements.conftest import SECRET, Facts, Start, System, outcomes, started, webhook

ALERTS = "ringonce_alerts_total"
NUMBER = "106540352242922"
GERMAN, JAMAICAN, AMERICAN = "+491701234567", "+18765550123", "+12125550123"


def whatsapp(server: WhatsAppApi, **more: object) -> Facts:
    """A channel for it."""
    return {
        "provider": "whatsapp",
        "token": "t",
        "phone_number_id": NUMBER,
        "base_url": server.url,
        **more,
    }


def sms(server: TwilioApi, sender: str = "+15005550006", **more: object) -> Facts:
    """A channel that sends by this number."""
    return {
        "provider": "twilio",
        "account_sid": "AC1",
        "auth_token": "t",
        "from": sender,
        "base_url": server.url,
        **more,
    }


def template(name: str) -> Facts:
    """Content that is sent by this template."""
    return {"text": name, "data": {"template": {"name": name, "language": "en"}}}


def said(server: WhatsAppApi | TwilioApi | FcmApi) -> Counter[str]:
    """Calls per address."""
    return Counter(entry.address for entry in server.ledger.entries if entry.address != "/token")


async def scopes(system: System, channel: str) -> dict[str, str]:
    """The parts of a channel that are paused, with their reasons."""
    views: list[Facts] = await system.ring.channels()
    return {one["scope"]: one["reason"] for v in views if v["name"] == channel for one in v["scopes"]}


async def probe_is_due(system: System) -> None:
    """The five minutes are over."""
    await system.sql(lambda c: c.execute(sa.update(lanes).where(lanes.c.paused).values(paused_until=1)))


async def test_A07_d_a_paused_template_stops_no_other(start: Start) -> None:
    """One refused call pauses the template: later messages of it make no call, those of another are sent."""
    with WhatsAppApi("t", NUMBER, paused=["sale"]) as server:
        system = await start(wa=whatsapp(server))
        first = await system.accept("wa", "+491700000001", content=template("sale"))
        await system.work()
        assert await scopes(system, "wa") == {"template:sale": "not_implemented"}
        later = [
            await system.accept("wa", f"+49170000001{n}", content=template(name))
            for n, name in enumerate(("sale", "sale", "receipt"))
        ]
        await system.work()
        views = [await system.view(id_) for id_ in (first, *later)]
        assert [view["status"] for view in views] == ["pending", "pending", "pending", "sent"]
        assert [view["attempts"] for view in views] == [0, 0, 0, 1]
        assert said(server) == {"+491700000001": 1, "+491700000012": 1}
        assert "template sale is paused (not_implemented)" in await system.command("explain", str(later[0]))
        assert system.metric(ALERTS, kind="scope_paused", channel="wa") == 1
        listed = json.loads(await system.command("channels", "list", "--json"))
        assert (listed[0]["paused"], listed[0]["scopes"][0]["scope"]) == (False, "template:sale")


async def test_A07_e_one_call_tries_a_template_again(start: Start) -> None:
    """After five minutes one message tries: refused, nobody is told; taken, it brings the others and an all-clear."""
    with WhatsAppApi("t", NUMBER, paused=["sale"]) as server:
        system = await start(wa=whatsapp(server, concurrency=1))
        ids = []
        for n in range(4):
            ids.append(await system.accept("wa", f"+49170000001{n}", content=template("sale")))
            await system.work()
        assert len(server.ledger.entries) == 1
        await probe_is_due(system)
        await system.work()
        assert len(server.ledger.entries) == 2
        assert system.metric(ALERTS, kind="scope_paused") == 1
        server.paused.clear()
        await probe_is_due(system)
        async with system.working(system.ring):
            for id_ in ids:
                await system.ended(id_)
        assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
        assert (len(server.ledger.entries), await scopes(system, "wa")) == (6, {})
        assert system.metric(ALERTS, kind="resumed", channel="wa") == 1


async def test_A07_f_a_person_resumes_one_part(start: Start) -> None:
    """`channels enable --scope` lets one part go on and leaves the others; what is not paused is named."""
    with WhatsAppApi("t", NUMBER, paused=["sale", "news"]) as server:
        system = await start(wa=whatsapp(server))
        ids = {name: await system.accept("wa", GERMAN, content=template(name)) for name in ("sale", "news")}
        await system.work()
        server.paused.clear()
        await system.command("channels", "enable", "wa", "--scope", "template:x", code=3)
        await system.command("channels", "enable", "wa", "--scope", "template:sale")
        await system.work()
        assert (await system.view(ids["sale"]))["status"] == "sent"
        assert await scopes(system, "wa") == {"template:news": "not_implemented"}
        await system.command("channels", "enable", "wa")
        await system.work()
        assert (await system.view(ids["news"]))["status"] == "sent"


async def test_B01_t_a_closed_country_stops_no_other(start: Start) -> None:
    """A country that the account may not send to waits as a whole; its neighbour in the same zone is told."""
    with TwilioApi("AC1", "t", closed=["+1876"]) as server:
        system = await start(sms=sms(server))
        first = await system.accept("sms", JAMAICAN)
        await system.work()
        second = await system.accept("sms", "+18765550124")
        others = [await system.accept("sms", number) for number in (AMERICAN, GERMAN)]
        await system.work()
        assert await scopes(system, "sms") == {"country:1876": "auth"}
        assert [(await system.view(id_))["status"] for id_ in (first, second)] == ["pending", "pending"]
        assert {(await system.view(id_))["status"] for id_ in others} == {"sent"}
        assert said(server) == {JAMAICAN: 1, AMERICAN: 1, GERMAN: 1}
        assert system.metric(ALERTS, kind="auth", channel="sms") == 1


async def test_B01_u_a_refused_sender_stops_its_channel(start: Start) -> None:
    """A sender that may not send pauses its channel, and not the one of the same account that sends by another."""
    refused = Fault("status", 400, body=b'{"code": 21606, "message": "x", "status": 400}')
    with TwilioApi("AC1", "t", plan=Plan((Rule(refused),))) as bad, TwilioApi("AC1", "t") as good:
        system = await start(one=sms(bad, account="a"), two=sms(good, "+15005550007", account="a"))
        first, second = await system.accept("one", GERMAN), await system.accept("two", GERMAN)
        await system.work()
        third = await system.accept("one", AMERICAN)
        await system.work()
        assert [(await system.view(id_))["status"] for id_ in (first, second, third)] == [
            "pending",
            "sent",
            "pending",
        ]
        assert len(bad.ledger.entries) == 1
        assert {v["name"]: v["paused"] for v in await system.ring.channels()} == {"one": True, "two": False}


async def test_B01_v_what_only_an_answer_tells(start: Start) -> None:
    """Which platform a device is of nobody knows beforehand: each refused device waits after one call, others go on."""
    refused = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "x", "details": [
        {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "THIRD_PARTY_AUTH_ERROR"}
    ]}}  # fmt: skip
    fault = Fault("status", 401, body=json.dumps(refused).encode())
    with FcmApi(plan=Plan((Rule(fault, address="ios-*"),))) as server:
        channel = {"provider": "fcm", "credentials": json.dumps(server.credentials), "base_url": server.url}
        system = await start(push=channel)
        for token in ("ios-1", "android-1", "ios-2", "android-2"):
            await system.accept("push", token)
            await system.work()
        assert await scopes(system, "push") == {"platform": "auth"}
        assert said(server) == {"ios-1": 1, "android-1": 1, "ios-2": 1, "android-2": 1}
        assert system.metric(ALERTS, kind="auth", channel="push") == 1


async def test_B01_w_an_endpoint_waits_by_itself(start: Start) -> None:
    """An endpoint that refuses us is called once for all that waits for it; its neighbours on the host are told."""
    with WebhookReceiver([SECRET], plan=plan(["401:address=/bad"])) as server:
        system = await start(hook=webhook())
        ids = []
        for path in ("bad", "bad", "bad", "good"):
            ids.append(await system.accept("hook", f"{server.url}/{path}"))
            await system.work()
        assert [(await system.view(id_))["status"] for id_ in ids] == ["pending"] * 3 + ["sent"]
        assert Counter(entry.address for entry in server.ledger.entries) == {"/bad": 1, "/good": 1}
        (scope,) = await scopes(system, "hook")
        assert scope.startswith("endpoint:127.0.0.1#")
        assert "bad" not in scope
        assert system.metric(ALERTS, kind="auth", channel="hook") == 1


async def test_B01_x_one_alert_however_many_calls(start: Start) -> None:
    """Calls that were under way together when a credential was refused alert once; the probe that fails does not."""
    with WhatsAppApi("other", NUMBER) as server:
        system = await start(wa=whatsapp(server, concurrency=20))
        for n in range(10):
            await system.accept("wa", f"+49170000001{n}")
        await system.work()
        assert len(server.ledger.entries) > 1
        assert system.metric(ALERTS, kind="auth", channel="wa") == 1
        await probe_is_due(system)
        before = len(server.ledger.entries)
        await system.work()
        assert len(server.ledger.entries) == before + 1
        assert system.metric(ALERTS, kind="auth", channel="wa") == 1


async def test_B01_y_another_worker_knows_at_once(start: Start, store_url: str) -> None:
    """What one worker has learnt of a template the next one keeps to with its first claim."""
    with WhatsAppApi("t", NUMBER, paused=["sale"]) as server:
        system = await start(wa=whatsapp(server))
        await system.accept("wa", GERMAN, content=template("sale"))
        await system.work()
        other = await started(system.config)
        try:
            waits = await system.accept("wa", AMERICAN, content=template("sale"))
            goes = await system.accept("wa", AMERICAN, content=template("news"))
            async with system.working(other):
                await system.ended(goes)
                await system.until(system.idle)
        finally:
            await other.close()
        view = await system.view(waits)
        assert (view["status"], outcomes(view)) == ("pending", [])
        assert len(server.ledger.entries) == 2


async def test_B01_z_a_refused_country_may_be_the_recipients(start: Start) -> None:
    """WhatsApp's refusal of a country ends that message and stops nobody."""
    with WhatsAppApi("t", NUMBER, refused={GERMAN: "130497"}) as server:
        system = await start(wa=whatsapp(server))
        ended = await system.accept("wa", GERMAN)
        await system.work()
        sent = await system.accept("wa", "+491701234568")
        await system.work()
        assert [(await system.view(id_))["status"] for id_ in (ended, sent)] == ["failed", "sent"]
        assert await scopes(system, "wa") == {}
