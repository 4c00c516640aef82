"""A stand-in for the Apple Push Notification service, over HTTP/1.1: it checks tokens, headers and payloads.

Facts: developer.apple.com (Sending notification requests to APNs, Handling notification responses from APNs), the
reasons in sideshow/apns2 ``response.go``. A team that changes its token more than once in 20 minutes is told so, which
is how workers that each make their own are found. The real one speaks HTTP/2 only, with the same headers and bodies.

As a program: ``python -m ringonce.vendors.apns --key key.p8 --dead 0a…0a --fault 503:first=20`` writes the key to that
file before it prints its port.
"""

from __future__ import annotations

import json
import time
import uuid
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ringonce.core.base64url import from_base64url
from ringonce.vendors.bodies import document, reply
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ringonce.vendors.script import Fault

MAX_PAYLOAD = 4096
YOUNGEST, OLDEST = 1_200, 3_600
"""Seconds after which a team may, and must, have a new token."""
_REASONS = {
    400: "BadDeviceToken",
    403: "InvalidProviderToken",
    404: "BadPath",
    405: "MethodNotAllowed",
    410: "Unregistered",
    413: "PayloadTooLarge",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


class ApnsApi(HttpStandIn):
    """Knows one team with one key, which it makes itself, and one app.

    Args:
        dead: device tokens whose app is gone (410, as of ``died_at``); may be changed while it runs.
        foreign: tokens of the other environment (400 BadDeviceToken).
        topic: the app's.
        clock: seconds UTC.
        key_file: where to write the key.
        more: see StandIn.
    """

    key_id, team_id = "STANDINKEY", "STANDTEAM1"

    def __init__(
        self,
        *,
        dead: Collection[str] = (),
        foreign: Collection[str] = (),
        topic: str = "com.example.app",
        clock: Callable[[], float] = time.time,
        key_file: str | Path | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.dead = set(dead)
        self.died_at = int(clock() * 1_000)
        """When the dead ones were seen dead, in milliseconds UTC."""
        self.shown: dict[str, dict[str, Any]] = {}
        """What each device shows, by collapse id."""
        self.tokens: set[str] = set()
        """Every token that came, good or not."""
        self.topic = topic
        self._foreign = frozenset(foreign)
        self.clock = clock
        self._issued: list[int] = []
        if key_file is not None:
            Path(key_file).write_text(self.key, "ascii")

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @property
    def key(self) -> str:
        """The key as its .p8 file would hold it."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def identify(self, call: Call) -> tuple[str, str]:
        """The collapse id and the device's token."""
        return call.headers.get("apns-collapse-id", ""), call.path.removeprefix("/3/device/")

    def respond(self, call: Call) -> Reply:
        """What the service says."""
        device = self.identify(call)[1]
        if call.method != "POST":
            return _no(405, "MethodNotAllowed")
        if not call.path.startswith("/3/device/"):
            return _no(404, "BadPath")
        refused = self._token(call.headers.get("authorization", "")) or self._refused(call, device)
        if refused is not None:
            return refused
        collapse = call.headers.get("apns-collapse-id") or str(uuid.uuid4())
        self.shown.setdefault(device, {})[collapse] = document(call)
        return Reply(200, headers=(("apns-id", call.headers.get("apns-id", collapse)),), accepted=True)

    def refusal(self, fault: Fault) -> Reply:
        """An error as the service words it."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        return reply(fault.status, {"reason": _REASONS.get(fault.status, "Unknown")}, *fault.headers)

    def _refused(self, call: Call, device: str) -> Reply | None:
        headers, body = call.headers, document(call)
        if headers.get("apns-topic") != self.topic:
            return _no(400, "DeviceTokenNotForTopic" if headers.get("apns-topic") else "MissingTopic")
        if len(call.body) > MAX_PAYLOAD:
            return _no(413, "PayloadTooLarge")
        if not isinstance(body.get("aps"), dict):
            return _no(400, "PayloadEmpty")
        if headers.get("apns-push-type") not in {"alert", "background"}:
            return _no(400, "InvalidPushType")
        background = headers["apns-push-type"] == "background"
        if headers.get("apns-priority", "10") not in ({"1", "5"} if background else {"1", "5", "10"}):
            return _no(400, "BadPriority")
        if not headers.get("apns-expiration", "0").isdecimal():
            return _no(400, "BadExpirationDate")
        if len(headers.get("apns-collapse-id", "").encode()) > 64:
            return _no(400, "BadCollapseId")
        if device in self._foreign or len(device) % 2 or not set(device) <= set("0123456789abcdef"):
            return _no(400, "BadDeviceToken")
        if device in self.dead:
            return _no(410, "Unregistered", timestamp=self.died_at)
        return None

    def _token(self, authorization: str) -> Reply | None:
        """Why the token is refused; None: it is good."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return _no(403, "MissingProviderToken")
        self.tokens.add(token)
        claims = self._claims(token)
        if claims is None or type(claims.get("iat")) is not int:
            return _no(403, "InvalidProviderToken")
        issued: int = claims["iat"]
        if not issued <= self.clock() < issued + OLDEST:
            return _no(403, "ExpiredProviderToken")
        if any(0 < abs(issued - other) < YOUNGEST for other in self._issued):
            return _no(429, "TooManyProviderTokenUpdates")
        if issued not in self._issued:
            self._issued.append(issued)
        return None

    def _claims(self, token: str) -> dict[str, Any] | None:
        signed, _, signature = token.rpartition(".")
        try:
            raw = from_base64url(signature)
            both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
            self._key.public_key().verify(both, signed.encode(), ec.ECDSA(hashes.SHA256()))
            head, claims = (json.loads(from_base64url(part)) for part in signed.split("."))
        except (InvalidSignature, ValueError):
            return None
        known = (head.get("alg"), head.get("kid"), claims.get("iss")) == ("ES256", self.key_id, self.team_id)
        return claims if known else None


def _no(status: int, reason: str, **more: int) -> Reply:
    return reply(status, {"reason": reason, **more})


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for the Apple Push Notification service that fails as it is told.")
    parser.add_argument("--key", required=True, metavar="FILE", help="where to write the team's key")
    parser.add_argument("--dead", action="append", default=[], metavar="TOKEN")
    options = parser.parse_args()
    ApnsApi(key_file=options.key, dead=options.dead, **common(options)).run_until_stopped()


if __name__ == "__main__":
    main()
