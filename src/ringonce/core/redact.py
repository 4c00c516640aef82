"""Keep secrets and personal addresses out of everything that a person may read later.

Answers of providers are quoted in timelines, failures and logs. They may echo what we sent (a token in a URL,
the recipient's address) or hold anything at all, since a webhook's receiver is a stranger.
"""

from __future__ import annotations

import re

LIMIT = 500
"""Longest text kept of an answer, in characters."""

_LOOK_AT = 4_000
# Order matters: the longest, most telling forms first.
_HIDE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), shown)
    for pattern, shown in (
        (r"(?<=://)[^\s/@]{1,300}@", "[secret]@"),
        (r"\b(bearer|basic|vapid|digest) +[^\s\"'<>]+", r"\1 [secret]"),
        (
            (
                r"\b([\w-]{0,30}(?:token|secret|password|passwd|pwd|api[_-]?key|authorization|signature|sig))"
                r"(\\?[\"']?\s{0,3}[=:]\s{0,3}\\?[\"']?)(?!\[secret\]|(?:bearer|basic|vapid|digest)\b)[^\s\"'&,;<>\\}]+"
            ),
            r"\1\2[secret]",
        ),
        (r"\b(?:bot)?\d{5,}:[\w-]{20,}", "[secret]"),
        (r"\bwh(?:sec|sk|pk)_[\w+/=-]+", "[secret]"),
        (r"\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?", "[secret]"),
        (r"[^\s@<>\"',;:()\[\]\\]{1,64}@[^\s@<>\"',;:()\[\]\\]{1,253}", "[address]"),
        # Push tokens, subscription keys and the like; a UUID (36 characters with hyphens) is left readable.
        (r"(?<![\w+/=.-])(?![0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-]))[\w+/=-]{32,}", "[token]"),
        (r"(?<![\w.-])\+\d[\d ()-]{6,20}\d(?![\w-])", "[number]"),
        (r"(?<![\w-])\d{7,}(?![\w-])", "[number]"),
    )
)
_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]+")


def clean(text: str, limit: int = LIMIT) -> str:
    """One line of storable text: no control characters (U+0000 among them), no lone surrogates, not too long.

    PostgreSQL refuses U+0000 in a text, and UTF-8 has no form for a lone surrogate.
    """
    if len(text) <= limit and text.isprintable() and "  " not in text:
        return text.strip(" ")  # the usual case; what is printable holds no white space but the common one
    line = _CONTROL.sub(" ", text[: max(limit * 4, _LOOK_AT)]).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def redact(text: str, limit: int = LIMIT) -> str:
    """A clean line in which e-mail addresses, phone numbers, tokens and credentials are replaced by a word."""
    line = clean(text, _LOOK_AT)
    for pattern, shown in _HIDE:
        line = pattern.sub(shown, line)
    return clean(line, limit)
