"""Twilio's Messages resource: one short message per call, as a form.

Facts: twilio/twilio-oai ``spec/json/twilio_api_v2010.json``; codes: twilio.com/docs/api/errors. The body's ``code``
says whose fault it was. Nothing makes a second send harmless, and each is billed. Reports come to ``status_callback``
later, with the same codes; our reference is a parameter of that URL, so that calls without an answer are told, too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPEC = "twilio/twilio-oai spec/json/twilio_api_v2010.json"
_2XX, _SID = range(200, 300), "^[SM]M[0-9a-f]{32}$"
_LONGEST = 1_600
_LONGEST_LIFE = 36_000  # seconds
_GOOD = ("accepted", "scheduled", "queued", "sending", "sent", "delivered", "read", "partially_delivered")
_REPORTS = {
    **dict.fromkeys(("accepted", "scheduled", "queued", "sending", "sent"), api.ReportKind.SENT),
    **dict.fromkeys(("delivered", "partially_delivered"), api.ReportKind.DELIVERED),
    "read": api.ReportKind.READ,
    **dict.fromkeys(("failed", "undelivered", "canceled"), api.ReportKind.FAILED),
}
_PORTS = {"https": 443, "http": 80}
_FORMS = {"account_sid": "AC[A-Za-z0-9]{1,62}", "api_key": "(SK[A-Za-z0-9]{1,62})?", "auth_token": "[!-~]+"}
_SENDER = "21212 21603 21606 21701 21703 30032 30033 30034"


def _coded(name: str, cls: To, codes: str, **more: object) -> api.Rule:
    """An answer or a report with one of these codes."""
    source = f"twilio.com/docs/api/errors/{codes[:5]}"
    return api.Rule(f"twilio.{name}", cls, source, json={"code": tuple(map(int, codes.split()))}, **more)  # type: ignore[arg-type]


RULES: tuple[api.Rule, ...] = (
    api.Rule("twilio.accepted", To.ACCEPTED, _SPEC, status=_2XX, text=_SID, at="sid", message_id="json:sid"),
    *api.JSON_API,
    # Before the codes: 30025 and 30026 warn of a quota, and the message is on its way.
    api.Rule("twilio.reported", To.ACCEPTED, _SPEC, status=0, json={"status": _GOOD}),
    _coded("opted_out", To.BLOCKED, "21610", drop_address=True),
    _coded("carrier_blocked", To.BLOCKED, "30004"),
    _coded("no_such_number", To.INVALID_RECIPIENT, "21211 21217 21614 21635 30005 30006", drop_address=True),
    _coded("out_of_reach", To.INVALID_RECIPIENT, "21612"),
    _coded("account", To.AUTH, "20003 20005 20404 21608 30002"),
    _coded("country", To.AUTH, "21408", scope="country"),
    _coded("sender", To.AUTH, _SENDER, scope="sender"),
    _coded("content", To.INVALID_PAYLOAD, "21602 21617 21620 21654 21656 30007"),
    _coded("limited", To.RATE_LIMITED, "20429 21611", scope="channel"),
    # A carrier's limit concerns its own subscribers.
    _coded("carrier_limited", To.RATE_LIMITED, "30022 30023 30027 30450"),
    _coded("perhaps_sent", To.TRANSIENT, "30410", ambiguous=True),
    _coded("failed", To.TRANSIENT, "20500 20503 30001 30003 30008 30017"),
    api.Rule("twilio.cancelled", To.NOT_IMPLEMENTED, _SPEC, status=0, json={"status": "canceled"}),
    api.Rule("twilio.undelivered", To.TRANSIENT, _SPEC, status=0, json={"status": ("failed", "undelivered")}),
)


@dataclass(frozen=True)
class TwilioOptions:
    """``account_sid``, ``auth_token``: the account's. ``api_key``: an API key's SID, if ``auth_token`` is its secret.

    ``from``: a number, short code or sender name; or ``messaging_service``: a Messaging Service's SID.
    ``status_callback``: where reports go. ``receipt_secret``: the account's own token, by which they are signed, where
    ``auth_token`` is another one; several, while it is replaced. ``max_segments``: how many short messages one may
    become; 0: any number.
    """

    account_sid: str
    auth_token: str = field(repr=False)
    from_: str = ""
    messaging_service: str = ""
    api_key: str = ""
    status_callback: str = ""
    max_segments: int = 0
    base_url: str = "https://api.twilio.com"
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Twilio(api.Provider):
    """Short messages."""

    name = "twilio"
    reaches = "phone"
    title = "SMS by Twilio"
    answers_as = ("twilio_status",)
    features = api.Features(max_text=_LONGEST, unit="utf16")
    second_send = "shown again, billed"
    receipts_by = "reference"
    rules = tuple(replace(rule, provider_code="json:code") for rule in RULES)
    Options = TwilioOptions

    def __init__(self, options: TwilioOptions) -> None:
        """Check what can be checked. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        for name, form in _FORMS.items():
            if not re.fullmatch(form, getattr(options, name)):
                raise api.ConfigError("this is none", field=name, mend=f"it has the form {form}")
        service = options.messaging_service
        if bool(options.from_) is bool(service):
            raise api.ConfigError("who sends is unclear", field="from", mend="set it or messaging_service")
        self._sender = {"MessagingServiceSid": service} if service else {"From": options.from_}
        self._text = partial(api.sms_text, longest=_LONGEST, most=options.max_segments)
        base = api.http_url(options.base_url, "base_url")
        self._url = f"{base}/2010-04-01/Accounts/{options.account_sid}/Messages.json"
        callback = options.status_callback
        self._report = callback and api.http_url(callback, "status_callback", query=True)
        own = () if options.api_key else (options.auth_token,)
        self._secrets = (*own, *api.several(options.receipt_secret, "receipt_secret"))
        known = f"{options.api_key or options.account_sid}:{options.auth_token}".encode()
        self._headers = (
            ("content-type", "application/x-www-form-urlencoded"),
            ("user-agent", "ringonce"),
            ("authorization", f"Basic {base64.b64encode(known).decode()}"),
        )

    @cached_property
    def account(self) -> str:
        """The account and the sender, which most limits and refusals are about."""
        return f"twilio:{self.options.account_sid}:{self.options.from_ or self.options.messaging_service}"

    def scope_key(self, scope: str, content: api.Content, address: api.Address) -> str | None:
        """The country of the number."""
        return api.country(address.value) if scope == "country" else None

    def address(self, value: object) -> str:
        """A phone number with its country. Raises InputError."""
        return api.phone(value)

    def check(self, content: api.Content) -> None:
        """Refuse HTML alone, data, and what is longer than is carried or allowed."""
        super().check(content)
        self._text(content)

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.HttpRequest:
        """The call."""
        form = {"To": address.value, **self._sender, "Body": self._text(message.content)}
        if report := self._report:
            told = urlencode({"reference": message.reference})
            form["StatusCallback"] = f"{report}{'&' if '?' in report else '?'}{told}"
        if message.expires_at is not None:
            left = (message.expires_at - context.now) // 1_000_000
            form["ValidityPeriod"] = str(min(max(left, 1), _LONGEST_LIFE))
        return api.HttpRequest("POST", self._url, self._headers, urlencode(form).encode(), context.timeout)

    def receipts(self, callback: api.Callback, context: api.Context) -> Sequence[api.Report]:
        """The status in a callback; what is signed is the URL as it was called, and the form. Raises ForgedError.

        A body that is no form is signed by its digest in the URL
        (https://www.twilio.com/docs/usage/security#validating-requests).
        """
        query, form = dict(api.callbacks.query(callback)), api.callbacks.pairs(callback)
        fields = "".join(key + value for key, value in sorted(set(form)))
        signs = [
            api.hmac_sha1_base64((url + fields).encode(errors="surrogateescape"))
            for url in self._urls(callback)
        ]
        api.prove(callback.headers.get("x-twilio-signature"), self._secrets, *signs)
        told: dict[str, object] = dict(form)
        if not form and callback.body:
            if query.get("bodySHA256") != hashlib.sha256(callback.body).hexdigest():
                raise api.ForgedError
            told = api.callbacks.document(callback.body)
        status, sid = (
            api.callbacks.word(told.get("MessageStatus")),
            api.callbacks.word(told.get("MessageSid")),
        )
        kind = _REPORTS.get(status or "")
        if kind is None:
            return ()
        code, outcome = api.callbacks.word(told.get("ErrorCode")) or "", None
        if kind is api.ReportKind.FAILED:
            said = {"MessageStatus": status, "ErrorCode": code}
            outcome = api.callbacks.reported(self.outcome, said, f"{status} {code}".strip(), context)
        return (
            api.Report(kind, query.get("reference"), sid, outcome=outcome, id=f"{sid} {kind.value} {code}"),
        )

    def _urls(self, callback: api.Callback) -> set[str]:
        """The URL as it may have been called: with the usual port or without, or as it was set."""
        parts = urlsplit(callback.url)
        host, port = parts.hostname or "", _PORTS.get(parts.scheme)
        urls = {callback.url, *(parts._replace(netloc=name).geturl() for name in (host, f"{host}:{port}"))}
        if self._report and parts.query:
            urls.add(f"{self._report.partition('?')[0]}?{parts.query}")
        return urls

    @classmethod
    def outcome(cls, answer: api.Answer, context: api.Context) -> api.Outcome:
        """The answer; a report, which other words say the same in (status 0), as if it were one."""
        if isinstance(answer, api.HttpAnswer) and answer.status == 0:
            answer = replace(answer, body=_as_answer(answer.body))
        return super().outcome(answer, context)


def _as_answer(report: bytes) -> bytes:
    try:
        told = json.loads(report)
    except (ValueError, RecursionError):
        return b""
    told = told if isinstance(told, dict) else {}
    code = str(told.get("ErrorCode"))
    number = int(code) if re.fullmatch("[0-9]{1,6}", code) else None
    return json.dumps({"status": told.get("MessageStatus"), "code": number}).encode()
