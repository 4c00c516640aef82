"""Web Push: the subscription, encryption, signature, headers, limits."""

import base64
import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt, OutcomeClass
from ringonce.providers.webpush import WebPush, WebPushOptions, encrypt
from tests.providers.samples import ID, NOW, address, content, context, message


def raw(text: str) -> bytes:
    """Base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text(data: bytes) -> str:
    """The reverse."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


KEY = text(bytes(range(1, 33)))
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
ENDPOINT = "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV"
CANONICAL = f'{{"endpoint":"{ENDPOINT}","keys":{{"auth":"{AUTH}","p256dh":"{P256DH}"}}}}'
_numbers = count(1)
CONTEXT = replace(context(), entropy=lambda size: next(_numbers).to_bytes(size, "big"))


def subscription(**changes: object) -> dict[str, Any]:
    """A browser's PushSubscription, changed as told."""
    keys = {"p256dh": changes.pop("p256dh", P256DH), "auth": changes.pop("auth", AUTH)}
    return {"endpoint": ENDPOINT, "expirationTime": None, "keys": keys, **changes}


def push(**options: Any) -> WebPush:
    """Build a provider with this key."""
    given = {"vapid_private_key": KEY, "subject": "mailto:ops@example.com", **options}
    return WebPush(WebPushOptions(**given))


def call(provider: WebPush | None = None, to: str = CANONICAL, said: Any = None, **more: Any) -> HttpRequest:
    """Build the call."""
    return (provider or push()).request(message(said, **more), address(to), CONTEXT)


# --- encryption ----------------------------------------------------------------------------------------------------


def test_the_example_of_the_rfc() -> None:
    """RFC 8291 appendix A: key, salt and text of the example give its message, byte by byte."""
    private = raw("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
    sealed = encrypt(
        b"When I grow up, I want to be a watermelon",
        raw(P256DH),
        raw(AUTH),
        salt=raw("DGv6ra1nlYgDCS1FRnbzlw"),
        seed=(int.from_bytes(private, "big") - 1).to_bytes(48, "big"),
    )
    assert text(sealed) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
        "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


def test_every_call_has_its_own_key() -> None:
    """Salt and key come from the context's entropy anew, so no two bodies are alike."""
    assert call().body[:86] != call().body[:86]
    with pytest.raises(TypeError):
        push().request(message(), address(CANONICAL), context())


def test_the_seed_is_any_bytes() -> None:
    """Every seed makes a valid key, also one of zeros or ones."""
    for seed in (bytes(48), b"\xff" * 48):
        assert len(encrypt(b"x", raw(P256DH), raw(AUTH), salt=bytes(16), seed=seed)) == 104


# --- the call ------------------------------------------------------------------------------------------------------


def test_call() -> None:
    """The endpoint is called as a stranger's, with all headers that services ask for."""
    request = call()
    assert (request.method, request.url, request.guarded) == ("POST", ENDPOINT, True)
    headers = dict(request.headers)
    assert headers["content-encoding"] == "aes128gcm"
    assert (headers["ttl"], headers["urgency"]) == ("2419200", "normal")
    assert len(headers["topic"]) == 32
    assert ENDPOINT not in repr(request)


def test_topic() -> None:
    """The Topic is the reference's: the same over all attempts, another one for another revision."""
    first, again = (dict(call(attempt=n).headers)["topic"] for n in (1, 2))
    other = dict(call(reference=f"{ID}.r2").headers)["topic"]
    assert first == again != other


@pytest.mark.parametrize(("seconds", "ttl"), [(90, "90"), (-5, "0"), (10_000, "600")])
def test_ttl(seconds: int, ttl: str) -> None:
    """A message is kept until it expires, and no longer than the channel says."""
    request = call(push(ttl=600), expires_at=NOW + seconds * 1_000_000, priority="high")
    headers = dict(request.headers)
    assert (headers["ttl"], headers["urgency"]) == (ttl, "high")


@pytest.mark.parametrize(
    ("endpoint", "audience"),
    [
        (ENDPOINT, "https://push.example.net"),
        ("https://push.example.net:443/x", "https://push.example.net"),
        ("https://push.example.net:8443/x", "https://push.example.net:8443"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/x", "http://[::1]:8080"),
    ],
)
def test_vapid(endpoint: str, audience: str) -> None:
    """The token is signed with our key for the endpoint's origin, and ends within a day (RFC 8292)."""
    provider = push()
    to = provider.address(subscription(endpoint=endpoint))
    authorization = dict(call(provider, to).headers)["authorization"]
    fields = dict(part.split("=", 1) for part in authorization.removeprefix("vapid ").split(","))
    assert fields["k"] == provider.public_key
    signed, _, signature = fields["t"].rpartition(".")
    header, claims = (json.loads(raw(part)) for part in signed.split("."))
    assert header == {"typ": "JWT", "alg": "ES256"}
    assert (claims["aud"], claims["sub"]) == (audience, "mailto:ops@example.com")
    assert 11 * 3600 < claims["exp"] - NOW // 1_000_000 <= 12 * 3600
    both = raw(signature)
    pair = encode_dss_signature(int.from_bytes(both[:32], "big"), int.from_bytes(both[32:], "big"))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw(fields["k"]))
    public.verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))


