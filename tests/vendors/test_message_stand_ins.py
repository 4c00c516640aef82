"""The stand-ins of APNs, Twilio, Vonage and Wildberries, called through the real wire by our providers."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringonce.provider import Context, HttpAnswer, HttpRequest, Outcome, Provider
from ringonce.providers.apns import Apns, ApnsOptions
from ringonce.providers.twilio import Twilio, TwilioOptions
from ringonce.providers.vonage import Vonage, VonageOptions
from ringonce.providers.wildberries import Wildberries, WildberriesOptions
from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.ledger import read_ledger
from ringonce.vendors.script import plan
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.vonage import VonageApi
from ringonce.vendors.wildberries import WildberriesApi
from tests.providers.samples import ID, address, content, message
from tests.vendors.conftest import Ask, program, status

DEVICE, GONE, FOREIGN = "0a" * 32, "0b" * 32, "0c" * 32
NUMBER = "+447700900123"
SECOND = 1_000_000


def now(shift: int = 0) -> Context:
    """The present, or so many seconds later."""
    return Context(now=time.time_ns() // 1_000 + shift * SECOND, timeout=30.0)


def built(provider: Provider, to: str, at: Context | None = None, **more: Any) -> HttpRequest:
    """The provider's call, with time enough for a machine that stalls."""
    request = provider.request(message(**more), address(to), at or now())
    assert isinstance(request, HttpRequest)
    return replace(request, connect_timeout=30.0)


async def said(call: Ask, provider: Provider, to: str, **more: Any) -> Outcome:
    """What the provider makes of the answer."""
    [answer] = await call(built(provider, to, **more))
    return provider.outcome(answer, now())


# --- APNs --------------------------------------------------------------------------------------------------------


def apns(server: ApnsApi, **more: str) -> Apns:
    """A client with the stand-in's key."""
    options = {"key": server.key, "key_id": server.key_id, "team_id": server.team_id, "topic": server.topic}
    return Apns(ApnsOptions(**{**options, "base_url": server.url, **more}))


async def test_a_push_is_shown_once(call: Ask) -> None:
    """A repeat under the same reference replaces what the device shows."""
    with ApnsApi() as server:
        for text in ("first", "second"):
            outcome = await said(call, apns(server), DEVICE, said=content(text=text))
            assert (outcome.cls, outcome.message_id) == ("accepted", str(ID))
        [shown] = server.shown[DEVICE].values()
        assert shown["aps"]["alert"]["body"] == "second"
        assert server.ledger.accepted() == {(str(ID), DEVICE): 2}


async def test_a_dead_device_is_told(call: Ask) -> None:
    """One whose app is gone is dropped with a dated proof, one of the other environment without a date."""
    with ApnsApi(dead=[GONE], foreign=[FOREIGN]) as server:
        gone = await said(call, apns(server), GONE)
        assert (gone.provider_code, gone.drop_address) == ("Unregistered", True)
        assert gone.proof_at == server.died_at * 1_000
        foreign = await said(call, apns(server), FOREIGN)
        assert (foreign.provider_code, foreign.drop_address, foreign.proof_at) == (
            "BadDeviceToken",
            True,
            None,
        )


async def test_tokens_are_verified(call: Ask) -> None:
    """Another key, team or time, and no token at all, are refused."""
    with ApnsApi() as server:
        good = built(apns(server), DEVICE)
        bare = tuple((name, value) for name, value in good.headers if name != "authorization")
        requests = [
            (built(apns(server, key=ApnsApi().key), DEVICE), "InvalidProviderToken"),
            (built(apns(server, team_id="OTHERTEAM1"), DEVICE), "InvalidProviderToken"),
            (built(apns(server), DEVICE, now(-7_200)), "ExpiredProviderToken"),
            (built(apns(server), DEVICE, now(7_200)), "ExpiredProviderToken"),
            (replace(good, headers=bare), "MissingProviderToken"),
            (replace(good, headers=(*bare, ("authorization", "bearer a.b.!"))), "InvalidProviderToken"),
        ]
        for request, reason in requests:
            [answer] = await call(request)
            assert (status(answer), Apns.outcome(answer, now()).provider_code) == (403, reason)


