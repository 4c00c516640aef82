"""A stand-in for Twilio's Messages resource, with its codes.

Facts: twilio/twilio-oai ``spec/json/twilio_api_v2010.json``; twilio.com/docs/api/errors.

As a program: ``python -m ringonce.vendors.twilio --account AC1 --token t --stopped +447700900123 --fault 429:first=9``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from ringonce.vendors.bodies import form, reply
from ringonce.vendors.http import Call, Reply
from ringonce.vendors.reports import Planned, Reporter, Signed, Told, chosen, options
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.vendors.script import Fault

MAX_BODY = 1_600
_CODES = {400: 21617, 401: 20003, 403: 20005, 404: 20404, 429: 20429, 500: 20500, 503: 20503}


class TwilioApi(Reporter):
    """Knows one account and what is special about some numbers.

    Args:
        account: its SID.
        token: its token.
        stopped: numbers whose person sent STOP (21610).
        invalid: numbers that there are not (21211).
        closed: what numbers of countries begin with that the account may not send to (21408); may be changed.
        more: see Reporter. Callbacks go where the call says, signed by the account's token.
    """

    def __init__(
        self,
        account: str,
        token: str,
        *,
        stopped: Collection[str] = (),
        invalid: Collection[str] = (),
        closed: Collection[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(**{**more, "receipt_secret": more.get("receipt_secret") or token})
        self._account, self._path = account, f"/2010-04-01/Accounts/{account}/Messages.json"
        self._known = f"Basic {base64.b64encode(f'{account}:{token}'.encode()).decode()}"
        self.closed = set(closed)
        self._stopped, self._invalid = frozenset(stopped), frozenset(invalid)
        self.messages: list[dict[str, str]] = []
        """What was accepted, in order, with the ``sid`` that it got."""

    def identify(self, call: Call) -> tuple[str, str]:
        """The reference that the callback's URL holds, else the text; and the number."""
        told = form(call)
        asked = parse_qs(urlsplit(told.get("StatusCallback", "")).query).get("reference", [""])
        return asked[-1] or told.get("Body", ""), told.get("To", "")

    def respond(self, call: Call) -> Reply:
        """What the API says."""
        if call.headers.get("authorization") != self._known:
            return _no(401, 20003)
        if call.method != "POST" or call.path != self._path:
            return _no(404, 20404)
        told = form(call)
        if not (told.get("From") or told.get("MessagingServiceSid")):
            return _no(400, 21603)
        if told.get("To", "") in {"", *self._invalid}:
            return _no(400, 21211)
        if told["To"] in self._stopped:
            return _no(400, 21610)
        if told["To"].startswith(tuple(self.closed)):
            return _no(400, 21408)
        if not told.get("Body"):
            return _no(400, 21602)
        if len(told["Body"].encode("utf-16-le", "surrogatepass")) // 2 > MAX_BODY:
            return _no(400, 21617)
        told["sid"] = f"SM{uuid.uuid4().hex}"
        self.messages.append(told)
        body = {"sid": told["sid"], "status": "queued", "error_code": None, "error_message": None}
        return reply(201, body, accepted=True)

    def about(self, call: Call, reply: Reply) -> Told:
        """The message's SID, and the URL for reports."""
        told = form(call)
        reference, number = self.identify(call)
        return Told(reference, number, json.loads(reply.body)["sid"], told.get("StatusCallback", ""))

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """A form with the status; the URL and the fields in order are signed (HMAC-SHA1) by the token."""
        fields = {
            "AccountSid": self._account,
            "MessageSid": told.message_id,
            "MessageStatus": report.word,
            "To": told.address,
            **({"ErrorCode": report.code} if report.code else {}),
        }
        url = told.url or self.reports_to
        signed = url + "".join(key + fields[key] for key in sorted(fields))
        made = hmac.new(secret.encode(), signed.encode(), hashlib.sha1).digest()
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Twilio-Signature": base64.b64encode(made).decode(),
        }
        return Signed(url, headers, urlencode(fields).encode())

    def refusal(self, fault: Fault) -> Reply:
        """An error as the API words it."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        return _no(fault.status, _CODES.get(fault.status, 20001), *fault.headers)


def _no(status: int, code: int, *more: tuple[str, str]) -> Reply:
    where = f"https://www.twilio.com/docs/errors/{code}"
    return reply(status, {"code": code, "message": "refused", "more_info": where, "status": status}, *more)


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for Twilio's Messages that fails as it is told.")
    parser.add_argument("--account", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--stopped", action="append", default=[], metavar="NUMBER")
    options(parser)
    given = parser.parse_args()
    TwilioApi(
        given.account, given.token, stopped=given.stopped, **chosen(given), **common(given)
    ).run_until_stopped()


if __name__ == "__main__":
    main()
