"""What an answer holds, in the form in which rules ask for it."""

from __future__ import annotations

import json
import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ringonce.core.redact import clean
from ringonce.model.exchange import Answer, Fault, HttpAnswer, MailAnswer, NoAnswer, ScriptedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEGIBLE = 8_192  # of a body, for patterns; the fields of a JSON body are read from all of it
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_NOTHING = object()


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A compiled pattern; upper and lower case are the same to rules."""
    return re.compile(text, re.IGNORECASE)


def find(value: object, path: str) -> Iterator[object]:
    """Everything at a dotted path in decoded JSON. ``*`` stands for every element, a number for one of a list."""
    head, _, rest = path.partition(".")
    if not head:
        yield value
    elif isinstance(value, dict):
        if head == "*":
            for item in value.values():
                yield from find(item, rest)
        elif head in value:
            yield from find(value[head], rest)
    elif isinstance(value, list):
        if head == "*":
            for item in value:
                yield from find(item, rest)
        elif head.isdecimal() and int(head[:9]) < len(value):
            yield from find(value[int(head[:9])], rest)


class Facts:
    """One answer. ``kind`` is ``http``, ``mail``, ``script`` or ``none``; the rest is empty where it does not apply."""

    def __init__(self, answer: Answer) -> None:
        """Take the answer apart; a body is decoded when the first rule asks for it."""
        self.kind = "none"
        self.status: int | None = None
        self.stage: str | None = None
        self.enhanced = ""
        self.headers: Mapping[str, str] = {}
        self.step = ""
        self.fault: Fault | None = None
        self.sent: bool | None = None
        self._body = b""
        self._truncated = False
        self._text: str | None = None
        if isinstance(answer, HttpAnswer):
            self.kind, self.status, self.headers = "http", answer.status, answer.headers
            self._body, self._truncated = answer.body, answer.truncated
        elif isinstance(answer, MailAnswer):
            self.kind, self.status, self.stage, self._text = "mail", answer.code, answer.stage, answer.text
            told = _ENHANCED.match(answer.text)
            self.enhanced = answer.enhanced or (told.group(1) if told else "")
        elif isinstance(answer, ScriptedAnswer):
            self.kind = "script"
            self.step, _, self._text = answer.step.partition(":")
        else:
            broken: NoAnswer = answer
            self.fault, self.sent, self.stage = broken.fault, broken.sent, broken.stage
            self._text = broken.detail

    @cached_property
    def text(self) -> str:
        """The body, the reply's text, or the detail of a fault."""
        if self._text is not None:
            return self._text[:_LEGIBLE]
        return self._body[:_LEGIBLE].decode("utf-8", "replace")

    @cached_property
    def json(self) -> object:
        """The decoded body, or a value that no rule finds anything in."""
        if self._truncated:
            return _NOTHING
        try:
            return json.loads(self._body)
        except (
            ValueError,
            RecursionError,
        ):  # not JSON, not UTF-8, a number of 5,000 digits, or nested too deeply
            return _NOTHING

    @property
    def form(self) -> str:
        """``json``: complete and legible; ``page``: markup of something in between; ``other``: empty, broken, cut."""
        if self.json is not _NOTHING:
            return "json"
        return "page" if self._body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else "other"

    def pick(self, where: str) -> str | None:
        """A value by ``json:PATH``, ``header:NAME`` or ``text:PATTERN`` (its first group), as clean text."""
        kind, _, rest = where.partition(":")
        if kind == "header":
            return _spelled(self.headers.get(rest))
        if kind == "text":
            found = pattern(rest).search(self.text)
            return _spelled(found.group(1)) if found else None
        return next((said for said in map(_spelled, find(self.json, rest)) if said is not None), None)


def _spelled(value: object) -> str | None:
    """Texts and numbers only; an empty text is nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return clean(str(value), 255) or None
