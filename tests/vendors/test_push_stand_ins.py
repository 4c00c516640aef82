"""The push stand-ins, called through the real wire by what their vendors' clients send."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringonce.model.exchange import HttpAnswer, HttpRequest
from ringonce.provider import Context, Credential
from ringonce.providers.fcm import Fcm, FcmOptions
from ringonce.providers.webpush import WebPush, WebPushOptions
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.ledger import read_ledger
from ringonce.vendors.script import plan
from ringonce.vendors.webpush import PushService
from tests.providers.samples import ID, address, content, message
from tests.vendors.conftest import Ask, program, status

KEY = base64.urlsafe_b64encode(bytes(range(1, 33))).decode()


def now() -> Context:
    """The present."""
    return Context(now=time.time_ns() // 1000, entropy=os.urandom)


def told(answer: object) -> Any:
    """The JSON of an answer."""
    assert isinstance(answer, HttpAnswer), answer
    return json.loads(answer.body)


# --- a token first, then messages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keyed() -> FcmApi:
    """One key for all tests: making one takes a while."""
    server = FcmApi()
    assert server.credentials
    return server


@pytest.fixture
def make(keyed: FcmApi) -> Callable[..., FcmApi]:
    """Make a server with that key."""

    def begin(**options: Any) -> FcmApi:
        server = FcmApi(**options)
        server._key = keyed._key
        return server

    return begin


@pytest.fixture
def api(make: Callable[..., FcmApi]) -> Iterator[FcmApi]:
    """A server with a dead token and one of another project."""
    with make(dead=["dead"], mismatched=["foreign"]) as server:
        yield server


def client(server: FcmApi, **changes: str) -> Fcm:
    """The client, whose credentials may have been tampered with."""
    return Fcm(FcmOptions({**server.credentials, **changes}, base_url=server.url))


async def granted(call: Ask, provider: Fcm) -> Context:
    """A context with an access token."""
    [answer] = await call(provider.grant(now()))
    held = provider.granted(answer, now())
    assert isinstance(held, Credential), answer
    return replace(now(), credential=held.value)


async def test_a_message_is_accepted(call: Ask, api: FcmApi) -> None:
    """With a token of its grant a message gets a name, and stands in the ledger under its reference."""
    provider = client(api)
    context = await granted(call, provider)
    [answer] = await call(provider.request(message(content(data={"a": "b"})), address("t1"), context))
    assert told(answer) == {"name": "projects/demo-project/messages/0:1"}
    assert api.ledger.accepted() == {(str(ID), "t1"): 1}
    assert api.messages[0]["data"] == {"a": "b"}


async def test_a_grant_is_verified(call: Ask, api: FcmApi, make: Callable[..., FcmApi]) -> None:
    """Another key, issuer, audience, time or kind of grant brings no token; nor does a revoked account."""
    good = client(api)
    stale = Context(now=(time.time_ns() // 1000) - 7_200_000_000)
    early = Context(now=(time.time_ns() // 1000) + 7_200_000_000)
    other = FcmApi().credentials["private_key"]
    requests = [
        client(api, private_key=other).grant(now()),
        client(api, client_email="mallory@example.com").grant(now()),
        replace(client(api, token_uri=f"{api.url}/other").grant(now()), url=f"{api.url}/token"),
        good.grant(stale),
        good.grant(early),
        replace(good.grant(now()), body=b"grant_type=password"),
        replace(good.grant(now()), body=good.grant(now()).body[:200]),
        replace(good.grant(now()), body=good.grant(now()).body + b"%21"),
    ]
    for request in requests:
        [answer] = await call(request)
        assert status(answer) == 400
    api.refuse_grants = True
    [answer] = await call(good.grant(now()))
    assert told(answer)["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("to", "code", "name", "detail"),
    [
        ("dead", 404, "NOT_FOUND", "UNREGISTERED"),
        ("foreign", 403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
    ],
)
async def test_a_bad_token_is_told(
    call: Ask, api: FcmApi, to: str, code: int, name: str, detail: str
) -> None:
    """Errors come with the body of the real API, and nobody was told."""
    provider = client(api)
    context = await granted(call, provider)
    [answer] = await call(provider.request(message(), address(to), context))
    error = told(answer)["error"]
    assert (status(answer), error["status"], error["details"][0]["errorCode"]) == (code, name, detail)
    assert api.ledger.accepted() == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message": {"data": {"a": "b"}}}, "message"),
        ({"message": {"token": "t1", "data": {"a": 1}}}, "message.data[0].value"),
        ({"message": {"token": "a b"}}, "message.token"),
        ({"message": {"token": "t1", "data": {"a": "x" * 4_096}}}, None),
        ([], "message"),
        (None, "message"),
    ],
)
async def test_a_bad_message_is_told(call: Ask, api: FcmApi, body: object, field: str | None) -> None:
    """A 400 names the field; one that is too large says nothing at all."""
    provider = client(api)
    context = await granted(call, provider)
    request = provider.request(message(), address("t1"), context)
    raw = b"no JSON" if body is None else json.dumps(body).encode()
    [answer] = await call(replace(request, body=raw))
    details = told(answer)["error"].get("details", [])
    fields = [v["field"] for d in details for v in d.get("fieldViolations", [])]
    assert (status(answer), fields) == (400, [field] if field else [])


async def test_access_is_checked(call: Ask, make: Callable[..., FcmApi]) -> None:
    """Without a token, with one that ended or was revoked: 401; another project: 403; another path: 404 as HTML."""
    clock = [time.time()]
    with make(clock=lambda: clock[0], lifetime=60) as server:
        provider = client(server)
        context = await granted(call, provider)
        request = provider.request(message(), address("t1"), context)
        elsewhere = replace(request, url=request.url.replace("demo-project", "other"))
        [answer] = await call(elsewhere)
        assert status(answer) == 403
        [answer] = await call(replace(request, url=f"{server.url}/v2"))
        assert (status(answer), answer.headers["content-type"][:9]) == (404, "text/html")  # type: ignore[union-attr]
        clock[0] += 61
        [answer] = await call(request)
        assert (status(answer), told(answer)["error"]["status"]) == (401, "UNAUTHENTICATED")
        clock[0] -= 61
        server.revoke()
        [answer] = await call(request)
        assert (status(answer), "details" in told(answer)["error"]) == (401, False)


async def test_faults_have_stages(call: Ask, make: Callable[..., FcmApi]) -> None:
    """Bursts and quotas of messages and of the token endpoint are scripted apart, and worded as the vendor does."""
    faults = ["503:first=1", "429:numbers=2,retry_after=60", "418:numbers=3", "500:first=1,stage=token"]
    with make(plan=plan(faults)) as server:
        provider = client(server)
        [answer] = await call(provider.grant(now()))
        assert status(answer) == 500
        context = await granted(call, provider)
        request = provider.request(message(), address("t1"), context)
        seen = []
        for _ in range(4):
            [answer] = await call(request)
            seen.append((status(answer), told(answer).get("error", {}).get("status")))
        assert seen == [(503, "UNAVAILABLE"), (429, "RESOURCE_EXHAUSTED"), (418, "UNKNOWN"), (200, None)]


async def test_api_as_a_program(call: Ask, tmp_path: Path) -> None:
    """The program writes its service account before its port, and its ledger as it goes."""
    file, ledger = tmp_path / "account.json", tmp_path / "ledger.jsonl"
    with program("fcm", "--credentials", str(file), "--dead", "dead", "--ledger", str(ledger)) as port:
        provider = Fcm(FcmOptions(file.read_text("utf-8"), base_url=f"http://127.0.0.1:{port}"))
        context = await granted(call, provider)
        answers = await call(*(provider.request(message(), address(to), context) for to in ("t1", "dead")))
        assert sorted(map(status, answers)) == [200, 404]
    assert {entry.verdict for entry in read_ledger(ledger)} == {"granted", "200", "404"}


# --- a push service with its browsers --------------------------------------------------------------------------------


@pytest.fixture
def service() -> Iterator[PushService]:
    """A push service."""
    with PushService() as server:
        yield server


def sender(**options: Any) -> WebPush:
    """The client."""
    return WebPush(
        WebPushOptions(**{"vapid_private_key": KEY, "subject": "mailto:ops@example.com", **options})
    )


def pushed(subscription: dict[str, Any], provider: WebPush | None = None, **more: Any) -> HttpRequest:
    """A call to a browser; the stand-in is where strangers' endpoints may not be."""
    provider = provider or sender()
    request = provider.request(message(**more), address(provider.address(subscription)), now())
    return replace(request, guarded=False)


