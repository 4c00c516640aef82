"""What a rendering may spend, and the stage that its filters play on."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from jinja2.runtime import Undefined
from markupsafe import Markup, escape

from ringonce.core.locales import Misuse, kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ringonce.core.locales import Writing

WORK: Final = 2_000_000
"""Units of work: an item or a character that is looked at is one. All of it takes a fraction of a second."""
STEP: Final = 200
"""What one turn of a loop costs: 10,000 turns in all."""
CHARACTERS: Final = 262_144
"""What may be produced in one part, intermediate texts included."""
_FSI: Final = "\u2068"
_PDI: Final = "\u2069"


@dataclass(slots=True)
class Purse:
    """Emptied by work and by characters; when it is empty the template ends as a failure."""

    work: int = WORK
    characters: int = CHARACTERS

    def pay(self, work: int) -> None:
        """Pay for work. Raises Misuse."""
        self.work -= work + 1
        if self.work < 0:
            raise Misuse("it takes too many steps", "shorten its loops, or the data")

    def spend(self, characters: int) -> None:
        """Pay for text. Raises Misuse."""
        self.pay(0)
        self.characters -= characters
        if self.characters < 0:
            raise Misuse(f"it makes more than {CHARACTERS} characters", "shorten its loops, or the data")

    def steps(self, items: Sequence[Any], inside: int) -> Iterator[Any]:
        """Items, each for the price of a turn and of the static text ``inside``."""
        for item in items:
            self.pay(STEP)
            self.spend(inside)
            yield item


@dataclass(slots=True)
class Scene:
    """What a filter may know: how things are written, and what is left to spend."""

    writing: Writing
    purse: Purse
    html: bool
    isolate: bool
    plain: set[str] = field(default_factory=set)
    """Texts that ``bare`` has let through without isolates."""

    def text(self, value: Any) -> str:
        """A single value as it is shown. Raises Misuse for what would show as Python."""
        if isinstance(value, str):
            return value
        shown = scalar(value)
        return str(shown)

    def isolated(self, text: str) -> str:
        """The text between isolates where its letters run against the text around (Unicode Annex 9, 2.4.2)."""
        if not self.writing.right_to_left and text.isascii():
            return text
        if text in self.plain or isinstance(text, Markup) or "://" in text:
            return text
        against = {"L"} if self.writing.right_to_left else {"R", "AL"}
        turned = any(unicodedata.bidirectional(character) in against for character in text)
        return f"{_FSI}{text}{_PDI}" if turned else text

    def isolate_now(self, value: Any) -> str:
        """The same on demand: an element in HTML, where an attribute must stay as it is."""
        text = self.text(value)
        if self.html:
            return Markup("<bdi>{}</bdi>").format(escape(text))
        return f"{_FSI}{text}{_PDI}"


def scalar(value: Any, *, any_kind: bool = False) -> Any:
    """A single value: a text or a number, with ``any_kind`` also true and false. Raises Misuse, UndefinedError."""
    if isinstance(value, Undefined):
        return str(value)  # raises, but for an inline if without else, which stands for nothing
    if isinstance(value, (str, int, float, Decimal)) and (any_kind or not isinstance(value, bool)):
        return value
    mend = {
        "null": "write | default(…), which stands for null too",
        "true or false": '{{ "yes" if x else "no" }}',
        "a list": "go over it, or write | join(…)",
        "a mapping": "name one of its keys",
    }.get(kind(value), "name a value")
    raise Misuse(f"{kind(value)} can not be shown as text", mend)


def size_of(value: Any) -> int:
    """How much work it is to look at a value."""
    return len(value) if isinstance(value, (str, list, tuple, dict)) else 1
