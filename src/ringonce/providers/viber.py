"""Viber's REST bot API: one ``send_message`` to a person who subscribed to the bot, as plain text.

HTTP is 200 whatever happened; the verdict is ``status`` in the body, and the names of its values are those that
public clients of developers.viber.com/docs/api/rest-bot-api agree on. There is no Retry-After. ``tracking_data``
is only given back with the person's next message: nothing makes a second send harmless. Callbacks tell of a message by
its token (https://github.com/Viber/viber-bot-python, README and ``viberbot/api/api.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

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
    InputError,
    Message,
    OutcomeClass,
    Provider,
    Report,
    ReportKind,
    Rule,
    callbacks,
    digest,
    fits,
    hmac_hex,
    http_url,
    json_call,
    prove,
    secret_text,
    several,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOME = "https://chatapi.viber.com"
_DOCS = "developers.viber.com/docs/api/rest-bot-api, Error codes"
_LONGEST = 7_000
_LONGEST_NAME = 28
_IR, _IP = OutcomeClass.INVALID_RECIPIENT, OutcomeClass.INVALID_PAYLOAD
_A, _B = OutcomeClass.AUTH, OutcomeClass.BLOCKED
_REPORTS = {
    "delivered": ReportKind.DELIVERED,
    "seen": ReportKind.READ,
    "failed": ReportKind.FAILED,
    "subscribed": ReportKind.UNBLOCKED,
    "unsubscribed": ReportKind.BLOCKED,
}


def _says(name: str, cls: OutcomeClass, *status: int, source: str = _DOCS, drop: bool = False) -> Rule:
    return Rule(f"viber.{name}", cls, source, status=200, json={"status": status}, drop_address=drop)


RULES: tuple[Rule, ...] = (
    Rule(
        "viber.accepted",
        OutcomeClass.ACCEPTED,
        "Viber/viber-bot-python README.md",
        status=200,
        json={"status": 0},
        message_id="json:message_token",
    ),
    _says("bad_token", _A, 2),
    _says("not_registered", _IR, 5, drop=True),
    # github.com/Bogdaan/viber-bot-php/issues/22: also just after the first message; a new subscription registers anew.
    _says("not_subscribed", _B, 6, drop=True),
    _says("bot_blocked", _A, 7, 8, 9, 15),
    _says("no_webhook", _A, 10, source=f"{_DOCS}: a bot without a webhook can not send at all"),
    _says("no_device", _IR, 11),
    _says("too_many", OutcomeClass.RATE_LIMITED, 12),
    _says("bad_message", _IP, 1, 3, 4, 13, 14, 16, 17, 18, 22),
    _says("no_broadcast", _A, 19, 20),
    _says("no_such_country", _IR, 21),
    _says("unpaid", _A, 23, 24, source=f"{_DOCS}: the month's free messages are used up, or no balance"),
    Rule(
        "viber.failed",
        OutcomeClass.TRANSIENT,
        f"{_DOCS}: any other value is a general error",
        status=200,
        text=r"^-?\d+$",
        at="status",
    ),
    *JSON_API,
)
REPORTED = Rule(
    "viber.reported",
    OutcomeClass.TRANSIENT,
    "Viber/viber-bot-python README.md: a failure is told in words alone",
    status=0,
    json={"event": "failed"},
    provider_code="json:desc",
)


@dataclass(frozen=True)
class ViberOptions:
    """``token``: the bot's. ``sender``: who the message is from, at most 28 characters. ``avatar``: a picture's URL.

    ``receipt_secret``: tokens besides this one by which callbacks may be signed, while it is replaced.
    ``base_url``: of a server that stands in.
    """

    token: str = field(repr=False)
    sender: str
    avatar: str = ""
    base_url: str = _HOME
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Viber(Provider):
    """Messages of a bot."""

    name = "viber"
    title = "Viber (REST bot API)"
    answers_as = ("viber_webhook",)
    features = Features(max_text=_LONGEST, unit="utf16")
    receipts_by = "message_id"
    rules = (*(replace(rule, provider_code="json:status_message") for rule in RULES), REPORTED)
    Options = ViberOptions

    def __init__(self, options: ViberOptions) -> None:
        """Check token, name and URL. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        token = secret_text(options.token, "token", "write it as the bot's page in the app shows it")
        if not options.sender.strip() or len(options.sender) > _LONGEST_NAME:
            raise ConfigError(
                f"a sender has 1 to {_LONGEST_NAME} characters", field="sender", mend="write a short name"
            )
        self._sender = {"name": options.sender, **({"avatar": options.avatar} if options.avatar else {})}
        self._url = f"{http_url(options.base_url, 'base_url', usual=_HOME)}/pa/send_message"
        self._headers = (*JSON_HEADERS, ("x-viber-auth-token", token))
        self._secrets = (token, *several(options.receipt_secret, "receipt_secret"))

    @cached_property
    def account(self) -> str:
        """A digest of the token: its parts are all secret."""
        return f"viber:{digest(self.options.token)}"

    def address(self, value: object) -> str:
        """A person's id, as the bot's webhook was told it. Raises InputError."""
        text = value.strip(" ") if isinstance(value, str) else ""
        if not re.fullmatch(r"[A-Za-z0-9+/_=-]{8,64}", text) or re.fullmatch(r"\+?[0-9-]+", text):
            raise InputError(
                "a Viber address is the id of a subscriber",
                field="address",
                mend='give the id from the event "subscribed", e.g. "01234567890A="; a phone number is none',
            )
        return text

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and more than 7,000 UTF-16 code units of title and text together."""
        super().check(content)
        fits(together(content), _LONGEST, "utf16")

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. The text is shown as it is; the client reference travels as ``tracking_data``."""
        body = {
            "receiver": address.value,
            "type": "text",
            "sender": self._sender,
            "tracking_data": message.reference,
            "text": fits(together(message.content), _LONGEST, "utf16"),
        }
        return json_call(self._url, body, context.timeout, self._headers)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """What a callback tells of a message, or of a person who left or came; its bytes are signed by the token.

        The event ``webhook``, by which Viber tries the URL, holds nothing. Raises ForgedError.
        """
        prove(callback.headers.get("x-viber-content-signature"), self._secrets, hmac_hex(callback.body))
        told = callbacks.document(callback.body)
        kind = _REPORTS.get(str(told.get("event")))
        if kind is None:
            return ()
        # https://developers.viber.com/docs/api/rest-bot-api, Callbacks: milliseconds.
        at = callbacks.moment(told.get("timestamp"), 1_000)
        if kind in {ReportKind.BLOCKED, ReportKind.UNBLOCKED}:
            person = callbacks.word(told.get("user_id")) or callbacks.word(
                callbacks.at(told, "user").get("id")
            )
            return (Report(kind, address=person, at=at),) if person else ()
        outcome = None
        if kind is ReportKind.FAILED:
            why = callbacks.word(told.get("desc"))
            outcome = callbacks.reported(self.outcome, {"event": "failed", "desc": why}, why, context)
        return (Report(kind, message_id=callbacks.word(told.get("message_token")), outcome=outcome, at=at),)
