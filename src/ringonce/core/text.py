"""Text: made safe to store, log and show; measured as a receiver measures it; cut without breaking a character."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# PostgreSQL refuses U+0000, UTF-8 has no lone surrogates, and a terminal obeys the other control characters.
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_ELLIPSIS: Final = "…"
_JOINER: Final = "\u200d"
# In JSON: two bytes for these, six for the other control characters (RFC 8259 section 7).
_TWO_IN_JSON = re.compile(r'["\\\x08\x09\x0a\x0c\x0d]')
_SIX_IN_JSON = re.compile("[\x00-\x07\x0b\x0e-\x1f]")
# What belongs to the character before it without being a combining mark: skin tones, and tags (flags of regions).
_MODIFIER = re.compile("[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff]")


def clean_text(value: bytes | str, limit: int) -> str:
    """Make a text out of what a stranger sent.

    Args:
        value: bytes are read as UTF-8.
        limit: how many characters at most; a longer text is cut and ends in an ellipsis.

    Returns:
        A text without U+0000, lone surrogates and control characters other than tab and line ends; each of
        them, and each byte that is not UTF-8, became U+FFFD.
    """
    if isinstance(value, bytes):
        # A character takes four bytes at most: what comes after could not show up in any case.
        value = value[: 4 * limit + 4].decode("utf-8", "replace")
    text = _UNSAFE.sub("\ufffd", value[: limit + 1])
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"[:limit]


def length(text: str, unit: str) -> int:
    """How long a text is.

    Args:
        text: valid Unicode.
        unit: ``chars`` (code points), ``bytes`` (UTF-8), ``utf16`` (code units) or ``json`` (bytes between the
            quotes of a JSON string whose characters outside ASCII are not escaped).
    """
    if unit == "bytes":
        return len(text.encode())
    if unit == "utf16":
        return len(text.encode("utf-16-le")) // 2
    if unit == "json":
        return len(text.encode()) + len(_TWO_IN_JSON.findall(text)) + 5 * len(_SIX_IN_JSON.findall(text))
    return len(text)


def cut(text: str, limit: int, unit: str = "chars", *, mark: str = _ELLIPSIS) -> str:
    """The text if it fits, else as much of its beginning as fits together with ``mark``.

    It ends between two characters as a reader sees them: never inside a surrogate pair, before a combining mark, a
    skin tone or a joiner, nor between the two halves of a flag. (The rules of Unicode Annex 29 for emoji and
    marks; Hangul jamo that are written one by one are not looked at.) Spaces before the mark are dropped.

    Args:
        text: valid Unicode.
        limit: how much is allowed, the mark included. When not even the mark fits, the result is empty.
        unit: as for ``length``.
        mark: what tells the reader that something is missing.
    """
    if length(text, unit) <= limit:
        return text
    room = limit - length(mark, unit)
    if room < 0:
        return ""
    # Every unit is additive over characters, so the longest beginning that fits is found by halving.
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if length(text[:middle], unit) <= room:
            low = middle
        else:
            high = middle - 1
    while low and not _may_break(text, low):
        low -= 1
    return text[:low].rstrip() + mark


def _may_break(text: str, at: int) -> bool:
    """Whether a reader sees two characters there, with ``0 < at < len(text)``."""
    before, after = text[at - 1], text[at]
    if before == _JOINER or _MODIFIER.match(after) or unicodedata.category(after)[0] == "M":
        return False
    if before == "\r":
        return after != "\n"
    if not (_REGIONAL.match(before) and _REGIONAL.match(after)):
        return True
    start = at
    while start and _REGIONAL.match(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 0
