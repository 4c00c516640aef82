"""MAX's Bot API: one message to a person or a chat, as plain text.

Facts: https://github.com/max-messenger-bot/max-bot-api-schemas (``schema_2026_07_01.yaml``), the clients
https://github.com/max-messenger/max-bot-api-client-go and -ts, and public clients for the codes that the schema
leaves out; in those ``code`` and ``message`` change places. No Retry-After, nothing makes a second send harmless.
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
    http_url,
    json_call,
    plain,
    prove,
    secret_text,
    several,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOME = "https://platform-api2.max.ru"
_SCHEMA = "max-messenger-bot/max-bot-api-schemas schema_2026_07_01.yaml"
_CLIENTS = "public clients: code and message change places"
_LONGEST = 4_000
_REFUSED = range(400, 500)
_REPORTS = {
    "bot_stopped": ReportKind.BLOCKED,
    "dialog_removed": ReportKind.BLOCKED,
    "bot_removed": ReportKind.BLOCKED,
    "bot_started": ReportKind.UNBLOCKED,
    "bot_added": ReportKind.UNBLOCKED,
}
"""Of a chat (``bot_removed``, ``bot_added``) the person is who did it, and of a dialog who it is with."""

RULES: tuple[Rule, ...] = (
    Rule(
        "max.accepted",
        OutcomeClass.ACCEPTED,
        f"{_SCHEMA}, SendMessageResult",
        status=200,
        text=r".",
        at="message.body.mid",
        message_id="json:message.body.mid",
    ),
    Rule(
        "max.no_success",
        OutcomeClass.INVALID_PAYLOAD,
        f"{_SCHEMA}, SimpleQueryResult: 200 with an error in it",
        status=200,
        json={"success": False},
    ),
    *JSON_API,
    Rule(
        "max.bad_token",
        OutcomeClass.AUTH,
        f"{_SCHEMA}, Error responses: with 401 and with 403",
        status=_REFUSED,
        json={"code": "verify.token"},
    ),
    # Also before a bot has passed moderation, and then for everybody: that the engine's breaker sees.
    Rule(
        "max.stopped",
        OutcomeClass.BLOCKED,
        _CLIENTS,
        status=_REFUSED,
        form=("json",),
        text=r'"(?:chat\.denied|error\.dialog\.suspended)"',
        drop_address=True,
    ),
    Rule(
        "max.unknown_chat",
        OutcomeClass.INVALID_RECIPIENT,
        _CLIENTS,
        status=_REFUSED,
        form=("json",),
        text=r'"(?:chat\.not\.found|[\w.]*dialog\.not\.?found)"',
    ),
    Rule(
        "max.not_ready",
        OutcomeClass.TRANSIENT,
        "max-messenger/max-bot-api-client-go error.go: the attachment is still worked on",
        status=400,
        json={"code": "attachment.not.ready"},
    ),
    Rule(
        "max.too_many",
        OutcomeClass.RATE_LIMITED,
        f"{_SCHEMA}: 30 requests a second",
        status=_REFUSED,
        json={"code": "too.many.requests"},
    ),
)


@dataclass(frozen=True)
class MaxOptions:
    """``token``: the bot's. ``receipt_secret``: the ``secret`` of its subscription; several, while it is replaced.

    ``base_url``: of a server that stands in.
    """

    token: str = field(repr=False)
    base_url: str = _HOME
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Max(Provider):
    """Messages of a bot."""

    name = "max"
    title = "MAX (Bot API)"
    # The schema says characters and not which; UTF-16 code units are never fewer.
    features = Features(max_text=_LONGEST, unit="utf16")
    receipts_by = "address"
    rules = tuple(replace(rule, provider_code="json:code") for rule in RULES)
    Options = MaxOptions

    def __init__(self, options: MaxOptions) -> None:
        """Check token and URL. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        token = secret_text(options.token, "token", "write it as the bot's page gave it, without Bearer")
        self._url = f"{http_url(options.base_url, 'base_url', usual=_HOME)}/messages"
        self._headers = (*JSON_HEADERS, ("authorization", token))
        self._secrets = several(options.receipt_secret, "receipt_secret")

    @cached_property
    def account(self) -> str:
        """A digest of the token: it has no public part."""
        return f"max:{digest(self.options.token)}"

    def address(self, value: object) -> str:
        """``user:NUMBER`` or ``chat:NUMBER``; a bare number is a person's, below 0 a chat's. Raises InputError."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        found = re.fullmatch(r" *(?:(user|chat):)?(-?[0-9]{1,18}) *", text) if isinstance(text, str) else None
        number = int(found[2]) if found else 0
        kind = (found[1] if found else None) or ("user" if number > 0 else "chat")
        if number == 0 or (kind == "user" and number < 0):
            raise InputError(
                "a MAX address is the number of a person or a chat",
                field="address",
                mend='give "user:4815162342" or "chat:-1001234"; a phone number is none',
            )
        return f"{kind}:{number}"

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and more than 4,000 UTF-16 code units of title and text together."""
        super().check(content)
        fits(together(content), _LONGEST, "utf16")

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. Without a format the text is shown as it is, whatever characters it holds."""
        kind, _, number = address.value.partition(":")
        body = {"text": fits(together(message.content), _LONGEST, "utf16")}
        return json_call(f"{self._url}?{kind}_id={number}", body, context.timeout, self._headers)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """Who stopped the bot, or started it again (schema, Update: milliseconds).

        Nothing is signed, the header repeats a secret (schema, /subscriptions). Raises ForgedError.
        """
        prove(callback.headers.get("x-max-bot-api-secret"), self._secrets, plain)
        told = callbacks.document(callback.body)
        what = str(told.get("update_type"))
        kind = _REPORTS.get(what)
        if kind is None:
            return ()
        chat, person = told.get("chat_id"), callbacks.at(told, "user").get("user_id")
        meant = [("chat", callbacks.word(chat))]
        if what not in {"bot_removed", "bot_added"}:
            meant.append(("user", callbacks.word(person)))
        at = callbacks.moment(told.get("timestamp"), 1_000)
        return [Report(kind, address=f"{whom}:{number}", at=at) for whom, number in meant if number]
