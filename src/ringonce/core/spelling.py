"""What most providers spell alike: a digest in an account's name, one plain text, a JSON call."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ringonce.core.compact import json_bytes
from ringonce.core.text import length
from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.model.exchange import HttpRequest

if TYPE_CHECKING:
    from ringonce.model.notification import Content

JSON_HEADERS: Final = (("content-type", "application/json"), ("user-agent", "ringonce"))
"""What a call needs besides its credential."""

_UNITS: Final = {"utf16": "UTF-16 code units", "bytes": "bytes", "chars": "characters"}


def secret_text(value: str, key: str, mend: str) -> str:
    """A credential that goes into a header as it is: 1 to 1,024 visible ASCII characters.

    Raises ConfigError for ``key``; its message does not repeat the value.
    """
    if not re.fullmatch(r"[\x21-\x7e]{1,1024}", value):
        raise ConfigError("this can not be one: it is empty or holds spaces", field=key, mend=mend)
    return value


def digest(secret: str) -> str:
    """Eight hexadecimal digits that tell two secrets apart and do not give them away."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


def endpoint_key(url: str) -> str:
    """An endpoint's host, and a digest that tells it from its neighbours: its path may be a secret."""
    host = urlsplit(url).hostname or ""
    return f"{host}#{hashlib.sha256(url.encode()).hexdigest()[:12]}"


def together(content: Content) -> str:
    """Title and text as one plain text, an empty line between them. Raises InputError: nothing is visible."""
    text = "\n\n".join(part for part in (content.title, content.text) if part)
    if not text.strip():
        raise InputError("a message needs a visible text", field="content.text", mend="give a content.text")
    return text


def fits(text: str, limit: int, unit: str) -> str:
    """The text, as it will be sent. Raises PayloadTooLarge: it is longer than ``limit`` in ``unit`` of ``length``."""
    size = length(text, unit)
    if size > limit:
        raise PayloadTooLarge(
            f"title and text have {size} {_UNITS[unit]} as they are sent, and a message carries {limit}",
            field="content.text",
            mend="shorten it; a message is never cut",
        )
    return text


def json_call(
    url: str,
    value: object,
    timeout: float,
    headers: tuple[tuple[str, str], ...] = JSON_HEADERS,
    *,
    guarded: bool = False,
) -> HttpRequest:
    """A POST of a JSON body. ``timeout`` in seconds; ``guarded``: the host comes from a user.

    Give the same ``headers`` object each time: the wire is quicker with it. Raises InputError: it is no JSON.
    """
    return HttpRequest("POST", url, headers, json_bytes(value), timeout, guarded=guarded)
