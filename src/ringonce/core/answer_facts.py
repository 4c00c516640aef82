"""What an answer holds, in the form in which rules ask for it."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from ringonce.core.redact import clean
from ringonce.model.exchange import (
    Answer,
    Fault,
    HttpAnswer,
    LibraryAnswer,
    MailAnswer,
    NoAnswer,
    ScriptedAnswer,
    SmsAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LEGIBLE = 8_192  # of a body, for patterns; the fields of a JSON body are read from all of it
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_RETURNED = {True: "done", False: "not done", None: "nothing to do"}
_NOTHING = object()
_UNREAD = object()
_PLAIN = re.compile(rb"[{\[][^\0]")  # a second byte that is null would be half of a character
_from_text = json.JSONDecoder().decode


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A compiled pattern; upper and lower case are the same to rules."""
    return re.compile(text, re.IGNORECASE)


def find(value: object, path: str) -> Iterable[object]:
    """Everything at a dotted path in decoded JSON. ``*`` stands for every element, a number for one of a list."""
    steps = _steps(path)
    if steps is None:
        return _walk(value, path)
    for step in steps:
        if not isinstance(value, dict) or step not in value:
            return ()
        value = value[step]
    return (value,)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...] | None:
    """The names on a path that leads to one place at most; None: it has to be walked."""
    steps = tuple(path.split("."))
    return None if any(not step or step == "*" or step.isdecimal() for step in steps) else steps


def _walk(value: object, path: str) -> Iterator[object]:
    head, _, rest = path.partition(".")
    if not head:
        yield value
    elif isinstance(value, dict):
        if head == "*":
            for item in value.values():
                yield from _walk(item, rest)
        elif head in value:
            yield from _walk(value[head], rest)
    elif isinstance(value, list):
        if head == "*":
            for item in value:
                yield from _walk(item, rest)
        elif head.isdecimal() and int(head[:9]) < len(value):
            yield from _walk(value[int(head[:9])], rest)


class Facts:
    """One answer. ``kind``: ``http``, ``mail``, ``sms``, ``library``, ``script`` or ``none``.

    The rest is empty where it does not apply.
    """

    kind = "none"
    status: int | None = None
    stage: str | None = None
    enhanced = ""
    headers: Mapping[str, str] = MappingProxyType({})
    step = ""
    fault: Fault | None = None
    sent: bool | None = None
    _body = b""
    _truncated = False
    _text: str | None = None
    _json: object = _UNREAD
    _asked = ""
    _told: str | None = None

    def __init__(self, answer: Answer) -> None:
        """Take the answer apart; a body is decoded when the first rule asks for it."""
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
        elif isinstance(answer, SmsAnswer):
            self.kind, self.status, self.stage = "sms", answer.status, answer.command
            self._text = answer.text or f"{answer.command} 0x{answer.status:08X}"
            self._json = {
                "message_id": answer.message_id,
                "in_part": bool(answer.status and answer.accepted),
                "code": f"0x{answer.status:08X}",
            }
        elif isinstance(answer, LibraryAnswer):
            self.kind, self.step = "library", _RETURNED[answer.value] if answer.made else "not made"
            self._text = answer.text
        else:
            broken: NoAnswer = answer
            self.fault, self.sent, self.stage = broken.fault, broken.sent, broken.stage
            self._text = broken.detail

    @property
    def text(self) -> str:
        """The body, the reply's text, or the detail of a fault."""
        if self._text is None:
            self._text = self._body[:_LEGIBLE].decode("utf-8", "replace")
        return self._text[:_LEGIBLE]

    @property
    def json(self) -> object:
        """The decoded body, or a value that no rule finds anything in."""
        if self._json is _UNREAD:
            self._json = _NOTHING if self._truncated else _decoded(self._body)
        return self._json

    @property
    def form(self) -> str:
        """``json``: complete and legible; ``page``: markup of something in between; ``other``: empty, broken, cut."""
        if self.json is not _NOTHING:
            return "json"
        return "page" if self._body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") else "other"

    def pick(self, where: str) -> str | None:
        """A value by ``json:PATH``, ``header:NAME`` or ``text:PATTERN`` (its first group), as clean text."""
        if where == self._asked:  # a rule's condition and its message id often look at the same place
            return self._told
        self._asked, self._told = where, self._picked(where)
        return self._told

    def _picked(self, where: str) -> str | None:
        kind, _, rest = where.partition(":")
        if kind == "json":
            for value in find(self.json, rest):
                said = _spelled(value)
                if said is not None:
                    return said
            return None
        if kind == "header":
            return _spelled(self.headers.get(rest))
        found = pattern(rest).search(self.text)
        return _spelled(found.group(1)) if found else None


def _decoded(body: bytes) -> object:
    if not body or body.startswith(b"<"):
        return _NOTHING
    try:
        # json.loads would first find out which Unicode it is; most is ASCII, and then it is this one.
        return _from_text(body.decode("ascii")) if _PLAIN.match(body) and body.isascii() else json.loads(body)
    except (
        ValueError,
        RecursionError,
    ):  # not JSON, not UTF-8, a number of 5,000 digits, or nested too deeply
        return _NOTHING


def _spelled(value: object) -> str | None:
    """Texts and numbers only; an empty text is nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return clean(str(value), 255) or None