async def test_workers_share_a_token(call: Ask) -> None:
    """Any number of workers over hours never change their team's token too often; one that goes its own way does."""
    clock = [1_767_225_600.0]
    with ApnsApi(clock=lambda: clock[0]) as server:
        for _ in range(18):
            at = Context(now=int(clock[0]) * SECOND, timeout=30.0)
            answers = await call(*(built(apns(server), DEVICE, at) for _ in range(3)))
            assert [status(answer) for answer in answers] == [200] * 3
            clock[0] += 601
        away = apns(server)
        away._token = lambda at: apns(server)._token(at + 7)  # type: ignore[assignment, method-assign]
        [answer] = await call(built(away, DEVICE, Context(now=int(clock[0]) * SECOND, timeout=30.0)))
        outcome = Apns.outcome(answer, now())
        assert (outcome.cls, outcome.provider_code) == ("auth", "TooManyProviderTokenUpdates")


@pytest.mark.parametrize(
    ("header", "value", "reason"),
    [
        ("apns-topic", None, "MissingTopic"),
        ("apns-topic", "com.example.other", "DeviceTokenNotForTopic"),
        ("apns-push-type", "odd", "InvalidPushType"),
        ("apns-priority", "7", "BadPriority"),
        ("apns-expiration", "soon", "BadExpirationDate"),
        ("apns-collapse-id", "x" * 65, "BadCollapseId"),
        ("body", "{}", "PayloadEmpty"),
        ("body", "no JSON", "PayloadEmpty"),
        ("body", "x" * 4_097, "PayloadTooLarge"),
        ("url", "/3/devices/", "BadPath"),
        ("url", "/3/device/xyz", "BadDeviceToken"),
        ("method", "GET", "MethodNotAllowed"),
    ],
)
async def test_a_bad_push_is_told(call: Ask, header: str, value: str | None, reason: str) -> None:
    """What the service asks for is checked, and nobody is told."""
    with ApnsApi() as server:
        request = built(apns(server), DEVICE)
        if header in {"body", "url", "method"}:
            assert value is not None
            changed: dict[str, Any] = {"body": value.encode(), "url": server.url + value, "method": value}
            request = replace(request, **{header: changed[header]})
        else:
            headers = {**dict(request.headers), header: value}
            request = replace(request, headers=tuple((k, v) for k, v in headers.items() if v is not None))
        [answer] = await call(request)
        assert isinstance(answer, HttpAnswer)
        assert json.loads(answer.body)["reason"] == reason
        assert server.ledger.accepted() == {}


# --- short messages ----------------------------------------------------------------------------------------------


def twilio(server: TwilioApi, **more: str) -> Twilio:
    """A client of the stand-in."""
    options = {"account_sid": "AC1", "auth_token": "t", "from_": "+15005550006", "base_url": server.url}
    return Twilio(TwilioOptions(**{**options, **more}))


async def test_a_short_message_is_queued(call: Ask) -> None:
    """It gets an id, and stands in the ledger under the reference that reports will carry, else under its text."""
    with TwilioApi("AC1", "t") as server:
        outcome = await said(call, twilio(server, status_callback="https://a.example/cb"), NUMBER)
        assert outcome.message_id == server.messages[0]["sid"]
        await said(call, twilio(server), NUMBER)
        assert server.ledger.accepted() == {(str(ID), NUMBER): 1, ("It is on its way.", NUMBER): 1}


async def test_a_refused_short_message_is_told(call: Ask) -> None:
    """STOP, a number that there is not, wrong credentials, another account, no sender, no text, a long text."""
    with TwilioApi("AC1", "t", stopped=["+447700900001"], invalid=["+447700900002"]) as server:
        good = built(twilio(server), NUMBER)
        assert (await said(call, twilio(server), "+447700900001")).provider_code == "21610"
        assert (await said(call, twilio(server), "+447700900002")).provider_code == "21211"
        assert (await said(call, twilio(server, auth_token="x"), NUMBER)).provider_code == "20003"
        for request, code in (
            (replace(good, url=good.url.replace("AC1", "AC2")), "20404"),
            (replace(good, body=b"To=1&Body=x"), "21603"),
            (replace(good, body=b"To=1&From=2"), "21602"),
            (replace(good, body=b"To=1&From=2&Body=" + b"x" * 1_601), "21617"),
        ):
            [answer] = await call(request)
            assert Twilio.outcome(answer, now()).provider_code == code
        assert server.messages == []


def vonage(server: VonageApi, **more: str) -> Vonage:
    """A client of the stand-in."""
    options = {"api_key": "k", "api_secret": "s", "from_": "Acme", "base_url": server.url}
    return Vonage(VonageOptions(**{**options, **more}))


