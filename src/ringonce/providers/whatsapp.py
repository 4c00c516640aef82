"""WhatsApp's Cloud API: one message to a phone number, as plain text or by a template that Meta approved.

Facts: https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes.md and
https://github.com/david-lev/pywa (``pywa/errors.py``, ``types/message_status.py``). ``error.code`` decides, never the
HTTP status. An accepted message can still fail: a webhook tells so with the same codes, which is why each of them is
stated in both forms. Text is taken only within 24 hours of the person's last message. Nothing makes a second
send harmless; ``biz_opaque_callback_data`` comes back with the webhook and can decide a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ringonce.provider import (
    JSON_API,
    JSON_HEADERS,
    Address,
    Callback,
    ConfigError,
    Content,
    Context,
    Features,
    HttpRequest,
    InDoubt,
    InputError,
    Message,
    OutcomeClass,
    Provider,
    Report,
    ReportKind,
    Rule,
    callbacks,
    country,
    fits,
    hmac_hex,
    http_url,
    json_call,
    phone,
    plain,
    prove,
    secret_text,
    several,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOME = "https://graph.facebook.com"
_DOCS = "developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes.md"
_LONGEST = 4_096
_A, _B, _T = OutcomeClass.AUTH, OutcomeClass.BLOCKED, OutcomeClass.TRANSIENT
_IR, _IP = OutcomeClass.INVALID_RECIPIENT, OutcomeClass.INVALID_PAYLOAD
_REPORTS = {
    "sent": ReportKind.SENT,
    "delivered": ReportKind.DELIVERED,
    "read": ReportKind.READ,
    "played": ReportKind.READ,
    "failed": ReportKind.FAILED,
}
_R, _OFF = OutcomeClass.RATE_LIMITED, OutcomeClass.NOT_IMPLEMENTED

_CODES: tuple[tuple[str, OutcomeClass, tuple[int, ...], dict[str, Any]], ...] = (
    ("token", _A, (0, 3, 10, 190, *range(200, 300), 131005), {}),
    ("account", _A, (368, 131030, 131031, 131042), {}),
    ("sender", _A, (33, 131037, 131045, 133010), {"scope": "sender"}),
    # Sending on makes it worse.
    ("quality", _A, (131048, 131064), {"scope": "sender"}),
    ("pair_limited", _R, (131056,), {"scope": "address"}),
    ("limited", _R, (4, 80007, 130429), {"scope": "channel"}),
    ("country", _IR, (130497,), {"scope": "country"}),
    # No WhatsApp, too old an app, or blocked: Meta does not tell which.
    ("undeliverable", _IR, (131021, 131026), {}),
    ("opted_out", _B, (130472, 131049, 131050), {}),
    ("window_closed", _IP, (131047,), {}),
    ("template_off", _OFF, (132015, 132016, 132068, 132069), {"scope": "template"}),
    (
        "bad_message",
        _IP,
        (100, 131008, 131009, 131051, 131052, 131053, 131062, 132000, 132001, 132005, 132007, 132008, 132012),
        {},
    ),
    ("failed", _T, (1, 2, 131000, 131016, 131057, 135000), {}),
)


def _rules(prefix: str, status: range, path: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            f"whatsapp.{prefix}{name}",
            cls,
            _DOCS,
            status=status,
            json={path: codes},
            provider_code=f"json:{path}",
            **then,
        )
        for name, cls, codes, then in _CODES
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "whatsapp.accepted",
        OutcomeClass.ACCEPTED,
        "david-lev/pywa pywa/types/sent_message.py",
        status=range(200, 300),
        text=r".",
        at="messages.0.id",
        message_id="json:messages.0.id",
    ),
    *JSON_API,
    Rule(
        "whatsapp.no_such_number",
        _A,
        "developers.facebook.com/docs/graph-api/guides/error-handling: the object in the path does not exist",
        status=range(400, 500),
        json={"error.code": 100, "error.error_subcode": 33},
        scope="sender",
    ),
    *_rules("", range(300, 600), "error.code"),
    *_rules("receipt_", range(1), "statuses.0.errors.0.code"),
    Rule(
        "whatsapp.receipt",
        OutcomeClass.ACCEPTED,
        "david-lev/pywa pywa/types/message_status.py",
        status=0,
        json={"statuses.0.status": ("sent", "delivered", "read", "played")},
        message_id="json:statuses.0.id",
    ),
    Rule(
        "whatsapp.receipt_unknown",
        _T,
        f"{_DOCS}: a code that we do not know",
        status=0,
        json={"statuses.0.status": "failed"},
        provider_code="json:statuses.0.errors.0.code",
    ),
)


@dataclass(frozen=True)
class WhatsAppOptions:
    """``token``: of a system user. ``phone_number_id``: the sender's, from the app's page. ``version``: of the API.

    ``receipt_secret``: the app secret, by which callbacks are signed; several, while one is replaced. ``verify_token``:
    what the app's page sends when the callback's URL is set. ``base_url``: of a server that stands in.
    """

    token: str = field(repr=False)
    phone_number_id: str
    version: str = "v23.0"
    base_url: str = _HOME
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)
    verify_token: str = field(default="", repr=False)


class WhatsApp(Provider):
    """Messages of a business number."""

    name = "whatsapp"
    title = "WhatsApp (Cloud API)"
    answers_as = ("whatsapp_webhook",)
    features = Features(data=True, max_text=_LONGEST, unit="utf16")
    in_doubt = InDoubt.HOLD
    hold_for = 600 * 1_000_000
    second_send = "shown again; a receipt can tell of the first"
    receipts_by = "reference"
    rules = RULES
    Options = WhatsAppOptions

    def __init__(self, options: WhatsAppOptions) -> None:
        """Check token, number, version and URL. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        token = secret_text(options.token, "token", "write the access token of a system user")
        if not re.fullmatch(r"[0-9]{5,20}", options.phone_number_id):
            raise ConfigError(
                "this is no id", field="phone_number_id", mend="write the id that stands beside the number"
            )
        if not re.fullmatch(r"v[0-9]{1,3}\.[0-9]", options.version):
            raise ConfigError("this is no version", field="version", mend="write v23.0")
        home = http_url(options.base_url, "base_url", usual=_HOME)
        self._url = f"{home}/{options.version}/{options.phone_number_id}/messages"
        self._headers = (*JSON_HEADERS, ("authorization", f"Bearer {token}"))
        self._secrets = several(options.receipt_secret, "receipt_secret")
        self._verify = several(options.verify_token, "verify_token")

    @cached_property
    def account(self) -> str:
        """The sender's id: limits and quality count per number."""
        return f"whatsapp:{self.options.phone_number_id}"

    def scope_key(self, scope: str, content: Content, address: Address) -> str | None:
        """The template's name, or the country of the number."""
        if scope == "country":
            return country(address.value)
        template = content.data.get("template")
        return str(template.get("name")) if scope == "template" and isinstance(template, Mapping) else None

    def address(self, value: object) -> str:
        """A phone number with its country, E.164; WhatsApp's own ids leave the ``+`` out. Raises InputError."""
        return phone(f"+{value.strip().removeprefix('+')}" if isinstance(value, str) else value)

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data other than a template, and more than 4,096 UTF-16 code units of text."""
        super().check(content)
        _said(content)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call: the template if the data name one, else title and text as they are, without a preview."""
        body = {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": address.value,
            "biz_opaque_callback_data": message.reference,
            **_said(message.content),
        }
        return json_call(self._url, body, context.timeout, self._headers)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """The statuses in a callback, whose raw bytes are signed; they carry our reference. Raises ForgedError."""
        prove(callback.headers.get("x-hub-signature-256"), self._secrets, hmac_hex(callback.body, "sha256="))
        changes = [
            change
            for entry in callbacks.each(callbacks.document(callback.body).get("entry"))
            for change in callbacks.each(entry.get("changes"))
        ]
        statuses = [
            one for change in changes for one in callbacks.each(callbacks.at(change, "value").get("statuses"))
        ]
        return [
            _report(one, _REPORTS[one["status"]], context)
            for one in statuses
            if one.get("status") in _REPORTS
        ]

    def handshake(self, callback: Callback, context: Context) -> str | None:
        """The challenge of the app's page. Raises ForgedError: it does not know our ``verify_token``."""
        asked = dict(callbacks.query(callback))
        if callback.method != "GET" or "hub.challenge" not in asked:
            return None
        prove(asked.get("hub.verify_token"), self._verify, plain)
        return asked["hub.challenge"]


