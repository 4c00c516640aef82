"""Firebase Cloud Messaging: the grant, the message, limits, what is refused."""

import base64
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from ringonce import registry
from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.model.exchange import Fault
from ringonce.provider import (
    Answer,
    Context,
    Credential,
    HttpAnswer,
    HttpRequest,
    InDoubt,
    Message,
    NoAnswer,
    Outcome,
    OutcomeClass,
)
from ringonce.providers.fcm import Fcm, FcmOptions
from tests.providers.samples import ID, NOW, address, content, context, message

TOKEN = "dHIoDxE7Hdg:APA91bH1Zj0kNa-device_1"
FID = "c1234567890abcdefghijk"
CONTEXT = replace(context(), credential="ya29.secret")
URI = "https://oauth2.example.com/token"


@cache
def key() -> rsa.RSAPrivateKey:
    """One key for all tests: making one takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(private: Any = None) -> str:
    """A private key as service accounts hold it."""
    return (
        (private or key())
        .private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        .decode()
    )


def account(**changes: object) -> dict[str, Any]:
    """A service account."""
    whole = {
        "type": "service_account",
        "project_id": "demo",
        "private_key_id": "k1",
        "private_key": pem(),
        "client_email": "push@demo.iam.gserviceaccount.com",
        "token_uri": URI,
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def push(**options: Any) -> Fcm:
    """Build a provider with this account."""
    return Fcm(FcmOptions(**{"credentials": account(), **options}))


def body(to: str = TOKEN, said: Any = None, **more: Any) -> dict[str, Any]:
    """Build the call and read its message."""
    request = push().request(message(said, **more), address(to), CONTEXT)
    whole = json.loads(request.body)
    assert set(whole) == {"message"}
    found: dict[str, Any] = whole["message"]
    return found


def test_call() -> None:
    """The call goes to the project with the access token, and asks for errors that say whose fault they are."""
    request = push().request(message(), address(TOKEN), CONTEXT)
    assert (request.method, request.timeout, request.guarded) == ("POST", 15.0, False)
    assert request.url == "https://fcm.googleapis.com/v1/projects/demo/messages:send"
    headers = dict(request.headers)
    assert headers["authorization"] == "Bearer ya29.secret"
    assert headers["x-goog-api-format-version"] == "2"
    assert "ya29" not in repr(request) + repr(CONTEXT)


def test_call_without_credential() -> None:
    """Without an access token nothing is built: it is the engine's to bring one."""
    with pytest.raises(TypeError):
        push().request(message(), address(TOKEN), context())


def test_replaced_by_reference() -> None:
    """A repeat replaces the first one on each platform by the reference, and uses up no collapse key."""
    made = body(said=content(title="Order 42", data={"order": "42"}))
    assert made == {
        "token": TOKEN,
        "notification": {"title": "Order 42", "body": "It is on its way."},
        "data": {"order": "42"},
        "android": {"notification": {"tag": str(ID)}},
        "apns": {"headers": {"apns-collapse-id": str(ID)}},
        "webpush": {"notification": {"tag": str(ID)}},
    }


def test_collapse_of_its_own() -> None:
    """Only an event that names a collapse of its own gets a collapse key."""
    assert body(collapse="score:7")["android"]["collapse_key"] == "score:7"


def test_data_only() -> None:
    """Data alone shows nothing: it wakes the app in the background, at the priority that iOS allows for it."""
    made = body(said=content(text=None, data={"sync": "1"}), priority="high")
    assert "notification" not in made
    assert made["android"] == {"priority": "HIGH"}
    assert made["apns"]["payload"] == {"aps": {"content-available": 1}}
    assert made["apns"]["headers"]["apns-priority"] == "5"
    assert made["apns"]["headers"]["apns-push-type"] == "background"
    assert made["webpush"] == {"headers": {"Urgency": "high"}}


@pytest.mark.parametrize(
    ("priority", "android", "apns", "web"), [("high", "HIGH", "10", "high"), ("low", "NORMAL", "5", "low")]
)
def test_priority(priority: str, android: str, apns: str, web: str) -> None:
    """High and low are told to each platform in its own words."""
    made = body(priority=priority)
    assert made["android"]["priority"] == android
    assert made["apns"]["headers"]["apns-priority"] == apns
    assert made["webpush"]["headers"] == {"Urgency": web}


