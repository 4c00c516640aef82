"""Templates: which text a recipient gets, in their language, and what it says.

A template has a text for each locale, in up to three parts (title, text, html), and for each channel that needs
another wording parts that replace those. All of it is compiled once; rendering is a pure function of the event's
data and of what is known about the recipient.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.core.locales import Writing, locale_of, ordinary_forms, pick, way_of_writing, zone
from ringonce.core.sandbox import Broken, Program, compile_part
from ringonce.core.text import clean_text
from ringonce.errors import TemplateError
from ringonce.model.notification import Content

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.records import Reader

PARTS: Final = ("title", "text", "html")
_LINE_ENDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a text, compiled. ``first_line`` is where it begins in the file ``origin``."""

    name: str
    origin: str
    first_line: int
    program: Program
    blank: bool

    def fault(self, broken: Broken) -> TemplateError:
        """The error with its place."""
        field = f"data.{broken.missing}" if broken.missing else "template"
        line = self.first_line + broken.line - 1
        return TemplateError(
            f"{self.origin}, line {line} ({self.name}): {broken.message}", mend=broken.mend, field=field
        )


@dataclass(frozen=True, slots=True)
class Wording:
    """What one locale says on one channel."""

    parts: tuple[Part, ...]
    cut: bool = True
    """A text that is too long for a channel is cut; otherwise it is refused like any other."""

    @property
    def personal(self) -> bool:
        """It differs from recipient to recipient."""
        return any(part.program.personal for part in self.parts)

    @property
    def speaks(self) -> bool:
        """There is anything to say."""
        return not all(part.blank for part in self.parts)

    @property
    def local(self) -> bool:
        """It differs from zone to zone."""
        return any(part.program.local for part in self.parts)


@dataclass(frozen=True, slots=True)
class Template:
    """All texts of one name. ``texts``: normal tag of the locale -> channel (``""``: any other) -> wording."""

    name: str
    texts: Mapping[str, Mapping[str, Wording]]
    defaults: Reader
    """``locale`` and ``timezone`` of those of whom none is known."""

    def locale(self, reader: Reader) -> str:
        """The locale of the text that somebody gets."""
        return pick(reader.locale, self.defaults.locale or "", self.texts)

    def wording(self, channel: str, reader: Reader) -> Wording:
        """The text that somebody gets on a channel."""
        found = self.texts[self.locale(reader)]
        return found.get(channel) or found[""]

    def way(self, reader: Reader) -> str:
        """The same for all whose text is written in the same way: its locale, and that of numbers and moments."""
        text = self.locale(reader)
        return f"{text}/{way_of_writing(reader.locale, text)}"

    def key(self, channel: str, reader: Reader) -> str:
        """The same for all who get the same content: channel and way; zone and recipient where they matter."""
        wording = self.wording(channel, reader)
        key = f"{channel}/{self.way(reader)}"
        if wording.local or wording.personal:
            key += f"/{reader.timezone if zone(reader.timezone) else ''}"
        return f"{key}/{reader.id}/{reader.locale}" if wording.personal else key

    def render(self, channel: str, reader: Reader, data: Mapping[str, object]) -> Content:
        """What is said to somebody on a channel.

        Args:
            channel: its name in the configuration.
            reader: who is told.
            data: the event's.

        Raises:
            TemplateError: a variable is missing, or whatever else; it names file, part and line.
        """
        text = self.locale(reader)
        where = zone(reader.timezone) or zone(self.defaults.timezone) or zone("UTC")
        assert where is not None
        writing = Writing(locale_of(way_of_writing(reader.locale, text)), where)
        recipient = {
            "id": reader.id,
            "locale": reader.locale or text,
            "timezone": reader.timezone or self.defaults.timezone or "UTC",
        }
        said: dict[str, str] = {}
        for part in self.wording(channel, reader).parts:
            if part.blank:
                continue
            try:
                shown = part.program.run(data, recipient, writing, isolate=part.name != "html")
            except Broken as broken:
                raise part.fault(broken) from None
            said[part.name] = _tidy(part.name, shown)
            if not said[part.name] and part.name != "title":
                # An empty message is worse than an error: nobody would ever know.
                raise part.fault(Broken("it renders to nothing", "give it something to say in every case"))
        if not any(said.values()):
            raise TemplateError(
                f"template {self.name} has nothing to say on {channel}",
                field="template",
                mend="give it a text",
            )
        return Content(said.get("title") or None, said.get("text") or None, said.get("html") or None)


def wording(
    sources: Mapping[str, tuple[str, int]], origin: str, *, cut_: bool = True
) -> tuple[Wording | None, list[TemplateError]]:
    """Compile the parts of one wording: name -> (source, first line). All that is wrong is told at once."""
    parts: list[Part] = []
    wrong: list[TemplateError] = []
    for name in PARTS:
        if name not in sources:
            continue
        source, line = sources[name]
        try:
            program = compile_part(source, html=name == "html")
        except Broken as broken:
            unfinished = Part(name, origin, line, _NOTHING, blank=True)
            wrong.append(unfinished.fault(broken))
        else:
            parts.append(Part(name, origin, line, program, blank=not source.strip()))
    return (None if wrong else Wording(tuple(parts), cut_)), wrong


def missing_forms(wording: Wording, locale: str) -> list[str]:
    """Plural forms that whole numbers take in this language and that a text does not give: ``other`` stands in."""
    wanted = ordinary_forms(locale) - {"other"}
    return [
        f"{part.origin}, line {part.first_line + line - 1} ({part.name}): plural has no {form}, so other is used"
        for part in wording.parts
        for line, forms in part.program.plurals
        for form in sorted(wanted - forms)
    ]


_NOTHING: Final = compile_part("", html=False)


def _tidy(name: str, shown: str) -> str:
    """A title is one line, whatever stands in it: a line break in a header would begin another header."""
    if name == "title":
        return clean_text(_LINE_ENDS.sub(" ", shown).strip(), len(shown))
    return clean_text(shown.strip(), len(shown))
