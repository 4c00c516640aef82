"""Webhooks: signatures that the reference library accepts, endpoints, sizes."""

import base64
import json
from datetime import UTC, datetime

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpRequest, InDoubt
from ringonce.providers.webhook import Webhook, WebhookOptions, endpoint
from tests.providers.samples import CREATED, ID, NOW, address, content, context, message

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(bytes(range(64))).decode()
URL = "https://hooks.example.com/in?key=a%20b"


def call(provider: Webhook | None = None, now: int | None = None, **said: object) -> HttpRequest:
    """Build the call that an attempt makes."""
    hook = provider or Webhook(WebhookOptions(SECRET))
    at = context(int(datetime.now(UTC).timestamp()) * 1_000_000 if now is None else now)
    return hook.request(message(content(**said)), address(URL), at)  # type: ignore[arg-type]


def test_signature() -> None:
    """The reference library of the specification verifies the call."""
    request = call(title="Заказ", data={"order": 42})
    told = standardwebhooks.Webhook(SECRET).verify(request.body, dict(request.headers))
    assert told == {
        "type": "order.shipped",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "data": {
            "notification_id": str(ID),
            "event_id": "order-42",
            "recipient": "user-1",
            "title": "Заказ",
            "text": "It is on its way.",
            "data": {"order": 42},
        },
    }


def test_rotation() -> None:
    """While secrets are rotated, receivers with either accept the call; a foreign secret does not fit."""
    request = call(Webhook(WebhookOptions(SECRET, secrets=(OTHER, SECRET))))
    assert len(dict(request.headers)["webhook-signature"].split()) == 2
    for secret in (SECRET, OTHER):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(base64.b64encode(b"x" * 24).decode()).verify(
            request.body, dict(request.headers)
        )


def test_repeat() -> None:
    """Later attempts carry the same id and body and a timestamp of their own."""
    first, later = call(now=NOW), call(now=NOW + 60_000_000)
    assert first.body == later.body
    one, two = dict(first.headers), dict(later.headers)
    assert one["webhook-id"] == two["webhook-id"] == str(ID)
    assert (one["webhook-timestamp"], two["webhook-timestamp"]) == ("1767225690", "1767225750")
    assert one["webhook-signature"] != two["webhook-signature"]


def test_id_without_dots() -> None:
    """The dot separates what is signed, so the id of a later revision is spelled without it."""
    said = message(reference=f"{ID}.r2")
    headers = dict(Webhook(WebhookOptions(SECRET)).request(said, address(URL), context()).headers)
    assert headers["webhook-id"] == f"{ID}_r2"


def test_request() -> None:
    """The call goes to the address under guard, with the channel's timeout."""
    request = call()
    assert (request.method, request.url, request.guarded, request.timeout) == ("POST", URL, True, 15.0)
    untyped = Webhook(WebhookOptions(SECRET)).request(message(event_type=""), address(URL), context())
    assert json.loads(untyped.body)["type"] == "notification"


@pytest.mark.parametrize(
    "options",
    [
        WebhookOptions(),
        WebhookOptions("  "),
        WebhookOptions("whsec_short"),
        WebhookOptions("whsec_" + base64.b64encode(b"x" * 23).decode()),
        WebhookOptions("whsec_" + base64.b64encode(b"x" * 65).decode()),
        WebhookOptions("whsec_п" + "a" * 40),
        WebhookOptions("not base64, but long enough to be a secret"),
        WebhookOptions("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        WebhookOptions(SECRET, secrets=("bad",)),
    ],
)
def test_bad_secret(options: WebhookOptions) -> None:
    """A missing or malformed secret is refused at start-up with the command that makes one, not repeated."""
    with pytest.raises(ConfigError) as error:
        Webhook(options)
    assert error.value.field == "secret"
    assert "whsec_" in error.value.mend
    assert not options.secret.strip() or options.secret not in str(error.value)


def test_forms_of_secrets() -> None:
    """The prefix may be missing, several may stand in one text, and none of them shows in the account's name."""
    bare = Webhook(WebhookOptions(SECRET.removeprefix("whsec_")))
    listed = Webhook(WebhookOptions(secrets=f"{SECRET}, {OTHER}"))
    assert bare.account == listed.account == Webhook(WebhookOptions(SECRET)).account
    assert SECRET[6:] not in bare.account + repr(listed.options)


def test_no_room() -> None:
    """A limit below the envelope's own size is refused."""
    with pytest.raises(ConfigError):
        Webhook(WebhookOptions(SECRET, max_bytes=1_024))


def test_size() -> None:
    """What would not fit is refused at acceptance, and again when the call is built."""
    hook = Webhook(WebhookOptions(SECRET))
    hook.check(content(text="x" * 18_900))
    with pytest.raises(PayloadTooLarge):
        hook.check(content(text="x" * 19_000))
    with pytest.raises(PayloadTooLarge):
        call(text="x" * 20_000)


@pytest.mark.parametrize("value", [float("nan"), object(), "\ud800"])
def test_not_json(value: object) -> None:
    """Data that JSON can not hold is refused at acceptance."""
    with pytest.raises(InputError) as error:
        Webhook(WebhookOptions(SECRET)).check(content(data={"a": value}))
    assert error.value.field == "content.data"


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (URL, URL),
        (" HTTPS://Hooks.Example.COM:8443/In?Q=1 ", "https://hooks.example.com:8443/In?Q=1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://example.com?x=1", "https://example.com/?x=1"),
        ("https://s/hook", "https://s/hook"),  # a host that is part of the scheme's name
        ("http://my_service/hook", "http://my_service/hook"),
        ("https://example.com./x", "https://example.com./x"),
    ],
)
def test_endpoint(value: str, canonical: str) -> None:
    """An endpoint keeps its path and query; scheme and host become lower-case ASCII."""
    assert Webhook(WebhookOptions(SECRET)).address(value) == canonical


@pytest.mark.parametrize(
    "value",
    [
        7,
        "",
        "hooks.example.com/in",
        "//hooks.example.com/in",
        "https://exa\nmple.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https://:443/",
        "https://[::1/",
        "https://example.com:99999/",
        "https://user:pass@example.com/",
        "https://user@example.com/",
        "https://@example.com/",
        "https://example.com/#top",
        "https://example.com/#",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://example.com/\x00",
        "https://example.com/путь",
        "https://example.com\\@internal/",
        "https://example.com/a\\b",
        "https://exa$mple.com/",
        "https://" + "a" * 64 + ".example/",
        "https://\ud800.example/",
        "https://example..com/",
        "https://example.com/" + "x" * 2_048,
    ],
)
def test_bad_endpoint(value: object) -> None:
    """Anything but an absolute http or https URL without user, fragment and odd characters is refused."""
    with pytest.raises(InputError) as error:
        endpoint(value)
    assert error.value.field == "address"
    assert not isinstance(value, str) or len(value) < 12 or value not in str(error.value)


@given(st.text(max_size=60), st.sampled_from(["https://example.com/", "https://", ""]))
def test_endpoint_is_stable(tail: str, head: str) -> None:
    """A canonical endpoint is its own canonical form, visible ASCII, and nothing else raises."""
    try:
        url = endpoint(head + tail)
    except InputError:
        return
    assert endpoint(url) == url
    assert url.isascii()
    assert url.isprintable()


def test_declarations() -> None:
    """A repeat is harmless by the receiver's contract, so a doubt is sent again."""
    assert Webhook.in_doubt is InDoubt.RESEND
    assert CREATED < NOW