@pytest.mark.parametrize(("seconds", "ttl"), [(90, 90), (0.5, 0), (-5, 0), (10_000_000, 2_419_200)])
def test_ttl(seconds: float, ttl: int) -> None:
    """What expires is not kept for longer by the vendor, and never for longer than four weeks."""
    made = body(expires_at=NOW + int(seconds * 1_000_000))
    assert made["android"]["ttl"] == f"{ttl}s"
    assert made["apns"]["headers"]["apns-expiration"] == str(NOW // 1_000_000 + ttl)
    assert made["webpush"]["headers"]["TTL"] == str(ttl)


@pytest.mark.parametrize(
    ("value", "canonical", "kind"),
    [
        (TOKEN, TOKEN, "token"),
        (f" {TOKEN}\n", TOKEN, "token"),
        ({"token": TOKEN}, TOKEN, "token"),
        ({"fid": FID}, f"fid:{FID}", "fid"),
        (f"fid:{FID}", f"fid:{FID}", "fid"),
    ],
)
def test_device(value: object, canonical: str, kind: str) -> None:
    """A device is its registration token, or its installation id marked as such; each has its own field."""
    assert push().address(value) == canonical
    made = body(canonical)
    assert made[kind] == canonical.removeprefix("fid:")
    assert len({"token", "fid", "topic", "condition"} & made.keys()) == 1


@pytest.mark.parametrize(
    "value",
    ["", " ", 7, None, "a b", "ключ", "x" * 4_097, {}, {"topic": "news"}, {"token": 7}, {"fid": "short"},
     {"fid": 7}, "fid:short", {"token": TOKEN, "fid": FID}],
)  # fmt: skip
def test_no_device(value: object) -> None:
    """Whatever is no token and no installation id is refused with the mend."""
    with pytest.raises(InputError) as error:
        push().address(value)
    assert (error.value.field, bool(error.value.mend)) == ("address", True)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"order": 42}, "content.data.order"),
        ({"nested": {"a": "b"}}, "content.data.nested"),
        ({"from": "x"}, "content.data.from"),
        ({"message_type": "x"}, "content.data.message_type"),
        ({"google.x": "x"}, "content.data.google.x"),
        ({"gcm_x": "x"}, "content.data.gcm_x"),
        ({"": "x"}, "content.data."),
    ],
)
def test_refused_data(data: dict[str, object], field: str) -> None:
    """Data are texts under names that are not reserved; anything else is refused at acceptance, by its name."""
    with pytest.raises(InputError) as error:
        push().check(content(data=data))
    assert error.value.field == field
    push().check(content(data={"fromage": "x", "order": "42"}))