async def test_each_part_has_an_entry(call: Ask) -> None:
    """A long text is answered part by part; taken in part it is no verdict."""
    cut = "+447700900003"
    with VonageApi("k", "s", cut=[cut[1:]]) as server:
        [answer] = await call(built(vonage(server), NUMBER, said=content(text="x" * 307)))
        assert isinstance(answer, HttpAnswer)
        assert [entry["status"] for entry in json.loads(answer.body)["messages"]] == ["0"] * 3
        outcome = await said(call, vonage(server), cut, said=content(text="ж" * 71))
        assert (outcome.cls, outcome.ambiguous) == ("transient", True)
        assert server.ledger.accepted() == {(str(ID), NUMBER[1:]): 1, (str(ID), cut[1:]): 1}


async def test_a_refusal_inside_success_is_told(call: Ask) -> None:
    """HTTP says 200; barred, unroutable, wrong secret and nothing to say are told inside, another path is not."""
    with VonageApi("k", "s", barred=["447700900001"], unroutable=["447700900002"]) as server:
        assert (await said(call, vonage(server), "+447700900001")).cls == "blocked"
        assert (await said(call, vonage(server), "+447700900002")).cls == "invalid_recipient"
        assert (await said(call, vonage(server, api_secret="x"), NUMBER)).cls == "auth"
        good = built(vonage(server), NUMBER)
        [answer] = await call(replace(good, body=b"api_key=k&api_secret=s&to=1&from=2"))
        assert (status(answer), Vonage.outcome(answer, now()).provider_code) == (200, "2")
        [answer] = await call(replace(good, url=f"{server.url}/sms/xml"))
        assert status(answer) == 404
        assert server.messages == []


# --- answers to customers ----------------------------------------------------------------------------------------


def seller(server: WildberriesApi, token: str = "t") -> Wildberries:
    """A client of the stand-in."""
    return Wildberries(WildberriesOptions(token=token, base_url=server.url))


def reading(server: WildberriesApi, kind: str, id_: str) -> HttpRequest:
    """Ask what is published."""
    url = f"{server.url}/api/v1/{kind}?id={id_}"
    return HttpRequest("GET", url, (("authorization", "t"),), timeout=30.0, connect_timeout=30.0)


@pytest.mark.parametrize(("kind", "code"), [("feedback", 204), ("question", 200)])
async def test_an_answer_is_published(call: Ask, kind: str, code: int) -> None:
    """It can be read, a second one uses up the only change, and a third changes nothing."""
    with WildberriesApi("t", feedbacks=["a1"], questions=["a1"]) as server:
        for text, editable in (("first", True), ("second", False), ("third", False)):
            [answer] = await call(built(seller(server), f"{kind}:a1", said=content(text=text)))
            assert status(answer) == code
            [answer] = await call(reading(server, kind, "a1"))
            assert isinstance(answer, HttpAnswer)
            told = json.loads(answer.body)["data"]["answer"]
            assert told == {"text": "first" if editable else "second", "editable": editable}
        assert server.published == {(kind, "a1"): 2}
        assert server.ledger.accepted() == {("first", f"{kind}:a1"): 1, ("second", f"{kind}:a1"): 1}


async def test_a_published_answer_is_changed_once(call: Ask) -> None:
    """PATCH changes what is published, once; without an answer there is nothing to change, and 204 all the same."""
    with WildberriesApi("t", feedbacks=["a1"]) as server:
        to = "feedback:a1"
        changed = [
            built(seller(server), to, said=content(text=t), replaces=True) for t in ("zero", "two", "three")
        ]
        first = built(seller(server), to, said=content(text="one"))
        for request in (changed[0], first, *changed[1:]):
            [answer] = await call(request)
            assert status(answer) == 204
        assert server.answers == {("feedback", "a1"): "two"}
        assert server.ledger.accepted() == {("one", to): 1, ("two", to): 1}


async def test_an_unanswered_feedback_says_so(call: Ask) -> None:
    """Before an answer is published there is none to read; what there is not can not be read."""
    with WildberriesApi("t", feedbacks=["a1"]) as server:
        answers = await call(reading(server, "feedback", "a1"), reading(server, "feedback", "a2"))
        assert [status(answer) for answer in answers] == [200, 422]
        assert isinstance(answers[0], HttpAnswer)
        assert json.loads(answers[0].body)["data"]["answer"] is None


