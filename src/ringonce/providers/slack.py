"""Slack's incoming webhooks: one call posts one plain text into the channel that the webhook was made for.

Facts: https://api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks and
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. Answers are plain words, success is
``ok``, and there is no message id. The URL is address and credential at once, so what is wrong with it concerns
nobody else. Nothing makes a second send harmless, and nothing is reported about what was posted: events of the app
are proved and answered (https://docs.slack.dev/authentication/verifying-requests-from-slack), and change nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ringonce.provider import (
    JSON_API,
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
    Rule,
    callbacks,
    fits,
    fresh,
    hmac_hex,
    http_url,
    json_call,
    prove,
    several,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_HOME = "https://hooks.slack.com"
_CHANGES = "api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks"
_ERRORS = "docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, Handling errors"
_COMMON = "docs.slack.dev/reference/methods, errors that all methods share"
_REFUSED = range(400, 500)
_LONGEST = 40_000
_PATH = re.compile(r"[A-Z0-9]{1,32}/[A-Z0-9]{1,32}/[A-Za-z0-9]{1,64}")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_WORD = r"text:^\s*([\w.-]+)\s*$"
_BAD_TOKEN = (
    "invalid_auth",
    "not_authed",
    "token_revoked",
    "token_expired",
    "account_inactive",
    "no_permission",
)
_A, _IP, _IR = OutcomeClass.AUTH, OutcomeClass.INVALID_PAYLOAD, OutcomeClass.INVALID_RECIPIENT


def _says(
    name: str, cls: OutcomeClass, words: str, source: str, status: Container[int] = _REFUSED, **then: Any
) -> Rule:
    text = rf"^\s*(?:{words})\s*$"
    return Rule(f"slack.{name}", cls, source, status=status, text=text, provider_code=_WORD, **then)


def _api(name: str, cls: OutcomeClass, *error: str, **then: Any) -> Rule:
    """The other form of answers: 200 with a verdict in JSON."""
    said: dict[str, object] = {"ok": False, **({"error": error} if error else {})}
    return Rule(f"slack.{name}", cls, _COMMON, status=200, json=said, provider_code="json:error", **then)


RULES: tuple[Rule, ...] = (
    _says("accepted", OutcomeClass.ACCEPTED, "ok", _CHANGES, (200,)),
    _api("api_broke", OutcomeClass.TRANSIENT, "internal_error", "fatal_error", ambiguous=True),
    _api("api_token", _A, *_BAD_TOKEN, scope="endpoint"),
    _api("api_failed", OutcomeClass.TRANSIENT),
    *JSON_API,
    _says("too_many", OutcomeClass.RATE_LIMITED, "rate_?limited", _ERRORS, scope="address"),
    _says("no_receiver", _IR, "user_not_found|channel_not_found", _CHANGES, drop_address=True),
    _says("no_webhook", _IR, "no_service|no_service_id|no_active_hooks|no_team", _ERRORS, drop_address=True),
    # Both can be undone by people there, and then the same URL works again.
    _says("archived", _IR, "channel_is_archived|team_disabled", _CHANGES),
    _says("bad_token", _A, "invalid_token", _ERRORS, scope="endpoint"),
    _says(
        "restricted", _A, "action_prohibited|posting_to_general_channel_denied", _CHANGES, scope="endpoint"
    ),
    _says(
        "bad_message",
        _IP,
        r"invalid_(?:payload|blocks\w*)|missing_text\w*|no_text|too_many_attachments",
        _ERRORS,
    ),
    Rule(
        "slack.unknown_word",
        _IR,
        "policy: a word for this URL that we do not know, and no proof that it is dead",
        status=(404, 410),
        form=("other",),
    ),
)


@dataclass(frozen=True)
class SlackOptions:
    """``base_url``: where all webhooks are; another one for GovSlack or a server that stands in.

    ``receipt_secret``: the app's signing secret; several, while it is replaced.
    """

    base_url: str = _HOME
    receipt_secret: str | tuple[str, ...] = field(default=(), repr=False)


class Slack(Provider):
    """Messages into channels."""

    name = "slack"
    title = "Slack (incoming webhooks)"
    features = Features(max_text=_LONGEST)
    receipts_by = "nothing"
    rules = RULES
    endpoints = True
    Options = SlackOptions

    def __init__(self, options: SlackOptions) -> None:
        """Check the URL. Raises ConfigError."""
        super().__init__(options)
        self._url = f"{http_url(options.base_url, 'base_url', usual=_HOME)}/services/"
        self._secrets = several(options.receipt_secret, "receipt_secret")

    def address(self, value: object) -> str:
        """A webhook's URL; kept is its path, so that the host is always the configured one. Raises InputError."""
        path = value.strip(" ").removeprefix(self._url) if isinstance(value, str) else ""
        if not _PATH.fullmatch(path):
            # The value is a secret: it is not repeated.
            raise InputError(
                "a Slack address is the URL of an incoming webhook",
                field="address",
                mend=f"give {self._url}T…/B…/…; another host is set by base_url",
            )
        return path

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and more than 40,000 characters, as they are sent, of title and text together."""
        super().check(content)
        _text(content)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. The text is shown as it is: no markup, and nobody is mentioned by it."""
        body = {"text": _text(message.content), "mrkdwn": False}
        return json_call(f"{self._url}{address.value}", body, context.timeout)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """Nothing, of any event that is signed. Raises ForgedError."""
        self._prove(callback, context)
        return ()

    def handshake(self, callback: Callback, context: Context) -> str | None:
        """The challenge of ``url_verification``. Raises ForgedError."""
        if b"url_verification" not in callback.body:
            return None
        self._prove(callback, context)
        told = callbacks.document(callback.body)
        return callbacks.word(told.get("challenge")) if told.get("type") == "url_verification" else None

    def _prove(self, callback: Callback, context: Context) -> None:
        stamp = callback.headers.get("x-slack-request-timestamp", "")
        signed = f"v0:{stamp}:".encode(errors="surrogateescape") + callback.body
        prove(callback.headers.get("x-slack-signature"), self._secrets, hmac_hex(signed, "v0="))
        fresh(stamp, context.now)


def _text(content: Content) -> str:
    return fits(together(content).translate(_ESCAPES), _LONGEST, "chars")
