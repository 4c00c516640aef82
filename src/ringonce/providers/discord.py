"""Discord's webhooks: one call posts one message into the channel that the webhook was made for.

Facts: https://github.com/discord/discord-api-docs (``developers/resources/webhook.mdx``,
``topics/rate-limits.mdx``, ``topics/opcodes-and-status-codes.mdx``). The code in the body decides. The URL is
address and credential at once, so what is wrong with it concerns nobody else; but 10,000 answers with 401, 403
or 429 within ten minutes shut out this host, so dead webhooks are dropped. A nonce is for bots only: nothing
makes a second send harmless. Nothing is reported about what a webhook posted: the events of an app
(``developers/events/webhook-events.mdx``) are proved and answered, and change nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.provider import (
    JSON_API,
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
    Rule,
    ed25519,
    fits,
    fresh,
    http_url,
    json_call,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOME = "https://discord.com"
_WEBHOOK = "discord/discord-api-docs resources/webhook.mdx"
_LIMITS = "discord/discord-api-docs topics/rate-limits.mdx"
_CODES = "discord/discord-api-docs topics/opcodes-and-status-codes.mdx"
_LONGEST = 2_000
_REFUSED = range(400, 500)
_OWN = r"https://(?:(?:canary|ptb)\.)?discord(?:app)?\.com"  # names of the same service, as its clients show them
_PATH = r"([0-9]{5,20}/[A-Za-z0-9_-]{16,128}(?:\?thread_id=[0-9]{5,20})?)"
# A URL stays as it is, so that it can be clicked on; everything else that is markup or a mention is escaped.
_MARKUP = re.compile(r"https?://[^\s<>\[\]()|*`]+|[\\`*_~|\[\]<>#]")
_IR, _IP, _R = OutcomeClass.INVALID_RECIPIENT, OutcomeClass.INVALID_PAYLOAD, OutcomeClass.RATE_LIMITED

RULES: tuple[Rule, ...] = (
    Rule(
        "discord.accepted",
        OutcomeClass.ACCEPTED,
        f"{_WEBHOOK}: wait=true",
        status=200,
        text=r".",
        at="id",
        message_id="json:id",
    ),
    Rule("discord.accepted_unseen", OutcomeClass.ACCEPTED, f"{_WEBHOOK}: as without wait", status=204),
    *JSON_API,
    Rule(
        "discord.all_limited",
        _R,
        f"{_LIMITS}: the whole host or account, not this webhook",
        status=429,
        json={"global": True},
        scope="channel",
    ),
    Rule(
        "discord.shut_out",
        _R,
        f"{_LIMITS}: without JSON it comes from what stands in front of the API",
        status=429,
        form=("page", "other"),
        scope="channel",
    ),
    Rule("discord.limited", _R, f"{_LIMITS}: this webhook, or its channel", status=429, scope="address"),
    # 401 and 404 by status, but it is the address that is wrong, and no credential of ours.
    Rule(
        "discord.no_webhook", _IR, _CODES, status=_REFUSED, json={"code": (10015, 50027)}, drop_address=True
    ),
    Rule("discord.no_thread", _IR, _CODES, status=_REFUSED, json={"code": (10003, 50083)}),
    Rule(
        "discord.bad_message",
        _IP,
        _CODES,
        status=_REFUSED,
        json={"code": (20009, 40005, 50006, 50035, 50109, 200000, 220001, 220002, 220003, 240000)},
    ),
    Rule("discord.user_agent", OutcomeClass.AUTH, _CODES, status=_REFUSED, json={"code": 40333}),
    Rule("discord.overloaded", OutcomeClass.TRANSIENT, _CODES, json={"code": 130000}),
    Rule(
        "discord.refused",
        OutcomeClass.AUTH,
        "policy: this webhook may not do it; others are not concerned",
        status=(401, 403),
        form=("json",),
        scope="endpoint",
    ),
)


@dataclass(frozen=True)
class DiscordOptions:
    """``base_url``: where all webhooks are called; of a server that stands in.

    ``public_key``: the app's, 64 hexadecimal digits, by which its events are proved.
    """

    base_url: str = _HOME
    public_key: str = ""


class Discord(Provider):
    """Messages into channels and threads."""

    name = "discord"
    title = "Discord (webhooks)"
    features = Features(max_text=_LONGEST, unit="utf16")
    receipts_by = "nothing"
    receipts_status = 204
    rules = tuple(replace(rule, provider_code="json:code") for rule in RULES)
    endpoints = True
    Options = DiscordOptions

    def __init__(self, options: DiscordOptions) -> None:
        """Check the URL. Raises ConfigError."""
        super().__init__(options)
        self._base = http_url(options.base_url, "base_url", usual=_HOME)
        self._url = f"{self._base}/api/v10/webhooks/"
        if not re.fullmatch("([0-9a-fA-F]{64})?", options.public_key):
            raise ConfigError(
                "this is no key", field="public_key", mend="write the 64 digits of the app's page"
            )
        self._key = bytes.fromhex(options.public_key)
        host = rf"(?:{_OWN}|{re.escape(self._base)})/api(?:/v[0-9]{{1,2}})?/webhooks/"
        self._known = re.compile(f"(?:{host})?{_PATH}")

    def address(self, value: object) -> str:
        """A webhook's URL, with ``?thread_id=`` for a thread. Kept is what tells it apart: id, token, thread.

        So the host is always the configured one, and a URL's other spellings are the same address. Raises
        InputError; its message never repeats the URL, which is a secret.
        """
        found = self._known.fullmatch(value.strip(" ")) if isinstance(value, str) else None
        if found is None:
            raise InputError(
                "a Discord address is the URL of a webhook",
                field="address",
                mend=f"give {self._base}/api/webhooks/…/…; another host is set by base_url",
            )
        return found[1]

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and more than 2,000 UTF-16 code units, as they are sent, of title and text."""
        super().check(content)
        _text(content)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. It waits, for without ``wait`` a message that was not saved is no error; nobody is mentioned."""
        body = {"content": _text(message.content), "allowed_mentions": {"parse": []}}
        joint = "&" if "?" in address.value else "?"
        return json_call(f"{self._url}{address.value}{joint}wait=true", body, context.timeout)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """Nothing, of any event that is signed; a PING is one like all others. Raises ForgedError."""
        stamp = callback.headers.get("x-signature-timestamp", "")
        signed = stamp.encode(errors="surrogateescape") + callback.body
        ed25519(self._key, callback.headers.get("x-signature-ed25519"), signed)
        fresh(stamp, context.now)
        return ()


def _text(content: Content) -> str:
    escaped = _MARKUP.sub(lambda part: part[0] if len(part[0]) > 1 else f"\\{part[0]}", together(content))
    return fits(escaped, _LONGEST, "utf16")