async def test_a_bad_answer_is_told(call: Ask) -> None:
    """An id of a question is looked at, that of a feedback is not; token, length and path are."""
    with WildberriesApi("t") as server:
        unknown = await said(call, seller(server), "feedback:a1")
        assert unknown.cls == "accepted"
        assert server.ledger.accepted() == {}
        gone = await said(call, seller(server), "question:a1")
        assert (gone.cls, gone.drop_address) == ("invalid_recipient", False)
        assert (await said(call, seller(server, "x"), "question:a1")).cls == "auth"
        good = built(seller(server), "question:a1")
        for request, code in (
            (replace(good, body=b'{"id":"a1","answer":{"text":"x"}}'), 400),
            (replace(good, body=b'{"id":"a1","answer":"x"}'), 400),
            (replace(good, url=f"{server.url}/api/v1/chats"), 404),
        ):
            [answer] = await call(request)
            assert status(answer) == code


# --- all of them -------------------------------------------------------------------------------------------------


def all_of_them() -> list[tuple[Callable[..., Any], Callable[[Any], Provider], str, int, str]]:
    """How each is made, its client, an address, what it says instead of 429, and the class of that."""
    return [
        (ApnsApi, apns, DEVICE, 429, "rate_limited"),
        (lambda **more: TwilioApi("AC1", "t", **more), twilio, NUMBER, 429, "rate_limited"),
        (lambda **more: VonageApi("k", "s", **more), vonage, NUMBER, 200, "rate_limited"),
        (
            lambda **more: WildberriesApi("t", feedbacks=["a1"], **more),
            seller,
            "feedback:a1",
            429,
            "rate_limited",
        ),
    ]


@pytest.mark.parametrize(("make", "client", "to", "limited", "cls"), all_of_them())
async def test_faults_in_the_vendors_words(
    call: Ask,
    make: Callable[..., Any],
    client: Callable[[Any], Provider],
    to: str,
    limited: int,
    cls: str,
) -> None:
    """A scripted 429, 503 and a body of one's own come as the vendor would say them; then it works."""
    rules = plan(["429:numbers=1,retry_after=7", "503:numbers=2"])
    own = replace(rules.rules[1], numbers=frozenset({3}))
    own = replace(own, fault=replace(own.fault, status=502, body=b"<html>"))
    with make(plan=replace(rules, rules=(*rules.rules, own))) as server:
        seen = []
        for _ in range(4):
            [answer] = await call(built(client(server), to))
            seen.append((status(answer), str(client(server).outcome(answer, now()).cls)))
        assert seen[0] == (limited, cls)
        assert seen[1:3] == [(503, "transient"), (502, "transient")]
        assert seen[3][1] == "accepted"
        assert [entry.accepted for entry in server.ledger.entries] == [False, False, False, True]


@pytest.mark.parametrize(
    ("name", "arguments", "client", "to"),
    [
        (
            "twilio",
            ("--account", "AC1", "--token", "t", "--stopped", "+447700900001"),
            twilio,
            NUMBER,
        ),
        ("vonage", ("--key", "k", "--secret", "s", "--barred", "447700900001"), vonage, NUMBER),
        ("wildberries", ("--token", "t", "--feedback", "a1", "--question", "a2"), seller, "feedback:a1"),
    ],
)
async def test_as_a_program(
    call: Ask,
    tmp_path: Path,
    name: str,
    arguments: tuple[str, ...],
    client: Callable[[Any], Provider],
    to: str,
) -> None:
    """The program prints its port, fails as told, and writes its ledger."""
    ledger = tmp_path / "ledger.jsonl"
    with program(name, *arguments, "--ledger", str(ledger), "--fault", "503:first=1") as port:

        class Where:
            url = f"http://127.0.0.1:{port}"

        seen = [str((await said(call, client(Where()), to)).cls) for _ in range(2)]
        assert seen == ["transient", "accepted"]
    assert [entry.accepted for entry in read_ledger(ledger)] == [False, True]


async def test_apns_as_a_program(call: Ask, tmp_path: Path) -> None:
    """The program writes its key before its port."""
    file = tmp_path / "key.p8"
    with program("apns", "--key", str(file), "--dead", GONE) as port:
        options = {"key": file.read_text("ascii"), "key_id": ApnsApi.key_id, "team_id": ApnsApi.team_id}
        base = f"http://127.0.0.1:{port}"
        provider = Apns(ApnsOptions(**options, topic="com.example.app", base_url=base))
        assert (await said(call, provider, DEVICE)).cls == "accepted"
        assert (await said(call, provider, GONE)).drop_address