def test_one_token_for_an_origin() -> None:
    """Calls to one origin within an hour share a token."""
    provider = push()
    first = dict(call(provider).headers)["authorization"]
    to = provider.address(subscription(endpoint="https://push.example.net/other"))
    assert dict(call(provider, to).headers)["authorization"] == first


# --- what is carried -----------------------------------------------------------------------------------------------


def test_limit() -> None:
    """3,993 bytes of payload fill the 4,096 that every service takes; one more is refused at acceptance."""
    overhead = len(f'{{"body":"","tag":"{"x" * 44}"}}')
    fits = content(text="x" * (3_993 - overhead))
    push().check(fits)
    assert len(call(said=fits, reference="x" * 44).body) == 4_096
    with pytest.raises(PayloadTooLarge):
        push().check(content(text="x" * (3_994 - overhead)))
    with pytest.raises(InputError) as error:
        push().check(content(data={"at": object()}))
    assert error.value.field == "content.data"
    with pytest.raises(InputError) as error:
        push().check(content(text=None, html="<p>x</p>"))
    assert error.value.field == "content.html"


@pytest.mark.parametrize(
    "value",
    [
        subscription(),
        json.dumps(subscription()),
        CANONICAL,
        subscription(auth=AUTH + "==", p256dh=P256DH.replace("-", "+").replace("_", "/") + "="),
        {**subscription(), "options": {"userVisibleOnly": True}},
    ],
)
def test_subscription(value: object) -> None:
    """One device is one canonical text, however its subscription is written."""
    assert push().address(value) == CANONICAL


def test_stand_ins_without_tls() -> None:
    """Plain http is for this machine only."""
    for host in ("127.0.0.1:1", "localhost", "[::1]:2"):
        assert push().address(subscription(endpoint=f"http://{host}/x"))


@pytest.mark.parametrize(
    "value",
    [
        None, "", "nonsense", "[" * 100_000, "[]", 7, {}, {"endpoint": ENDPOINT}, {"endpoint": ENDPOINT, "keys": []},
        subscription(endpoint=None), subscription(endpoint=""), subscription(endpoint="push.example.net/x"),
        subscription(endpoint="http://push.example.net/x"), subscription(endpoint="http://10.0.0.1/x"),
        subscription(endpoint="ftp://127.0.0.1/x"), subscription(endpoint="https://"),
        subscription(endpoint="https://u:p@push.example.net/x"), subscription(endpoint="https://push.example.net/x#a"),
        subscription(endpoint="https://push.example.net/a b"), subscription(endpoint="https://push.example.net:x/"),
        subscription(endpoint="https://push.example.net:0/"), subscription(endpoint="https://a\\b/"),
        subscription(endpoint=ENDPOINT + "x" * 2_048),
        subscription(p256dh=None), subscription(p256dh="AAAA"), subscription(p256dh="!"), subscription(p256dh="A"),
        subscription(p256dh=text(b"\x04" + bytes(64))),
        subscription(auth=None), subscription(auth="AAAA"), subscription(auth=7),
    ],
)  # fmt: skip
def test_no_subscription(value: object) -> None:
    """What no browser gives is refused with the mend, and never repeated."""
    with pytest.raises(InputError) as error:
        push().address(value)
    assert (error.value.field, bool(error.value.mend)) == ("address", True)
    assert "example" not in str(error.value.message)


