"""Vonage's SMS API: one text per call, as a form; HTTP says 200 whatever happened, the body says what.

Facts: developer.vonage.com/en/api/sms, …/en/api-errors/sms, …/messaging/sms/guides/troubleshooting-sms. The answer
lists one entry for each part that a long text became. Nothing makes a second send harmless, and each part is billed.
Reports carry ``client-ref``. They are signed by a field ``sig`` (…/getting-started/concepts/signing-messages), or by a
token that holds a digest of the body (…/concepts/webhooks). Both hold a time; whether a callback that is tried again is
signed anew is unconfirmed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

if TYPE_CHECKING:
    from collections.abc import Sequence

_ERRORS = "developer.vonage.com/en/api-errors/sms"
_RECEIPTS = "developer.vonage.com/en/messaging/sms/guides/delivery-receipts"
_CODE = "json:err-code"
_PARTS = "policy: some parts of a text were taken and some refused, so it may or may not be shown"
_2XX = range(200, 300)
_REPORTS = {
    **dict.fromkeys(("accepted", "buffered", "submitted"), api.ReportKind.SENT),
    "delivered": api.ReportKind.DELIVERED,
    **dict.fromkeys(("failed", "expired", "rejected", "undeliverable"), api.ReportKind.FAILED),
}
_FORMS = {"api_key": "[!-~]+", "api_secret": "[!-~]+", "from_": r"\+?[0-9]{3,15}|[A-Za-z0-9 ]{1,11}"}
_LIFE = range(20_000, 604_800_001)  # milliseconds


def _said(name: str, cls: To, statuses: str, **more: object) -> api.Rule:
    """A refusal with one of these statuses."""
    told = {"status": tuple(statuses.split())}
    return api.Rule(f"vonage.{name}", cls, _ERRORS, status=_2XX, json=told, **more)  # type: ignore[arg-type]


def _told(name: str, cls: To, codes: str, **more: object) -> api.Rule:
    """A report with one of these codes (…/messaging/sms/guides/delivery-receipts). None proves an address dead."""
    told = {"err-code": tuple(codes.split())}
    return api.Rule(f"vonage.report_{name}", cls, _RECEIPTS, status=0, json=told, provider_code=_CODE, **more)  # type: ignore[arg-type]


RULES: tuple[api.Rule, ...] = (
    _said("accepted", To.ACCEPTED, "0", message_id="json:message-id"),
    api.Rule("vonage.in_part", To.TRANSIENT, _PARTS, status=_2XX, json={"status": "in part"}, ambiguous=True),
    _said("limited", To.RATE_LIMITED, "1 10", scope="channel"),
    _said("payload", To.INVALID_PAYLOAD, "2 3 12 22"),
    _said("unroutable", To.INVALID_RECIPIENT, "6"),
    _said("deactivated", To.INVALID_RECIPIENT, "33", drop_address=True),
    _said("barred", To.BLOCKED, "7", drop_address=True),
    _said("sender", To.AUTH, "15", scope="sender"),
    _said("account", To.AUTH, "4 8 9 11 14 23 29 32"),
    _said("failed", To.TRANSIENT, "5"),
    # A status that nobody knows is a refusal all the same.
    api.Rule("vonage.unknown", To.TRANSIENT, _ERRORS, status=_2XX, text="^[1-9]", at="status"),
    *api.JSON_API,
)
REPORTED: tuple[api.Rule, ...] = (
    _told("no_such_number", To.INVALID_RECIPIENT, "3 5 9"),
    _told("barred", To.BLOCKED, "4"),
    _told("payload", To.INVALID_PAYLOAD, "6 10 50 51 52 54"),
    _told("account", To.AUTH, "15 16"),
    api.Rule("vonage.reported", To.TRANSIENT, _RECEIPTS, status=0, provider_code=_CODE),
)


@dataclass(frozen=True)
class VonageOptions:
    """``api_key``, ``api_secret``: the account's. ``from``: a number, or a name of up to eleven letters and digits.

    ``status_callback``: where reports go; empty: where the account says. ``max_segments``: how many short messages one
    may become; 0: any number. ``receipt_secret``: the account's signature secret, by which reports are signed with
    SHA-256 or SHA-512 HMAC; several, while it is replaced.
    """

    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)
    from_: str
    status_callback: str = ""
    max_segments: int = 0
    base_url: str = "https://rest.nexmo.com"
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Vonage(api.Provider):
    """Short messages."""

    name = "vonage"
    reaches = "phone"
    title = "SMS by Vonage"
    answers_as = ("vonage_receipt",)
    features = api.Features()
    second_send = "shown again, billed"
    receipts_by = "reference"
    rules = (*(replace(rule, provider_code="json:status") for rule in RULES), *REPORTED)
    Options = VonageOptions

    def __init__(self, options: VonageOptions) -> None:
        """Check what can be checked. Raises ConfigError; its message never repeats the secret."""
        super().__init__(options)
        for name, form in _FORMS.items():
            if not re.fullmatch(form, getattr(options, name)):
                mend = f"it has the form {form}"
                raise api.ConfigError("this is none", field=name.rstrip("_"), mend=mend)
        self._url = f"{api.http_url(options.base_url, 'base_url')}/sms/json"
        self._text = partial(api.sms_text, most=options.max_segments)
        self._secrets = api.several(options.receipt_secret, "receipt_secret")
        self._report = {}
        if url := options.status_callback:
            callback = api.http_url(url, "status_callback", query=True)
            self._report = {"status-report-req": "1", "callback": callback}

    @cached_property
    def account(self) -> str:
        """A digest of the key, and the sender."""
        return f"vonage:{sha256(self.options.api_key.encode()).hexdigest()[:8]}:{self.options.from_}"

    def address(self, value: object) -> str:
        """A phone number with its country. Raises InputError."""
        return api.phone(value)

    def check(self, content: api.Content) -> None:
        """Refuse HTML alone, data, and what becomes more short messages than are allowed."""
        super().check(content)
        self._text(content)

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.HttpRequest:
        """The call."""
        options, text = self.options, self._text(message.content)
        form = {
            "api_key": options.api_key,
            "api_secret": options.api_secret,
            "from": options.from_.removeprefix("+"),
            "to": address.value.removeprefix("+"),
            "text": text,
            "type": "text" if api.segments(text).encoding == "gsm7" else "unicode",
            "client-ref": message.reference,
            **self._report,
        }
        if message.expires_at is not None:
            left = (message.expires_at - context.now) // 1_000
            form["ttl"] = str(min(max(left, _LIFE[0]), _LIFE[-1]))
        headers = (("content-type", "application/x-www-form-urlencoded"), ("user-agent", "ringonce"))
        return api.HttpRequest("POST", self._url, headers, urlencode(form).encode(), context.timeout)

    def receipts(self, callback: api.Callback, context: api.Context) -> Sequence[api.Report]:
        """What a callback tells of a message: by a form, by JSON or by the query. Raises ForgedError."""
        kind, _, token = callback.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            claims = api.hs256(token.strip(), self._secrets)
            api.fresh(claims.get("iat"), context.now)
            # The token covers the body and nothing else, so nothing else is read.
            if claims.get("payload_hash") != sha256(callback.body).hexdigest():
                raise api.ForgedError
            told = _fields(callback)
        else:
            try:
                told = _fields(callback) if callback.body else dict(api.callbacks.query(callback))
            except api.InputError:
                raise api.ForgedError from None  # the signature would stand in it
            # The same fields in one order, and what would part them replaced.
            signed = "".join(
                f"&{key}={str(value).replace('&', '_').replace('=', '_')}"
                for key, value in sorted(told.items())
                if key != "sig"
            ).encode(errors="surrogatepass")
            ways = [api.hmac_hex(signed, kind=kind) for kind in ("sha256", "sha512")]
            api.prove((api.callbacks.word(told.get("sig")) or "").lower(), self._secrets, *ways)
            api.fresh(told.get("timestamp"), context.now)
        word = api.callbacks.word
        status, code = word(told.get("status")) or "", word(told.get("err-code")) or ""
        what, id_ = _REPORTS.get(status), word(told.get("messageId")) or word(told.get("message_uuid"))
        if what is None:
            return ()
        outcome = None
        if what is api.ReportKind.FAILED:
            outcome = api.callbacks.reported(
                self.outcome, {"err-code": code}, f"{status} {code}".strip(), context
            )
        reference = word(told.get("client-ref")) or word(told.get("client_ref"))
        return (api.Report(what, reference, id_, outcome=outcome, id=f"{id_} {status} {code}"),)

    @classmethod
    def outcome(cls, answer: api.Answer, context: api.Context) -> api.Outcome:
        """All parts have one verdict, or none."""
        if isinstance(answer, api.HttpAnswer):
            answer = replace(answer, body=_joint(answer.body))
        return super().outcome(answer, context)


def _fields(callback: api.Callback) -> dict[str, Any]:
    form = api.callbacks.pairs(callback)
    return dict(form) if form else api.callbacks.document(callback.body)


def _joint(body: bytes) -> bytes:
    """The entry that decides, alone; what is no such list stays as it is."""
    try:
        entries = json.loads(body)["messages"]
        said = [str(entry["status"]) for entry in entries]
    except (ValueError, RecursionError, TypeError, LookupError):
        return body
    if len(set(said)) > 1 and "0" in said:
        return b'{"status":"in part"}'
    return json.dumps(entries[0] | {"status": said[0]}).encode() if said else body
