"""Text from outside, made safe to store, log and show."""

from __future__ import annotations

import re

# PostgreSQL refuses U+0000, UTF-8 has no lone surrogates, and a terminal obeys the other control characters.
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


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
