"""Telegram's Bot API: one ``sendMessage`` per notification, as plain text.

Facts: https://core.telegram.org/bots/api and the server's own source, https://github.com/tdlib/telegram-bot-api
(``Client.cpp``, ``Query.cpp``) and https://github.com/tdlib/td (``MessagesManager.cpp``). The HTTP status repeats
``error_code``; a 400 means anything, so the description decides. Nothing makes a second send harmless.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ringonce.provider import (
    JSON_API,
    Address,
    Answer,
    Callback,
    ConfigError,
    Content,
    Context,
    Features,
    HttpAnswer,
    HttpRequest,
    InputError,
    Message,
    Outcome,
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
    several,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLIENT = "tdlib/telegram-bot-api Client.cpp"
_MANAGER = "tdlib/telegram-bot-api ClientManager.cpp"
_REWRITTEN = "tdlib/td MessagesManager.cpp: refusals in capitals come as 400"
_LONGEST = 4_096
_WHY = "description"
_MAY_NOT_WRITE = (
    r"not enough rights|no rights|need administrator rights|chat is restricted|WRITE_FORBIDDEN|CHAT_RESTRICTED"
    r"|CHAT_SEND_\w*FORBIDDEN|CHAT_ADMIN_REQUIRED|USER_BANNED"
)
_MEMBER = {
    "kicked": ReportKind.BLOCKED,
    "left": ReportKind.BLOCKED,
    "member": ReportKind.UNBLOCKED,
    "administrator": ReportKind.UNBLOCKED,
}
_WAIT = ("json:parameters.retry_after", r"text:retry after (\d+)")

_IR = OutcomeClass.INVALID_RECIPIENT
_IP = OutcomeClass.INVALID_PAYLOAD
_B = OutcomeClass.BLOCKED
_A = OutcomeClass.AUTH
_NO: dict[str, object] = {"ok": False}

RULES: tuple[Rule, ...] = (
    Rule(
        "telegram.accepted",
        OutcomeClass.ACCEPTED,
        "Bot API, Making requests",
        status=range(200, 300),
        json={"ok": True},
        message_id="json:result.message_id",
    ),
    *JSON_API,
    Rule(
        "telegram.migrated",
        _IR,
        "Bot API, ResponseParameters",
        json=_NO,
        re_address="json:parameters.migrate_to_chat_id",
    ),
    # A server that shuts down drops a running call with exactly this wait (Query.h), perhaps after it was done.
    Rule(
        "telegram.flood_or_shutdown",
        OutcomeClass.RATE_LIMITED,
        "tdlib/telegram-bot-api Query.h",
        status=429,
        text=r"retry after 5$",
        at=_WHY,
        retry_after=_WAIT,
        ambiguous=True,
    ),
    Rule(
        "telegram.flood",
        OutcomeClass.RATE_LIMITED,
        "Bot API, ResponseParameters",
        status=429,
        retry_after=_WAIT,
    ),
    Rule(
        "telegram.user_blocked_bot",
        _B,
        _CLIENT,
        status=(400, 403),
        json=_NO,
        text=r"blocked by the user|USER_IS_BLOCKED",
        at=_WHY,
        drop_address=True,
    ),
    Rule(
        "telegram.bot_removed",
        _B,
        _CLIENT,
        status=403,
        json=_NO,
        text=r"bot was kicked|bot is not a member",
        at=_WHY,
        drop_address=True,
    ),
    Rule(
        "telegram.user_deactivated",
        _IR,
        _CLIENT,
        status=(400, 403),
        json=_NO,
        text=r"user is deactivated|USER_DEACTIVATED|USER_DELETED",
        at=_WHY,
        drop_address=True,
    ),
    Rule(
        "telegram.is_a_bot",
        _IR,
        _CLIENT,
        status=403,
        json=_NO,
        text=r"can't send messages to (?:the bot|bots)",
        at=_WHY,
        drop_address=True,
    ),
    Rule(
        "telegram.chat_deleted",
        _IR,
        _CLIENT,
        status=(400, 403),
        json=_NO,
        text=r"chat was deleted|chat was deactivated",
        at=_WHY,
        drop_address=True,
    ),
    # Alive or unknown: the user may start the bot later, or another bot's token was deployed.
    Rule(
        "telegram.never_started",
        _IR,
        _CLIENT,
        status=(400, 403),
        json=_NO,
        text=r"can't initiate conversation|PEER_ID_INVALID",
        at=_WHY,
    ),
    Rule(
        "telegram.unknown_chat",
        _IR,
        _CLIENT,
        status=400,
        json=_NO,
        text=r"chat not found|user not found|CHAT_ID_INVALID|CHANNEL_(?:INVALID|PRIVATE)",
        at=_WHY,
    ),
    Rule(
        "telegram.topic_gone",
        _IR,
        _CLIENT,
        status=400,
        json=_NO,
        text=r"thread not found|TOPIC_(?:DELETED|CLOSED|ID_INVALID)",
        at=_WHY,
    ),
    Rule(
        "telegram.may_not_write",
        _B,
        _REWRITTEN,
        status=(400, 403),
        json=_NO,
        text=_MAY_NOT_WRITE,
        at=_WHY,
    ),
    Rule("telegram.forbidden", _B, _CLIENT, status=403, json=_NO),
    Rule("telegram.unauthorized", _A, _MANAGER, status=401),
    Rule("telegram.no_such_method", _IP, _CLIENT, status=404, json=_NO, text="method not found", at=_WHY),
    Rule(
        "telegram.no_such_bot",
        _A,
        "tdlib/telegram-bot-api HttpConnection.cpp: the path holds no valid token",
        status=404,
    ),
    Rule("telegram.wrong_shard", _A, _MANAGER, status=421),
    Rule("telegram.bad_request", _IP, _CLIENT, status=400, json=_NO),
)


@dataclass(frozen=True)
class TelegramOptions:
    """``token``: as given by BotFather. ``base_url``: of a Bot API server of your own.

    ``receipt_secret``: the ``secret_token`` that was given to setWebhook; several, while it is replaced.
    """

    token: str = field(repr=False)
    base_url: str = "https://api.telegram.org"
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Telegram(Provider):
    """Messages of a bot."""

    name = "telegram"
    title = "Telegram"
    features = Features(max_text=_LONGEST, unit="utf16")
    receipts_by = "address"
    rules = tuple(replace(rule, provider_code=f"json:{_WHY}") for rule in RULES)
    Options = TelegramOptions

    def __init__(self, options: TelegramOptions) -> None:
        """Check token and URL. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        if not re.fullmatch(r"[A-Za-z0-9_:-]{1,200}", options.token):
            raise ConfigError(
                "this is no bot token", field="token", mend="write it as BotFather gave it: 123456:ABC…"
            )
        base = http_url(options.base_url, "base_url", usual="https://api.telegram.org")
        self._url = f"{base}/bot{options.token}/sendMessage"
        self._secrets = several(options.receipt_secret, "receipt_secret")

    @cached_property
    def account(self) -> str:
        """The bot's number, which is the public part of its token; a digest where there is none."""
        bot, colon, _ = self.options.token.partition(":")
        return f"telegram:{bot if colon else digest(bot)}"

    def address(self, value: object) -> str:
        """A chat's number, or the @name of a public channel or group. Raises InputError."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str):
            text = text.strip(" ")
            # Chat ids have at most 52 significant bits (Bot API, Chat); longer ones are something else.
            if re.fullmatch(r"-?[0-9]{1,16}", text) and int(text) != 0:
                return str(int(text))
            if re.fullmatch(r"@[A-Za-z][A-Za-z0-9_]{3,31}", text):
                return text
        raise InputError(
            "a Telegram address is a chat's number or a channel's @name",
            field="address",
            mend='give "4815162342", "-1001234567890" or "@channel"; a phone number is none',
        )

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and more than 4,096 UTF-16 code units of title and text together."""
        super().check(content)
        _text(content)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. Without a parse mode the text is shown as it is, whatever characters it holds."""
        chat: int | str = address.value if address.value.startswith("@") else int(address.value)
        return json_call(self._url, {"chat_id": chat, "text": _text(message.content)}, context.timeout)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """Who blocked the bot, or unblocked it: the update ``my_chat_member`` (Bot API, ChatMemberUpdated).

        Nothing is signed, the header repeats a secret (``WebhookActor.cpp``). Raises ForgedError.
        """
        prove(callback.headers.get("x-telegram-bot-api-secret-token"), self._secrets, plain)
        told = callbacks.at(callbacks.document(callback.body), "my_chat_member")
        kind = _MEMBER.get(str(callbacks.at(told, "new_chat_member").get("status")))
        chat = callbacks.at(told, "chat")
        number, name = callbacks.word(chat.get("id")), callbacks.word(chat.get("username"))
        if kind is None or number is None:
            return ()
        # A group or channel may be known by its name, too; a person never is.
        known = [number, *([f"@{name}"] if name and chat.get("type") != "private" else [])]
        at = callbacks.moment(told.get("date"))
        return [Report(kind, address=value, at=at) for value in known]

    @classmethod
    def outcome(cls, answer: Answer, context: Context) -> Outcome:
        """The answer by its own ``error_code``: a proxy may have changed the HTTP status, to 200 even."""
        if isinstance(answer, HttpAnswer) and b'"error_code"' in answer.body and not answer.truncated:
            try:
                told = json.loads(answer.body)
            except (ValueError, RecursionError):
                told = None
            if isinstance(told, dict) and told.get("ok") is False and type(told.get("error_code")) is int:
                answer = replace(answer, status=told["error_code"])
        return super().outcome(answer, context)


def _text(content: Content) -> str:
    """Title and text as one message. Raises InputError, PayloadTooLarge."""
    return fits(together(content), _LONGEST, "utf16")
