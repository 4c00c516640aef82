"""Providers' callbacks over the API: the signature is the key, and errors are problem documents."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ringonce.api.app import create_app
from ringonce.api.receipts import LARGEST
from ringonce.app import Ringonce
from ringonce.vendors.reports import Told, planned
from ringonce.vendors.twilio import TwilioApi
from tests.api.asgi import Answer, Caller
from tests.providers.test_receipts import KEY, PUBLIC

SECRET = "app-secret"
WAY = {"provider": "whatsapp", "token": "t", "phone_number_id": "106540352242922", "receipt_secret": SECRET}


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """Channels whose vendors call back, and one whose vendor never does."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "channels": {
            "way": WAY | {"verify_token": "v"},
            "room": {"provider": "slack", "receipt_secret": SECRET},
            "guild": {"provider": "discord", "public_key": PUBLIC},
            "sms": {"provider": "twilio", "account_sid": "AC1", "auth_token": SECRET, "from": "+15005550006"},
            "box": {"provider": "sandbox"},
        },
    }
    async with Ringonce(config) as ringonce:
        yield ringonce


@pytest.fixture
def locked(library: Ringonce) -> Caller:
    """The API as the world sees it: with a key, behind a proxy, under a name of its own."""
    app = create_app(library, key="k", public_url="https://notify.example.com/ring/")
    return Caller(app, host="10.0.0.7:8070")


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    """WhatsApp's header."""
    return {"x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def status(reference: str = "nobody's", word: str = "delivered") -> bytes:
    """A callback of WhatsApp's with one status."""
    one = {"id": "wamid.1", "status": word, "timestamp": "1767225600", "biz_opaque_callback_data": reference}
    return json.dumps({"entry": [{"changes": [{"value": {"statuses": [one]}}]}]}).encode()


def problem(answer: Answer) -> tuple[int, str]:
    """Status and code of a problem document."""
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status, answer.json["code"]


async def test_a_signed_callback_needs_no_key(locked: Caller) -> None:
    """The vendor has no key of ours: its signature opens this path, and this path alone."""
    body = status()
    answer = await locked.call("POST", "/v1/receipts/way", raw=body, headers=signed(body))
    assert (answer.status, answer.json) == (200, {"reports": {"unknown": 1}})
    again = await locked.call("POST", "/v1/receipts/way", raw=body, headers=signed(body))
    assert (again.status, again.json) == (200, {"reports": {"duplicate": 1}})
    assert problem(await locked.call("GET", "/v1/channels")) == (401, "unauthorized")


async def test_without_keys_callbacks_pass_a_proxy(library: Ringonce) -> None:
    """Without any key only loopback is served, but for callbacks: a proxy on this machine brings another host name."""
    open_ = Caller(create_app(library), host="notify.example.com")
    body = status()
    assert (await open_.call("POST", "/v1/receipts/way", raw=body, headers=signed(body))).status == 200
    assert problem(await open_.call("GET", "/v1/channels")) == (403, "forbidden_host")


async def test_a_forged_callback_is_told_nothing(locked: Caller) -> None:
    """401 with one and the same text, whatever is wrong: no signature, another's, another body's."""
    body = status()
    answers = [
        await locked.call("POST", "/v1/receipts/way", raw=body, headers=headers)
        for headers in (
            {},
            signed(body, "other"),
            signed(b"{}"),
            signed(body) | {"x-hub-signature-256": "sha256="},
        )
    ]
    assert {problem(answer) for answer in answers} == {(401, "forged")}
    assert len({answer.body for answer in answers}) == 1
    assert all(answer.headers["www-authenticate"] for answer in answers)
    counted = locked.app.state.facade.telemetry.value
    assert counted("ringonce_receipts_total", channel="way", kind="unknown", fate="forged") == len(answers)


async def test_what_takes_no_receipts_says_so(locked: Caller) -> None:
    """No such channel, or a provider that never reports: 404."""
    for name in ("nothing", "box", "a%2Fb"):
        assert problem(await locked.call("POST", f"/v1/receipts/{name}", raw=b"{}")) == (404, "not_found")


async def test_signed_nonsense_is_a_bad_request(locked: Caller) -> None:
    """Signed, and no JSON: 400 with the code of all bad JSON."""
    answer = await locked.call("POST", "/v1/receipts/way", raw=b"{", headers=signed(b"{"))
    assert problem(answer) == (400, "invalid_json")


async def test_hook_07_a_large_body_is_refused_before_it_is_read(locked: Caller) -> None:
    """HOOK-07: 3 MiB are taken, one byte more is 413, whether the length is told or not."""
    body = status() + b" " * (LARGEST - len(status()))
    assert (await locked.call("POST", "/v1/receipts/way", raw=body, headers=signed(body))).status == 200
    pieces = (b" " * 65_536 for _ in range(10_000))
    assert problem(await locked.call("POST", "/v1/receipts/way", raw=pieces)) == (413, "payload_too_large")
    assert locked.pieces_read < 100


async def test_handshakes_are_answered(locked: Caller) -> None:
    """A vendor that asks whether the URL is ours hears what it wants to hear, as plain text."""
    asks = "/v1/receipts/way?hub.mode=subscribe&hub.challenge=1158&hub.verify_token="
    answer = await locked.call("GET", f"{asks}v")
    assert (answer.status, answer.body) == (200, b"1158")
    assert answer.headers["content-type"].startswith("text/plain")
    assert problem(await locked.call("GET", f"{asks}x")) == (401, "forged")
    library = locked.app.state.facade
    now = str(library.engine.clock.now() // 1_000_000)
    body = b'{"type": "url_verification", "challenge": "c-1"}'
    made = hmac.new(SECRET.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={made}", "x-slack-request-timestamp": now}
    assert (await locked.call("POST", "/v1/receipts/room", raw=body, headers=headers)).body == b"c-1"
    ping = b'{"type": 0}'
    headers = {"x-signature-ed25519": KEY.sign(now.encode() + ping).hex(), "x-signature-timestamp": now}
    pong = await locked.call("POST", "/v1/receipts/guild", raw=ping, headers=headers)
    assert (pong.status, pong.body) == (204, b"")


async def test_the_url_is_that_of_public_url(locked: Caller) -> None:
    """A signature over the URL holds behind a proxy that changes host, scheme and the beginning of the path."""
    vendor = TwilioApi("AC1", SECRET)
    for url, wanted in (
        ("https://notify.example.com/ring/v1/receipts/sms?reference=a%2Fb", 200),
        ("http://10.0.0.7:8070/v1/receipts/sms?reference=a%2Fb", 401),
    ):
        call = vendor.callback(Told(message_id="SM1", url=url), planned("delivered"), SECRET)
        target = "/v1/receipts/sms?reference=a%2Fb"
        answer = await locked.call(
            "POST", target, raw=call.body, headers={k.lower(): v for k, v in call.headers.items()}
        )
        assert answer.status == wanted
