"""Callbacks read with care: they were signed, and may hold anything all the same."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from ringonce.core.compact import json_bytes
from ringonce.core.redact import redact
from ringonce.errors import InputError
from ringonce.model.exchange import HttpAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.model.outcome import Outcome
    from ringonce.model.receipt import Callback

    Judge = Callable[[HttpAnswer, Any], Outcome]

_LARGEST = 2**62
_SECOND = 1_000_000


def document(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises InputError: it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("this is no JSON object", code="invalid_json")
    return found


def at(value: object, *path: str) -> dict[str, Any]:
    """The object below, or an empty one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def each(value: object) -> list[dict[str, Any]]:
    """The objects in a list; nothing where there is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def word(value: object) -> str | None:
    """A text, or a whole number as one; None: it is neither, or empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def moment(value: object, per_second: int = 1) -> int | None:
    """A time since 1970 in parts of a second, as a number or in ASCII digits, in microseconds UTC; None: it is none."""
    text = word(value) or ""
    if not re.fullmatch("[0-9]{1,19}", text):
        return None
    micros = int(text) * _SECOND // per_second
    return micros if micros < _LARGEST else None


def reported(judge: Judge, said: object, words: str | None, context: Any) -> Outcome:
    """What a report of a failure means: ``said`` by the rules for answers, of status 0, and ``words`` for people."""
    return replace(judge(HttpAnswer(0, {}, json_bytes(said)), context), text=redact(words or ""))


def pairs(callback: Callback) -> list[tuple[str, str]]:
    """The fields of a form, in their order. Bytes that are no UTF-8 are replaced."""
    kind = callback.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return []
    try:
        return parse_qsl(
            callback.body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1_000
        )
    except ValueError:
        raise InputError("this form has too many fields") from None


def query(callback: Callback) -> list[tuple[str, str]]:
    """The fields of the URL's query, in their order."""
    try:
        return parse_qsl(urlsplit(callback.url).query, keep_blank_values=True, max_num_fields=1_000)
    except ValueError:
        raise InputError("this query has too many fields") from None
