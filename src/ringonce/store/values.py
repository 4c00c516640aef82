"""Texts, digests and JSON as the tables hold them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_QUICK = msgspec.json.encode
_READ = msgspec.json.Decoder().decode
_ENCODE = json.JSONEncoder(separators=(",", ":"), default=str).encode
_BEGUN = blake2b(digest_size=16)
_TEXTS = [b"+" + length.to_bytes(8, "big") for length in range(512)]
"""What stands before a text of this length."""
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


def clean_all(values: Sequence[str | None]) -> list[str | None]:
    """``clean`` for a whole column: one look at all of it where nothing has to be replaced, which is the rule."""
    whole = "".join([value for value in values if value is not None])
    if "\x00" not in whole and (whole.isascii() or is_unicode(whole)):
        return list(values)
    return [None if value is None else clean(value) for value in values]


def is_unicode(text: str) -> bool:
    """No half of a surrogate pair is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest(*parts: str | None) -> bytes:
    """Digest length-prefixed parts to 16 bytes (BLAKE2b); null is a part of its own kind."""
    begun = _BEGUN.copy()
    whole = b""
    for part in parts:
        if part is None:
            whole += b"-"
        else:
            raw = part.encode("utf-8", "surrogatepass")
            length = len(raw)
            whole += (_TEXTS[length] if length < len(_TEXTS) else b"+" + length.to_bytes(8, "big")) + raw
    begun.update(whole)
    return begun.digest()


def dated(at: int, key: bytes) -> bytes:
    """A digest behind the time (microseconds UTC), shortened: made at the same time, found at the same place."""
    return (at // 1000 & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + key[:10]


def dump(value: Mapping[str, object]) -> str:
    """Spell as JSON in ASCII: an escape can neither end a text nor break an encoding."""
    if not value:
        return "{}"
    plain = value if isinstance(value, dict) else dict(value)
    try:
        quick = _QUICK(plain)
    except (TypeError, ValueError, OverflowError):
        return _ENCODE(plain)  # it knows more, half a surrogate pair for one
    return quick.decode() if quick.isascii() else _ENCODE(plain)


def load(text: str) -> dict[str, Any]:
    """Read what ``dump`` wrote."""
    if text == "{}":
        return {}
    try:
        value: dict[str, Any] = _READ(text)
    except msgspec.DecodeError:
        value = json.loads(text)  # it knows more, as above
    return value


def dump_numbers(numbers: tuple[int, ...]) -> str:
    """Spell attempt numbers in the compact form of a column: ``1,3``, or nothing."""
    return ",".join(map(str, numbers))


def load_numbers(text: str) -> tuple[int, ...]:
    """Read what ``dump_numbers`` wrote."""
    return tuple(map(int, text.split(","))) if text else ()
