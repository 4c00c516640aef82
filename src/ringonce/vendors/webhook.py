"""A receiver of signed webhooks, as Standard Webhooks asks for it: verifies, then ignores repeats.

Facts: the Standard Webhooks specification. The signed content is ``{id}.{timestamp}.{body}``, HMAC-SHA256
with the base64 part of ``whsec_…``; ``webhook-signature`` lists ``v1,<base64>`` separated by spaces; the
receiver checks the timestamp's age, compares in constant time, and uses ``webhook-id`` to tell repeats.

As a program: ``python -m ringonce.vendors.webhook --secret whsec_… --fault 503:first=20``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any

from ringonce.errors import InputError
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.ledger import REPEAT
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOLERANCE = 300
"""Seconds that a timestamp may be off."""


class WebhookReceiver(HttpStandIn):
    """Answers 204 to a valid delivery, 401 to any other; a known ``webhook-id`` is answered 204 and ignored.

    Args:
        secrets: ``whsec_…``; a signature with any of them is valid (so that they can be rotated).
        clock: seconds UTC.
        more: see StandIn.

    Raises:
        InputError: a secret is not base64.
    """

    def __init__(
        self, secrets: Sequence[str], *, clock: Callable[[], float] = time.time, **more: Any
    ) -> None:
        super().__init__(**more)
        try:
            self._keys = [
                base64.b64decode(secret.removeprefix("whsec_"), validate=True) for secret in secrets
            ]
        except binascii.Error:
            raise InputError(
                "a secret is not base64", field="secret", mend="whsec_ and then base64 of 24 to 64 bytes"
            ) from None
        self._clock = clock
        self._seen: set[str] = set()

    def identify(self, call: Call) -> tuple[str, str]:
        """``webhook-id`` and the path."""
        return call.headers.get("webhook-id", ""), call.path

    def respond(self, call: Call) -> Reply:
        """Verify, then tell repeats."""
        if not self._valid(call):
            return Reply(401, b'{"error":"invalid signature"}', (("Content-Type", "application/json"),))
        reference = call.headers["webhook-id"]
        if reference in self._seen:
            return Reply(204, verdict=REPEAT)
        self._seen.add(reference)
        return Reply(204, accepted=True)

    def _valid(self, call: Call) -> bool:
        reference = call.headers.get("webhook-id", "")
        stamp = call.headers.get("webhook-timestamp", "")
        if not reference or not stamp.isascii() or not stamp.isdigit():
            return False
        if abs(self._clock() - int(stamp)) > TOLERANCE:
            return False
        content = f"{reference}.{stamp}.".encode() + call.body
        expected = [hmac.new(key, content, hashlib.sha256).digest() for key in self._keys]
        valid = False
        for part in call.headers.get("webhook-signature", "").split():
            version, _, text = part.partition(",")
            try:
                given = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                continue
            for digest in expected:
                valid |= version == "v1" and hmac.compare_digest(digest, given)
        return valid


def main() -> None:
    """Run as a program."""
    parser = arguments("A receiver of signed webhooks that fails as it is told.")
    parser.add_argument("--secret", action="append", required=True, metavar="whsec_…")
    options = parser.parse_args()
    WebhookReceiver(options.secret, **common(options)).run_until_stopped()


if __name__ == "__main__":
    main()
