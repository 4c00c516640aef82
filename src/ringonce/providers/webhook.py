"""A signed HTTP call to the user's own endpoint: Standard Webhooks 1.0.0.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md — the id stays the same
over all attempts and is the receiver's idempotency key; the timestamp is that of the attempt; several signatures
let a secret be rotated. The status alone decides, the body is opaque; whatever is not named there is a failure
to be retried, so that 400 and 404 do not end a notification at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from urllib.parse import urlsplit

from ringonce.provider import (
    Address,
    ConfigError,
    Content,
    Context,
    Features,
    HttpRequest,
    InDoubt,
    InputError,
    Message,
    OutcomeClass,
    PayloadTooLarge,
    Provider,
    Rule,
)

_SPEC = "Standard Webhooks 1.0.0, Delivery and Retries"
_POLICY = "policy: the endpoint refuses us; others are not concerned"

_T = OutcomeClass.TRANSIENT

RULES: tuple[Rule, ...] = (
    Rule(
        "webhook.gone",
        OutcomeClass.INVALID_RECIPIENT,
        f"{_SPEC}: disable the endpoint",
        status=410,
        drop_address=True,
    ),
    Rule("webhook.throttled", OutcomeClass.RATE_LIMITED, _SPEC, status=429, scope="address"),
    Rule(
        "webhook.absent",
        OutcomeClass.NOT_IMPLEMENTED,
        "RFC 9110 section 15.6.2: this endpoint lacks it, its neighbours may not",
        status=501,
        scope="endpoint",
    ),
    Rule("webhook.refused", OutcomeClass.AUTH, _POLICY, status=(401, 403), scope="endpoint"),
    Rule("webhook.too_large", OutcomeClass.INVALID_PAYLOAD, "RFC 9110 section 15.5.14", status=413),
    Rule(
        "webhook.proxy",
        OutcomeClass.AUTH,
        "RFC 9110 section 15.5.8: our own proxy asks for credentials",
        status=407,
    ),
    Rule(
        "webhook.failed", _T, f"{_SPEC}: everything else is a failure to be retried", status=range(400, 500)
    ),
)

_LONGEST_URL = 2_048
_OVERHEAD = 1_024  # what the envelope may add to the content: ids, type, timestamp


@dataclass(frozen=True)
class WebhookOptions:
    """``secret``: whsec_ and the base64 form of 24 to 64 bytes. ``secrets``: several, while one is rotated out.

    ``max_bytes``: largest request body; the specification recommends at most 20 kB.
    """

    secret: str = field(default="", repr=False)
    secrets: str | tuple[str, ...] = field(default=(), repr=False)
    max_bytes: int = 20_000


class Webhook(Provider):
    """Standard Webhooks."""

    name = "webhook"
    title = "Webhook (Standard Webhooks 1.0.0)"
    features = Features(html=True, data=True, max_bytes=20_000)
    endpoints = True
    in_doubt = InDoubt.RESEND
    second_send = "ignored by the receiver, by its webhook-id"
    rules = RULES
    Options = WebhookOptions

    def __init__(self, options: WebhookOptions) -> None:
        """Decode the secrets. Raises ConfigError."""
        super().__init__(options)
        listed = options.secrets.split(",") if isinstance(options.secrets, str) else options.secrets
        texts = [text.strip() for text in (options.secret, *listed) if text.strip()]
        if not texts:
            raise ConfigError("provider webhook needs a secret", field="secret", mend=_MAKE_ONE)
        self._keys = tuple(dict.fromkeys(map(_key, texts)))
        if options.max_bytes <= _OVERHEAD:
            raise ConfigError("it leaves no room for a message", field="max_bytes", mend="leave it at 20000")

    @cached_property
    def account(self) -> str:
        """A digest of the newest secret."""
        return f"webhook:{hashlib.sha256(self._keys[0]).hexdigest()[:8]}"

    def address(self, value: object) -> str:
        """An absolute http or https URL. Raises InputError."""
        return endpoint(value)

    def check(self, content: Content) -> None:
        """Refuse content that would not fit into one call, or that JSON can not hold."""
        super().check(content)
        size = len(_json(_said(content)))
        if size > self.options.max_bytes - _OVERHEAD:
            raise PayloadTooLarge(
                f"{size} bytes, and a call carries {self.options.max_bytes} with its envelope",
                field="content",
                mend="send less, or a link to the rest",
            )

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The signed call. Every attempt carries the same id and body; timestamp and signature are its own."""
        body = _json(
            {
                "type": message.event_type or "notification",
                "timestamp": datetime.fromtimestamp(message.created_at / 1_000_000, UTC).isoformat(),
                "data": {
                    "notification_id": str(message.id),
                    "event_id": message.event_id,
                    "recipient": message.recipient,
                    **_said(message.content),
                },
            }
        )
        if len(body) > self.options.max_bytes:
            raise PayloadTooLarge(f"the body has {len(body)} bytes", field="content", mend="send less")
        # "." separates the signed parts, so an id must not hold one; ours do from the second revision on.
        reference = message.reference.replace(".", "_")
        timestamp = str(context.now // 1_000_000)
        signed = f"{reference}.{timestamp}.".encode() + body
        signatures = " ".join(f"v1,{_sign(key, signed)}" for key in self._keys)
        return HttpRequest(
            method="POST",
            url=address.value,
            headers=(
                ("content-type", "application/json"),
                ("user-agent", "ringonce"),
                ("webhook-id", reference),
                ("webhook-timestamp", timestamp),
                ("webhook-signature", signatures),
            ),
            body=body,
            timeout=context.timeout,
            guarded=True,
        )


_MAKE_ONE = (
    "make one: python -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\""
)
_HOST_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_ODD = re.compile(r"[\s\x00-\x20\x7f\\]")


def endpoint(value: object) -> str:
    """Check an endpoint's URL; scheme and host become lower-case ASCII, the rest stays as it is.

    Whether the host may be called (private networks) is decided when it is, by the address that it resolves to.
    Raises InputError; its message never repeats the URL, which may hold a key.
    """
    if not isinstance(value, str):
        raise _bad("a webhook's address is a URL", "give https://example.com/hook")
    text = value.strip(" ")
    if _ODD.search(text):  # before the parser, which would silently drop line breaks
        raise _bad("it holds spaces, backslashes or control characters", "percent-encode them")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _bad("this is not a URL", "give https://example.com/hook") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise _bad("this is not an absolute http or https URL", "give https://example.com/hook")
    if parts.username is not None or parts.password is not None:
        raise _bad("user and password do not belong into the URL", "calls are signed; verify the signature")
    if "#" in text:
        raise _bad("a fragment is never sent", "remove # and what follows")
    try:
        name = host if ":" in host else host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise _bad("the host name is not valid", "check the part after ://") from None
    if ":" not in name and not all(map(_HOST_LABEL.fullmatch, name.removesuffix(".").split("."))):
        raise _bad("the host name is not valid", "check the part after ://")
    netloc = (f"[{name}]" if ":" in name else name) + (f":{port}" if port is not None else "")
    tail = text[text.index("//") + 2 + len(parts.netloc) :]
    url = f"{parts.scheme}://{netloc}{tail if tail.startswith('/') else '/' + tail}"
    if not url.isascii():
        raise _bad("it holds letters outside ASCII", "percent-encode them")
    if len(url) > _LONGEST_URL:
        raise _bad(f"it is longer than {_LONGEST_URL} characters", "use a shorter URL")
    return url


def _bad(message: str, mend: str) -> InputError:
    return InputError(message, field="address", mend=mend)


def _key(secret: str) -> bytes:
    """The bytes behind a secret. The specification's libraries take it with or without the prefix."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise ConfigError(
            "a secret is whsec_ and the base64 form of 24 to 64 bytes", field="secret", mend=_MAKE_ONE
        )
    return key


def _sign(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode("ascii")


def _said(content: Content) -> dict[str, object]:
    said = {"title": content.title, "text": content.text, "html": content.html, "data": dict(content.data)}
    return {key: value for key, value in said.items() if value}


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            "it can not be written as JSON", field="content.data", mend="use plain JSON values"
        ) from None