def test_limit() -> None:
    """4,096 bytes of title, text and data are carried, counted as UTF-8; one more is refused, not cut."""
    overhead = len(b'{"notification":{"body":""}}')
    push().check(content(text="ж" * ((4_096 - overhead) // 2)))
    with pytest.raises(PayloadTooLarge):
        push().check(content(text="x" * (4_097 - overhead)))
    with pytest.raises(InputError) as error:
        push().check(content(text=None, html="<p>x</p>"))
    assert error.value.field == "content.html"


@pytest.mark.parametrize("name", ["text", "data"])
def test_limit_of_escapes(name: str) -> None:
    """What JSON has to escape counts as it is sent: a control character takes six bytes of the 4,096."""
    about = {
        "text": lambda count: content(text="\x01" * count),
        "data": lambda count: content(data={"a": "\x01" * count}),
    }
    push().check(about[name](660))
    with pytest.raises(PayloadTooLarge):
        push().check(about[name](680))


# --- the grant -----------------------------------------------------------------------------------------------------


def test_grant() -> None:
    """The assertion is signed with the account's key, for its own token endpoint, for an hour."""
    request = push().grant(context())
    assert isinstance(request, HttpRequest)
    assert (request.method, request.url) == ("POST", URI)
    form = parse_qs(request.body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    signed, _, signature = form["assertion"][0].rpartition(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    now = NOW // 1_000_000
    assert claims == {
        "iss": "push@demo.iam.gserviceaccount.com",
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": URI,
        "iat": now,
        "exp": now + 3_600,
    }
    raw = base64.urlsafe_b64decode(signature + "==")
    key().public_key().verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())


def granted(answer: Answer) -> Credential | Outcome:
    """Read an answer to the grant."""
    return push().granted(answer, context())


def test_granted() -> None:
    """The token is good for as long as it says; one that does not say is good until it is refused."""
    told = {"access_token": "ya29.x", "expires_in": 3_599, "token_type": "Bearer"}
    held = granted(HttpAnswer(200, {}, json.dumps(told).encode()))
    assert held == Credential("ya29.x", NOW + 3_599_000_000)
    assert "ya29" not in repr(held)
    for odd in (None, True, -1, "3600", 10**12):
        told["expires_in"] = odd
        assert granted(HttpAnswer(200, {}, json.dumps(told).encode())) == Credential("ya29.x")


@pytest.mark.parametrize(
    ("answer", "cls"),
    [
        (HttpAnswer(200, {}, b'{"access_token": "a b", "x": "ya29.secret"}'), "transient"),
        (HttpAnswer(200, {}, b'{"access_token": 7}'), "transient"),
        (HttpAnswer(200, {}, b'["ya29.secret"]'), "transient"),
        (HttpAnswer(200, {}, b"<html>"), "transient"),
        (HttpAnswer(200, {}, b'{"access_token": "ya29.secret"', truncated=True), "transient"),
        (HttpAnswer(400, {}, b'{"error": "invalid_grant", "error_description": "Invalid JWT"}'), "auth"),
        (HttpAnswer(401, {}, b'{"error": "invalid_client"}'), "auth"),
        (HttpAnswer(404, {}, b"<html>"), "auth"),
        (HttpAnswer(408), "transient"),
        (HttpAnswer(429, {"retry-after": "7"}), "rate_limited"),
        (HttpAnswer(503), "transient"),
        (NoAnswer(Fault.READ_TIMEOUT, sent=True), "transient"),
    ],
)
def test_not_granted(answer: Answer, cls: str) -> None:
    """A refusal is told apart from what may pass, and no token is ever quoted."""
    outcome = granted(answer)
    assert isinstance(outcome, Outcome)
    assert outcome.cls == cls
    assert "ya29" not in outcome.text
    if answer == HttpAnswer(400, {}, b'{"error": "invalid_grant", "error_description": "Invalid JWT"}'):
        assert outcome.provider_code == "invalid_grant"


# --- options -------------------------------------------------------------------------------------------------------


def test_credentials_from_anywhere(tmp_path: Path) -> None:
    """The account is given as JSON, as a table, or as the path of its file."""
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account()), "utf-8")
    for given in (json.dumps(account()), account(), str(file), "account.json"):
        built = registry.build("fcm", {"credentials": given}, tmp_path)
        assert built.account.startswith("fcm:demo:")
    with pytest.raises(ConfigError) as error:
        registry.build("fcm", {"credentials": str(tmp_path / "missing.json")})
    assert error.value.field == "credentials"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError):
        registry.build("fcm", {"credentials": str(file)})


def test_account() -> None:
    """The account names the project and digests the key's id; another key is another account."""
    other = push(credentials=account(private_key_id="k2"))
    assert push().account == push().account != other.account
    assert "PRIVATE" not in push().account + repr(push().options)


def test_project_and_base() -> None:
    """Project and server may be named; the project is otherwise that of the credentials."""
    named = push(project_id="other", base_url="http://127.0.0.1:9/")
    request = named.request(message(), address(TOKEN), CONTEXT)
    assert request.url == "http://127.0.0.1:9/v1/projects/other/messages:send"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"credentials": "not json"}, "credentials"),
        ({"credentials": "[" * 100_000}, "credentials"),
        ({"credentials": "[]"}, "credentials"),
        ({"credentials": account(client_email=None)}, "credentials"),
        ({"credentials": account(private_key=" ")}, "credentials"),
        ({"credentials": account(token_uri=7)}, "credentials"),
        ({"credentials": account(token_uri="ftp://x")}, "credentials"),
        ({"credentials": account(private_key="-----BEGIN SECRET-----")}, "credentials"),
        ({"credentials": account(private_key=pem(ec.generate_private_key(ec.SECP256R1())))}, "credentials"),
        ({"credentials": account(project_id=None)}, "project_id"),
        ({"project_id": "../x"}, "project_id"),
        ({"base_url": "fcm.googleapis.com"}, "base_url"),
        ({"base_url": "http://x:y"}, "base_url"),
        ({"base_url": "http://x?a=1"}, "base_url"),
    ],
)
def test_bad_options(options: dict[str, Any], field: str) -> None:
    """What can not work is refused at start-up by the option's name, and no secret is repeated."""
    with pytest.raises(ConfigError) as error:
        push(**options)
    assert error.value.field == field
    assert "BEGIN" not in str(error.value)


