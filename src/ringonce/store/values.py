"""Texts, digests and JSON as the tables hold them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENCODE = json.JSONEncoder(separators=(",", ":"), default=str).encode

PRIORITIES = {"high": 0, "normal": 1, "low": 2}


def clean(text: str) -> str:
    """Replace what no database takes (U+0000; surrogates without a partner) by U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def digest(*parts: str | None) -> bytes:
    """Digest length-prefixed parts to 16 bytes (BLAKE2b); null is a part of its own kind."""
    state = blake2b(digest_size=16)
    for part in parts:
        if part is None:
            state.update(b"-")
        else:
            raw = part.encode("utf-8", "surrogatepass")
            state.update(b"+" + len(raw).to_bytes(8, "big"))
            state.update(raw)
    return state.digest()


def dump(value: Mapping[str, object]) -> str:
    """Spell as JSON in ASCII: an escape can neither end a text nor break an encoding."""
    return _ENCODE(value if isinstance(value, dict) else dict(value)) if value else "{}"


def load(text: str) -> dict[str, Any]:
    """Read what ``dump`` wrote."""
    if text == "{}":
        return {}
    value: dict[str, Any] = json.loads(text)
    return value


def dump_numbers(numbers: tuple[int, ...]) -> str:
    """Spell attempt numbers in the compact form of a column: ``1,3``, or nothing."""
    return ",".join(map(str, numbers))


def load_numbers(text: str) -> tuple[int, ...]:
    """Read what ``dump_numbers`` wrote."""
    return tuple(map(int, text.split(","))) if text else ()