# --- options -------------------------------------------------------------------------------------------------------


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    """A key as PEM."""
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none).decode()


def test_key_as_pem() -> None:
    """The key is 32 bytes in base64url, padded or not, or PEM: all the same account."""
    key = ec.derive_private_key(int.from_bytes(raw(KEY), "big"), ec.SECP256R1())
    same = {push(vapid_private_key=form).account for form in (KEY, KEY + "=", pem(key))}
    assert len(same) == 1
    assert same == {push().account}
    assert KEY not in repr(push().options) + push().account


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"vapid_private_key": ""}, "vapid_private_key"),
        ({"vapid_private_key": "AAAA"}, "vapid_private_key"),
        ({"vapid_private_key": text(bytes(32))}, "vapid_private_key"),
        ({"vapid_private_key": text(b"\xff" * 32)}, "vapid_private_key"),
        ({"vapid_private_key": "-----BEGIN NOTHING-----"}, "vapid_private_key"),
        ({"vapid_private_key": pem(ec.generate_private_key(ec.SECP384R1()))}, "vapid_private_key"),
        ({"subject": "ops@example.com"}, "subject"),
        ({"subject": "mailto:ops@localhost"}, "subject"),
        ({"subject": "http://example.com"}, "subject"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": 2_419_201}, "ttl"),
    ],
)
def test_bad_options(options: dict[str, Any], field: str) -> None:
    """What push services would refuse is refused at start-up, by the option's name."""
    with pytest.raises(ConfigError) as error:
        push(**options)
    assert error.value.field == field


def test_subject_may_be_a_page() -> None:
    """A page where we are reached serves as well."""
    assert push(subject="https://example.com/contact")


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 402, 403, 404, 407])
def test_an_endpoint_speaks_for_itself(status: int) -> None:
    """What a stranger's endpoint says about our credentials pauses it alone, and drops nothing."""
    outcome = WebPush.outcome(HttpAnswer(status, {}, b"<html>"), context())
    assert (outcome.cls, outcome.scope, outcome.drop_address) == (OutcomeClass.AUTH, "endpoint", False)


def test_an_endpoint_can_not_stop_the_channel() -> None:
    """A 501 from one endpoint is its own failure, not the channel's."""
    assert WebPush.outcome(HttpAnswer(501), context()).cls is OutcomeClass.TRANSIENT


def test_the_message_is_known_by_its_place() -> None:
    """The message id is the resource that the service made."""
    answer = HttpAnswer(201, {"location": "https://push.example.net/m/1"})
    assert WebPush.outcome(answer, context()).message_id == "https://push.example.net/m/1"


def test_declarations() -> None:
    """A repeat replaces only what is not delivered yet, so a doubt counts as sent."""
    assert (WebPush.in_doubt, WebPush.push) == (InDoubt.ASSUME_SENT, True)


def test_the_endpoint_is_the_identity() -> None:
    """A subscription with other keys is the same address, one with another endpoint is another."""
    provider = push()
    first = provider.identity(provider.address(subscription()))
    renewed = provider.identity(provider.address(subscription(auth="AAAAAAAAAAAAAAAAAAAAAA")))
    other = provider.identity(provider.address(subscription(endpoint=ENDPOINT + "2")))
    assert first == renewed == ENDPOINT
    assert other != first