# --- answers -------------------------------------------------------------------------------------------------------


def said(status: int, error: str, code: str | None = None, **headers: str) -> Outcome:
    """An error in the vendor's form."""
    details = [{"errorCode": code}] if code else []
    whole = {"error": {"code": status, "message": "m", "status": error, "details": details}}
    return Fcm.outcome(HttpAnswer(status, headers, json.dumps(whole).encode()), context())


def test_own_words() -> None:
    """The provider's own code is kept: that of FcmError, else the canonical one, else the status."""
    assert said(404, "NOT_FOUND", "UNREGISTERED").provider_code == "UNREGISTERED"
    assert said(403, "PERMISSION_DENIED").provider_code == "PERMISSION_DENIED"
    assert Fcm.outcome(HttpAnswer(502, {}, b"<html>"), context()).provider_code == "502"


def test_refresh_once() -> None:
    """Only a 401 that is about our own token is worth a fresh one."""
    assert said(401, "UNAUTHENTICATED").refresh
    assert not said(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR").refresh
    assert not said(403, "PERMISSION_DENIED").refresh


def test_a_limit_is_a_minute() -> None:
    """A limit without a wait means a minute; one that is told is honoured."""
    assert said(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED").retry_after_s == 60
    waits = {"retry-after": "120"}
    assert said(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", **waits).retry_after_s == 120


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("unavailable", "transient"),
        ("unreachable", "transient"),
        ("quota-exceeded", "rate_limited"),
        ("registration-token-not-registered", "invalid_recipient"),
        ("invalid-argument", "invalid_payload"),
        ("authentication-error", "auth"),
    ],
)
def test_table_2_1(name: str, cls: str) -> None:
    """B01: each error of the table has its class."""
    answer = HttpAnswer(0, {}, json.dumps({"code": f"messaging/{name}"}).encode())
    assert Fcm.outcome(answer, Context(NOW)).cls == OutcomeClass(cls)


def test_declarations() -> None:
    """A repeat replaces the first, so a doubt is sent again; a bad recipient is a bad token."""
    assert (Fcm.in_doubt, Fcm.push) == (InDoubt.RESEND, True)


def test_what_calls_have_in_common_is_made_once() -> None:
    """Headers are one object for as long as the token is the same, and are new ones with the next token."""
    provider = Fcm(FcmOptions(account()))
    first, second = (provider.request(message(), address(TOKEN), CONTEXT) for _ in range(2))
    assert first.headers is second.headers
    other = provider.request(message(), address(TOKEN), replace(CONTEXT, credential="ya29.other"))
    assert dict(other.headers)["authorization"] == "Bearer ya29.other"


@pytest.mark.parametrize(
    "said",
    [
        message(content(title="\udc01")),
        message(content("\udc02")),
        message(content(data={"a": "\udc01"})),
        message(content(data={"\udc02": "a"})),
        message(collapse="\udc01"),
    ],
    ids=["title", "text", "value", "name", "collapse"],
)
def test_half_a_character_is_never_sent(said: Message) -> None:
    """No content can stand for the address or the reference: what they are marked with is no text."""
    with pytest.raises(UnicodeEncodeError):
        Fcm(FcmOptions(account())).request(said, address(TOKEN), CONTEXT)


def test_data_that_is_no_text_is_refused_when_it_is_sent_too() -> None:
    """A value that came past the check at acceptance ends its own notification."""
    with pytest.raises(InputError, match="texts only"):
        Fcm(FcmOptions(account())).request(message(content(data={"a": [1]})), address(TOKEN), CONTEXT)