async def test_a_push_is_decrypted(call: Ask, service: PushService) -> None:
    """The browser reads what was sent, and shows a repeat in the place of the first."""
    subscription = service.subscribe(sender().public_key)
    for text in ("first", "second"):
        [answer] = await call(pushed(subscription, said=content(text=text, title="Order")))
        assert status(answer) == 201
    browser = service.browser(subscription)
    assert [payload["body"] for payload in browser.received] == ["first", "second"]
    assert browser.shown == {str(ID): {"title": "Order", "body": "second", "tag": str(ID)}}
    assert "secret" not in repr(browser)
    path = subscription["endpoint"].removeprefix(service.url)
    assert service.ledger.accepted() == {(str(ID), path): 2}


async def test_a_dead_subscription_is_told(call: Ask, service: PushService) -> None:
    """An unknown endpoint is 404, one whose person took the permission back 410."""
    subscription = service.subscribe()
    service.unsubscribe(subscription)
    unknown = {**subscription, "endpoint": f"{service.url}/push/0"}
    answers = await call(pushed(subscription), pushed(unknown))
    assert [(status(answer), told(answer)["errno"]) for answer in answers] == [(410, 106), (404, 102)]


async def test_a_sender_is_verified(call: Ask, service: PushService) -> None:
    """Another key than the browser subscribed with, another origin, time or signature, or nobody's: 401."""
    subscription = service.subscribe(sender().public_key)
    good = pushed(subscription)
    other = sender(vapid_private_key=base64.urlsafe_b64encode(bytes(range(2, 34))).decode())
    origin = sender().address({**subscription, "endpoint": "https://push.example.net/x"})
    elsewhere = sender().request(message(), address(origin), now())
    stale = sender().request(
        message(), address(sender().address(subscription)), replace(now(), now=now().now - 10**12)
    )
    headers = dict(good.headers)

    def signed(value: str | None) -> HttpRequest:
        changed = {**headers, "authorization": value}
        return replace(good, headers=tuple((k, v) for k, v in changed.items() if v is not None))

    token = headers["authorization"]
    requests = [
        pushed(subscription, other),
        replace(elsewhere, url=good.url, guarded=False),
        replace(stale, guarded=False),
        signed(None),
        signed("vapid t=a.b.c,k=AAAA"),
        signed(token.replace("vapid t=", "vapid t=x")),
        signed(token[:-1]),
        signed("Bearer x"),
    ]
    for request in requests:
        [answer] = await call(request)
        assert (status(answer), told(answer)["errno"]) == (401, 109)
    k, t = token.removeprefix("vapid ").split(",")[::-1]
    [answer] = await call(signed(f"vapid {k}, {t}"))
    assert status(answer) == 201


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("ttl", None, 400),
        ("ttl", "-1", 400),
        ("topic", "x" * 33, 400),
        ("content-encoding", "aesgcm", 400),
        ("body", "x" * 4_097, 413),
        ("body", "x" * 200, 400),
        ("body", "x", 400),
    ],
)
async def test_a_bad_push_is_told(
    call: Ask, service: PushService, header: str, value: str | None, code: int
) -> None:
    """What the RFCs ask for is checked: TTL, Topic, encoding, size, and that the browser can read it."""
    request = pushed(service.subscribe())
    if header == "body":
        assert value is not None
        request = replace(request, body=value.encode())
    else:
        headers = {**dict(request.headers), header: value}
        request = replace(request, headers=tuple((k, v) for k, v in headers.items() if v is not None))
    [answer] = await call(request)
    assert status(answer) == code
    assert service.ledger.accepted() == {}


async def test_a_message_for_another_browser(call: Ask, service: PushService) -> None:
    """A body that is encrypted for somebody else can not be read."""
    request = pushed(service.subscribe())
    [answer] = await call(replace(request, url=service.subscribe()["endpoint"]))
    assert told(answer)["errno"] == 110


async def test_service_as_a_program(call: Ask) -> None:
    """The program makes subscriptions over HTTP, and fails as told."""
    with program("webpush", "--fault", "503:first=1,retry_after=1") as port:
        url = f"http://127.0.0.1:{port}/subscribe"
        [answer] = await call(HttpRequest("POST", url, body=sender().public_key.encode()))
        subscription = told(answer)
        seen = [status((await call(pushed(subscription)))[0]) for _ in range(2)]
        assert seen == [503, 201]
