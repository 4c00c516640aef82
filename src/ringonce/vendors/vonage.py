"""A stand-in for Vonage's SMS API: HTTP 200 whatever happens, one entry for each part of a text.

Facts: developer.vonage.com/en/api/sms and …/en/api-errors/sms.

As a program: ``python -m ringonce.vendors.vonage --key k --secret s --barred 447700900123 --fault 503:first=9``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ringonce.core.sms import segments
from ringonce.vendors.bodies import form, reply
from ringonce.vendors.http import Call, Reply
from ringonce.vendors.reports import Planned, Reporter, Signed, Told, chosen, options
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.vendors.script import Fault

_NEEDED = ("from", "to", "text")


class VonageApi(Reporter):
    """Knows one account and what is special about some numbers.

    Args:
        key: the account's.
        secret: the account's.
        barred: numbers that may not be sent to (status 7).
        unroutable: numbers of no network (status 6).
        cut: numbers for which only the first part of a text is taken, the others are throttled (status 1).
        more: see Reporter. Callbacks go where the call says, signed by SHA-256 HMAC.
    """

    def __init__(
        self,
        key: str,
        secret: str,
        *,
        barred: Collection[str] = (),
        unroutable: Collection[str] = (),
        cut: Collection[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._known = (key, secret)
        self._special = {**dict.fromkeys(barred, "7"), **dict.fromkeys(unroutable, "6")}
        self._cut = frozenset(cut)
        self.messages: list[dict[str, str]] = []
        """What was accepted, in order."""

    def identify(self, call: Call) -> tuple[str, str]:
        """The reference, else the text; and the number."""
        told = form(call)
        return told.get("client-ref") or told.get("text", ""), told.get("to", "")

    def respond(self, call: Call) -> Reply:
        """What the API says."""
        if call.method != "POST" or call.path != "/sms/json":
            return Reply(404, b"<html>404 Not Found</html>", (("Content-Type", "text/html"),))
        told = form(call)
        if (told.get("api_key"), told.get("api_secret")) != self._known:
            return _said(told, "4")
        if not all(told.get(name) for name in _NEEDED):
            return _said(told, "2")
        special = self._special.get(told["to"])
        if special is not None:
            return _said(told, special)
        parts = len(segments(told["text"]).parts)
        self.messages.append(told)
        cut = told["to"] in self._cut
        return _said(told, *("1" if cut and part else "0" for part in range(parts)))

    def about(self, call: Call, reply: Reply) -> Told:
        """The id of its first part, the reference, and the URL for reports."""
        told = form(call)
        taken = [one for one in json.loads(reply.body)["messages"] if one["status"] == "0"]
        return Told(told.get("client-ref", ""), told["to"], taken[0]["message-id"], told.get("callback", ""))

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """A form with the status, and its signature in the field ``sig``."""
        fields = {
            "msisdn": told.address,
            "messageId": told.message_id,
            "status": report.word,
            "err-code": report.code or ("0" if report.word == "delivered" else "1"),
            "client-ref": told.reference,
            "timestamp": str(int(report.at or time.time())),
            "nonce": uuid.uuid4().hex,
        }
        signed = "".join(f"&{key}={fields[key]}" for key in sorted(fields))
        fields["sig"] = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return Signed(told.url or self.reports_to, headers, urlencode(fields).encode())

    def refusal(self, fault: Fault) -> Reply:
        """429 is a status inside a 200; anything else is the answer of something in between."""
        if fault.body is None and fault.status == 429:
            return _said({}, "1")
        return Reply(fault.status, fault.body or b"", fault.headers)


def _said(told: dict[str, str], *statuses: str) -> Reply:
    entries = [
        {"to": told.get("to", ""), "status": status}
        | ({"message-id": uuid.uuid4().hex.upper()[:16]} if status == "0" else {"error-text": "refused"})
        for status in statuses
    ]
    return reply(200, {"message-count": str(len(entries)), "messages": entries}, accepted="0" in statuses)


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for Vonage's SMS API that fails as it is told.")
    parser.add_argument("--key", required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--barred", action="append", default=[], metavar="NUMBER")
    options(parser)
    given = parser.parse_args()
    VonageApi(
        given.key, given.secret, barred=given.barred, **chosen(given), **common(given)
    ).run_until_stopped()


if __name__ == "__main__":
    main()