def _report(status: dict[str, Any], kind: ReportKind, context: Context) -> Report:
    outcome = None
    if kind is ReportKind.FAILED:
        errors = callbacks.each(status.get("errors"))[:1]
        words = [
            callbacks.word(error.get("title")) or callbacks.word(error.get("message")) for error in errors
        ]
        words += [callbacks.word(callbacks.at(error, "error_data").get("details")) for error in errors]
        said = {"statuses": [{"status": "failed", "errors": errors}]}
        outcome = callbacks.reported(WhatsApp.outcome, said, ": ".join(filter(None, words)), context)
    return Report(
        kind,
        callbacks.word(status.get("biz_opaque_callback_data")),
        callbacks.word(status.get("id")),
        outcome=outcome,
        at=callbacks.moment(status.get("timestamp")),
    )


def _said(content: Content) -> dict[str, object]:
    """What is said. Beside a template the text is another form of it, for channels that know no templates."""
    if not content.data:
        return {"type": "text", "text": {"body": fits(together(content), _LONGEST, "utf16")}}
    template = content.data.get("template")
    if not isinstance(template, Mapping) or len(content.data) > 1:
        raise _bad("the data hold one template and nothing else")
    name, language = template.get("name"), template.get("language")
    values = template.get("parameters", [])
    named = isinstance(values, Mapping)
    pairs = list(values.items()) if isinstance(values, Mapping) else [("", value) for value in _list(values)]
    texts = (name, language, *(value for pair in pairs for value in pair))
    if not (name and language and all(isinstance(text, str) for text in texts)):
        raise _bad("a template has a name, a language, and texts as parameters")
    said: dict[str, object] = {"name": name, "language": {"code": language}}
    if pairs:
        parameters = [
            {"type": "text", **({"parameter_name": key} if named else {}), "text": value}
            for key, value in pairs
        ]
        said["components"] = [{"type": "body", "parameters": parameters}]
    return {"type": "template", "template": said}


def _list(value: object) -> list[object]:
    if not isinstance(value, (list, tuple)):
        raise _bad("parameters are a list, or names with their values")
    return list(value)


def _bad(what: str) -> InputError:
    mend = 'write {"template": {"name": "order_shipped", "language": "en_US", "parameters": ["42"]}}'
    return InputError(what, field="content.data", mend=mend)
