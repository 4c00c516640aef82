"""A push service and the browsers behind it: gives out subscriptions, verifies senders, decrypts what they send.

Facts: RFC 8030 (TTL, Topic, statuses), RFC 8188 and 8291 (aes128gcm), RFC 8292 (VAPID); error bodies of
mozilla-services/autopush-rs. In a plan, the stage ``subscribe`` is the making of a subscription.

As a program: ``python -m ringonce.vendors.webpush --fault 503:first=20``; ``POST /subscribe`` with the sender's
public key as the body (or nothing) makes a browser and answers its PushSubscription.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ringonce.core.base64url import base64url, from_base64url
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.vendors.script import Fault

MAX_BODY = 4096
"""Bytes of a request's body."""
DAY = 86_400
SUBSCRIBE_PATH = "/subscribe"
_JSON = ("Content-Type", "application/json")
_VAPID = re.compile(
    r"vapid\s+(?:t=(?P<t>[\w.-]+)\s*,\s*k=(?P<k>[\w-]+)|k=(?P<k2>[\w-]+)\s*,\s*t=(?P<t2>[\w.-]+))"
)
_ERRORS = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 410: "Gone", 413: "Payload Too Large"}


@dataclass(slots=True)
class Browser:
    """One subscription. ``received``: payloads in order. ``shown``: tag to payload, as a service worker shows them."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    secret: bytes = field(repr=False)
    sender: str | None
    subscription: dict[str, Any]
    gone: bool = False
    received: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)


class PushService(HttpStandIn):
    """Answers 201 to what it could verify and decrypt.

    Args:
        clock: seconds UTC.
        more: see StandIn.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, **more: Any) -> None:
        super().__init__(**more)
        self.browsers: dict[str, Browser] = {}
        """Path of the endpoint to browser."""
        self._clock = clock
        self._made = 0

    # What the tests and the browser need.

    def subscribe(self, sender: str | None = None) -> dict[str, Any]:
        """A new browser's PushSubscription. ``sender``: the only VAPID public key that may send to it; None: any."""
        key, secret = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
        path = f"/push/{len(self.browsers) + 1}-{base64url(os.urandom(6))}"
        subscription = {
            "endpoint": self.url + path,
            "expirationTime": None,
            "keys": {"p256dh": base64url(_point(key.public_key())), "auth": base64url(secret)},
        }
        self.browsers[path] = Browser(key, secret, sender or None, subscription)
        return subscription

    def browser(self, subscription: dict[str, Any]) -> Browser:
        """The browser of a subscription."""
        return self.browsers[str(subscription["endpoint"]).removeprefix(self.url)]

    def unsubscribe(self, subscription: dict[str, Any]) -> None:
        """The person takes the permission back: 410 from now on."""
        self.browser(subscription).gone = True

    # The server.

    def stage(self, call: Call) -> str:
        """``subscribe`` for the making of a subscription."""
        return "subscribe" if call.path == SUBSCRIBE_PATH else ""

    def identify(self, call: Call) -> tuple[str, str]:
        """The payload's tag, and the endpoint's path."""
        browser = self.browsers.get(call.path)
        payload = None if browser is None else _opened(browser, call.body)
        return str((payload or {}).get("tag", "")), call.path

    def respond(self, call: Call) -> Reply:
        """What a push service says."""
        if self.stage(call):
            made = self.subscribe(call.body.decode("utf-8", "replace").strip())
            return Reply(201, json.dumps(made).encode(), (_JSON,), verdict="subscribed")
        browser = self.browsers.get(call.path)
        if browser is None:
            return _error(404, 102, "Invalid token")
        trouble = self._trouble(call, browser)
        if trouble is not None:
            return trouble
        payload = _opened(browser, call.body)
        if payload is None:
            return _error(400, 110, "The body can not be decrypted")
        self._made += 1
        browser.received.append(payload)
        browser.shown[str(payload.get("tag", self._made))] = payload
        headers = (("Location", f"{self.url}/m/{self._made}"), ("TTL", call.headers["ttl"]))
        return Reply(201, b"", headers, accepted=True)

    def refusal(self, fault: Fault) -> Reply:
        """An error with a body as the service words it."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        reply = _error(fault.status, None, "as planned")
        return Reply(fault.status, reply.body, (*reply.headers, *fault.headers))

    def _trouble(self, call: Call, browser: Browser) -> Reply | None:
        if browser.gone:
            return _error(410, 106, "No such subscription")
        ttl, topic = call.headers.get("ttl", ""), call.headers.get("topic", "")
        if not re.fullmatch(r"[0-9]+", ttl):
            return _error(400, 111, "Missing TTL header")
        if not re.fullmatch(r"[\w-]{0,32}", topic, re.ASCII):
            return _error(400, 113, "Topic must be no greater than 32 characters")
        if len(call.body) > MAX_BODY:
            return _error(413, 104, "This message is too large")
        if call.headers.get("content-encoding") != "aes128gcm":
            return _error(400, 110, "Missing Content-Encoding header")
        who = self._sender(call.headers.get("authorization", ""))
        if who is None or browser.sender not in {None, who}:
            return _error(401, 109, "VAPID public key mismatch" if who else "Invalid VAPID token")
        return None

    def _sender(self, authorization: str) -> str | None:
        """The public key that signed the request; None: nobody did (RFC 8292 sections 2 and 4.2)."""
        match = _VAPID.fullmatch(authorization)
        if match is None:
            return None
        token, public = match["t"] or match["t2"], match["k"] or match["k2"]
        signed, _, signature = token.rpartition(".")
        try:
            raw, claims = from_base64url(signature), json.loads(from_base64url(signed.partition(".")[2]))
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), from_base64url(public))
            pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
            key.verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return None
        now = self._clock()
        fits = (
            claims.get("aud") == self.url
            and now < claims.get("exp", 0) <= now + DAY
            and str(claims.get("sub", "")).startswith(("mailto:", "https:"))
        )
        return public if fits else None


def _opened(browser: Browser, body: bytes) -> dict[str, Any] | None:
    """The payload of a message of one record; None: it is not for this browser."""
    if len(body) < 104 or body[20] != 65:
        return None
    salt, theirs, sealed = body[:16], body[21:86], body[86:]
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
        shared = browser.key.exchange(ec.ECDH(), public)
        info = b"WebPush: info\0" + _point(browser.key.public_key()) + theirs + b"\x01"
        material = hmac.digest(hmac.digest(browser.secret, shared, "sha256"), info, "sha256")
        base = hmac.digest(salt, material, "sha256")
        key = hmac.digest(base, b"Content-Encoding: aes128gcm\0\x01", "sha256")[:16]
        nonce = hmac.digest(base, b"Content-Encoding: nonce\0\x01", "sha256")[:12]
        plain = AESGCM(key).decrypt(nonce, sealed, None)
        payload = json.loads(plain.rstrip(b"\0").removesuffix(b"\x02"))
    except (InvalidTag, ValueError):
        return None
    return payload if isinstance(payload, dict) else None


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _error(status: int, errno: int | None, message: str) -> Reply:
    words = _ERRORS.get(status, "Internal Server Error")
    body = {"code": status, "errno": errno, "error": words, "message": message}
    return Reply(status, json.dumps(body).encode(), (_JSON,))


def main() -> None:
    """Run as a program."""
    options = arguments("A push service that fails as it is told.").parse_args()
    PushService(**common(options)).run_until_stopped()


if __name__ == "__main__":
    main()
