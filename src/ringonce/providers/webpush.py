"""Web Push: messages to browsers, encrypted for the subscription and signed by us.

RFC 8030 (delivery), RFC 8188 and 8291 (encryption), RFC 8292 (VAPID). What the services answer: autopush-rs
(``autoendpoint/src/error.rs``), windows-dev-docs (``push-request-response-headers.md``), developer.apple.com and public
reports. The endpoint is the browser's word, so it is called like any stranger's, and what it says about credentials
concerns that endpoint alone. A repeat replaces a message that is not delivered yet (Topic), and what is shown if
the service worker uses the payload's ``tag``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ringonce.provider import (
    Address,
    ConfigError,
    Content,
    Context,
    Features,
    HttpRequest,
    InDoubt,
    InputError,
    Message,
    OutcomeClass,
    PayloadTooLarge,
    Provider,
    Rule,
    base64url,
    es256,
    from_base64url,
)

_RFC = "RFC 8030"
_AUTOPUSH = "mozilla-services/autopush-rs autoendpoint/src/error.rs"
_WNS = "MicrosoftDocs/windows-dev-docs push-request-response-headers.md"
_APPLE = "developer.apple.com, Sending web push notifications in web apps and browsers"

_ACCEPTED = OutcomeClass.ACCEPTED
_T = OutcomeClass.TRANSIENT
_R = OutcomeClass.RATE_LIMITED
_IR = OutcomeClass.INVALID_RECIPIENT
_A = OutcomeClass.AUTH
_2XX = range(200, 300)

RULES: tuple[Rule, ...] = (
    Rule("webpush.dropped", _T, _WNS, status=_2XX, header={"x-wns-status": "^dropped"}),
    Rule("webpush.channel_throttled", _R, _WNS, status=_2XX, header={"x-wns-status": "^channelthrottled"}),
    Rule(
        "webpush.foreign_page",
        _T,
        "policy: a page on 2xx is a proxy's or a captive portal's",
        status=_2XX,
        form=("page",),
    ),
    Rule("webpush.accepted", _ACCEPTED, f"{_RFC} section 5", status=_2XX, message_id="header:location"),
    Rule(
        "webpush.other_key",
        _IR,
        f"{_APPLE}: the subscription was made with another key",
        status=400,
        json={"reason": "VapidPkHashMismatch"},
        drop_address=True,
    ),
    Rule(
        "webpush.unsigned",
        _A,
        "github.com/web-push-libs/web-push/issues/237",
        status=400,
        text="UnauthorizedRegistration",
        scope="endpoint",
    ),
    # Seen for a day for subscriptions that were alive: no proof.
    Rule(
        "webpush.doubtful_endpoint",
        _IR,
        "github.com/zaru/webpush/issues/89",
        status=401,
        text="invalid push subscription endpoint",
    ),
    Rule(
        "webpush.domain_blocked",
        _A,
        f"{_WNS}: it is the sender's domain that is blocked",
        status=410,
        header={"x-wns-error-description": "domain blocked"},
        scope="endpoint",
    ),
    Rule(
        "webpush.gone",
        _IR,
        f"{_RFC} section 7.3; {_AUTOPUSH}, errno 102, 103, 105, 106",
        status=(404, 410),
        form=("json", "other"),
        drop_address=True,
    ),
    Rule("webpush.throttled", _R, _WNS, status=406),
    Rule(
        "webpush.refused",
        _A,
        "RFC 8292 section 4.2; policy: an endpoint speaks for itself alone",
        status=(401, 402, 403, 404, 407),
        scope="endpoint",
    ),
    Rule(
        "webpush.bridge_timeout",
        _T,
        "mozilla-services/autopush-rs autoendpoint/src/routers/mod.rs",
        status=502,
        json={"errno": 903},
        ambiguous=True,
    ),
    # The default would stop the channel, and any endpoint could say it.
    Rule("webpush.not_implemented", _T, "policy: an endpoint speaks for itself alone", status=501),
)

_RECORD = 4_096  # bytes that every service takes (RFC 8030 section 7.2)
_HEADER = 86  # salt 16, record size 4, length 1, key 65 (RFC 8188 section 2.1)
_LARGEST = _RECORD - _HEADER - 17  # delimiter 1 and tag 16
_LONGEST_REFERENCE = "x" * 44
_LONGEST_TTL = 2_419_200
_HOUR = 3_600
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_LONGEST_ENDPOINT = 2_048
_URL = re.compile(r"[\x21-\x7e]+")
_BASE64 = re.compile(r"[A-Za-z0-9_-]+")
_CONTACT = re.compile(r"mailto:[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+|https://[^\s/.]+(?:\.[^\s/.]+)+(?:/\S*)?")

_MAKE_ONE = (
    'make one: python -c "import base64; from cryptography.hazmat.primitives.asymmetric import ec; '
    "k = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value; "
    "print(base64.urlsafe_b64encode(k.to_bytes(32, 'big')).decode())\""
)
_MEND = 'send JSON.stringify(subscription): {"endpoint": "https://…", "keys": {"p256dh": "…", "auth": "…"}}'


@dataclass(frozen=True)
class WebPushOptions:
    """``vapid_private_key``: 32 bytes in base64url, or PEM. ``subject``: mailto: or https:, where you are reached.

    ``ttl``: seconds for which the push service keeps a message for a browser that is away.
    """

    vapid_private_key: str = field(repr=False)
    subject: str
    ttl: int = _LONGEST_TTL


class WebPush(Provider):
    """Messages to browsers."""

    name = "webpush"
    title = "Web Push (VAPID, aes128gcm)"
    answers_as = ("webpush_mozilla", "webpush_fcm", "webpush_wns", "webpush_apple")
    features = Features(data=True, max_bytes=_LARGEST)
    endpoints = True
    in_doubt = InDoubt.ASSUME_SENT
    second_send = "replaced while undelivered (Topic), tag in payload"
    push = True
    rules = RULES
    Options = WebPushOptions

    def __init__(self, options: WebPushOptions) -> None:
        """Read the key. Raises ConfigError; its message never repeats the key."""
        super().__init__(options)
        key = _private(options.vapid_private_key)
        if not _CONTACT.fullmatch(options.subject.strip()):
            raise ConfigError(
                "it is no mailto: or https: address that push services accept",
                field="subject",
                mend="write mailto:ops@your-domain.example; localhost is refused by some",
            )
        if not 0 <= options.ttl <= _LONGEST_TTL:
            raise ConfigError(f"it is not between 0 and {_LONGEST_TTL} seconds", field="ttl")
        self._public = base64url(_point(key.public_key()))

        @lru_cache(maxsize=1024)
        def token(origin: str, expires: int) -> str:
            claims = {"aud": origin, "exp": expires, "sub": options.subject.strip()}
            return es256(key, {"typ": "JWT"}, claims)

        self._token = token

    @cached_property
    def account(self) -> str:
        """A digest of the public key, which browsers subscribe with."""
        return f"webpush:{hashlib.sha256(self._public.encode()).hexdigest()[:8]}"

    @property
    def public_key(self) -> str:
        """The browser's ``applicationServerKey``: 65 bytes in base64url."""
        return self._public

    def address(self, value: object) -> str:
        """The browser's PushSubscription, as an object or its JSON text; its canonical JSON. Raises InputError."""
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        keys = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(keys, dict):
            raise _bad("this is no PushSubscription", _MEND)
        public, secret = _bytes(keys.get("p256dh")), _bytes(keys.get("auth"))
        if not _on_curve(public):
            raise _bad("keys.p256dh is no public key of the curve P-256", _MEND)
        if len(secret) != 16:
            raise _bad("keys.auth is not 16 bytes in base64url", _MEND)
        whole = {
            "endpoint": _endpoint(value.get("endpoint")),
            "keys": {"auth": base64url(secret), "p256dh": base64url(public)},
        }
        return _compact(whole).decode()

    def identity(self, value: str) -> str:
        """The endpoint: a browser that subscribes anew may keep it and change its keys."""
        endpoint: str = json.loads(value)["endpoint"]
        return endpoint

    def check(self, content: Content) -> None:
        """Refuse HTML alone, and what would not fit into one record."""
        super().check(content)
        _payload(content, _LONGEST_REFERENCE)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. Each one is encrypted with a key of its own; the Topic stays the same over all attempts."""
        subscription = json.loads(address.value)
        endpoint = subscription["endpoint"]
        body = encrypt(
            _payload(message.content, message.reference),
            _bytes(subscription["keys"]["p256dh"]),
            _bytes(subscription["keys"]["auth"]),
            salt=context.entropy(16),
            seed=context.entropy(48),
        )
        now, ttl = context.now // 1_000_000, self.options.ttl
        if message.expires_at is not None:
            ttl = min(ttl, max(0, message.expires_at // 1_000_000 - now))
        # One token serves an hour of calls; 24 hours are allowed (RFC 8292 section 2), clocks differ.
        token = self._token(_origin(endpoint), now // _HOUR * _HOUR + 12 * _HOUR)
        return HttpRequest(
            method="POST",
            url=endpoint,
            headers=(
                ("content-type", "application/octet-stream"),
                ("content-encoding", "aes128gcm"),
                ("user-agent", "ringonce"),
                ("ttl", str(ttl)),
                ("urgency", message.priority),
                ("topic", base64url(hashlib.sha256(message.reference.encode()).digest()[:24])),
                ("authorization", f"vapid t={token},k={self._public}"),
            ),
            body=body,
            timeout=context.timeout,
            guarded=True,
        )


def encrypt(plain: bytes, public: bytes, secret: bytes, *, salt: bytes, seed: bytes) -> bytes:
    """One record for the holder of ``public`` and ``secret``: RFC 8291 section 3.4, RFC 8188 section 2.

    ``salt``: 16 random bytes. ``seed``: 48 random bytes, from which the sender's key for this message is made.
    """
    # More bits than the order has, so that no value is likelier (FIPS 186-5, A.2.1).
    key = ec.derive_private_key(int.from_bytes(seed, "big") % (_ORDER - 1) + 1, _CURVE)
    ours = _point(key.public_key())
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, public))
    material = _expand(_extract(secret, shared), b"WebPush: info\0" + public + ours, 32)
    base = _extract(salt, material)
    content_key = _expand(base, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _expand(base, b"Content-Encoding: nonce\0", 12)
    sealed = AESGCM(content_key).encrypt(nonce, plain + b"\x02", None)
    return salt + _RECORD.to_bytes(4, "big") + bytes([len(ours)]) + ours + sealed


def _extract(salt: bytes, material: bytes) -> bytes:
    return hmac.digest(salt, material, "sha256")


def _expand(key: bytes, info: bytes, count: int) -> bytes:
    """RFC 5869 section 2.3; one block of 32 bytes is all that is asked for."""
    return hmac.digest(key, info + b"\x01", "sha256")[:count]


def _payload(content: Content, reference: str) -> bytes:
    """What the service worker gets. Raises InputError, PayloadTooLarge."""
    said = {"title": content.title, "body": content.text, "tag": reference, "data": dict(content.data)}
    try:
        payload = _compact({key: value for key, value in said.items() if value})
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            "it can not be written as JSON", field="content.data", mend="use plain JSON values"
        ) from None
    if len(payload) > _LARGEST:
        raise PayloadTooLarge(
            f"{len(payload)} bytes of title, text and data, and a push carries {_LARGEST}",
            field="content",
            mend="send less, and let the service worker fetch the rest",
        )
    return payload


def _private(text: str) -> ec.EllipticCurvePrivateKey:
    """Raises ConfigError."""
    text = text.strip()
    key: object = None
    try:
        if text.startswith("-----"):
            key = serialization.load_pem_private_key(text.encode(), None)
        elif len(raw := _bytes(text)) == 32:
            key = ec.derive_private_key(int.from_bytes(raw, "big"), _CURVE)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(
            "it is no private key of the curve P-256: 32 bytes in base64url, or PEM",
            field="vapid_private_key",
            mend=_MAKE_ONE,
        )
    return key


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _on_curve(point: bytes) -> bool:
    if len(point) != 65:
        return False
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, point)
    except ValueError:
        return False
    return True


def _endpoint(value: object) -> str:
    """An absolute https URL; http on this machine only, for stand-ins. Raises InputError that does not repeat it."""
    mend = "give the endpoint as the browser gave it"
    if not isinstance(value, str) or not _URL.fullmatch(value) or len(value) > _LONGEST_ENDPOINT:
        raise _bad("endpoint is no URL", mend)
    try:
        parts = urlsplit(value)
        host, usable = parts.hostname or "", parts.port != 0
    except ValueError:
        host, usable = "", False
    schemes = {"https", "http"} if _loopback(host) else {"https"}
    odd = parts.username is not None or "#" in value or "\\" in value if usable else True
    if odd or not host or parts.scheme not in schemes:
        raise _bad("endpoint is no absolute https URL", mend)
    return value


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _origin(endpoint: str) -> str:
    """Scheme, host and port, the last only where it is not the scheme's own (RFC 6454 section 6.1)."""
    parts = urlsplit(endpoint)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = {"https": 443, "http": 80}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in {None, usual} else "")


def _bad(message: str, mend: str) -> InputError:
    return InputError(message, field="address", mend=mend)


def _bytes(text: object) -> bytes:
    """Base64url with or without padding; nothing when it is none."""
    bare = text.rstrip("=").replace("+", "-").replace("/", "_") if isinstance(text, str) else ""
    if not _BASE64.fullmatch(bare):
        return b""
    try:
        return from_base64url(bare)
    except ValueError:
        return b""


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
