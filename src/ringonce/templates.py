"""The folder of templates: read, compiled once, read again when a file has changed.

``templates/order-shipped/ru.toml`` is what the template ``order-shipped`` says to readers of Russian::

    title = "Заказ {{ order }} отправлен"
    text = "Он придёт {{ arrives | date }}."

    [sms]
    title = ""
    text = "Заказ {{ order }} отправлен"

A table named like a channel replaces single parts for that channel.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from ringonce.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from ringonce.core.render import Template, Wording
    from ringonce.model.records import Reader

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at the folder."""
TOO_LONG: Final = "too_long"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PARTS: Final = ("title", "text", "html")
_KEYS: Final = (*PARTS, TOO_LONG)

Stamps = dict[str, tuple[int, int]]


@dataclass(slots=True)
class Loaded:
    """One template as its files say: usable, or what is wrong with it."""

    template: Template | None
    wrong: list[TemplateError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


class Library:
    """``ports.Templates`` on a folder. Nothing is read before somebody asks."""

    def __init__(
        self,
        folder: Path,
        defaults: Reader,
        channels: Collection[str],
        *,
        monotonic: Callable[[], float],
        alert: Callable[[str, str], None],
    ) -> None:
        """Remember where to look.

        Args:
            folder: may be missing: then there are no templates.
            defaults: locale and zone of recipients of whom none is known.
            channels: the configured ones; a table for another one is told of.
            monotonic: seconds.
            alert: takes a kind and a text, for templates that were broken by a change.
        """
        self.folder = folder
        self._defaults = defaults
        self._channels = channels
        self._monotonic = monotonic
        self._alert = alert
        self._next_look: float | None = None
        self._stamps: dict[str, Stamps] = {}
        self._loaded: dict[str, Loaded] = {}

    @property
    def loaded(self) -> Mapping[str, Loaded]:
        """All of them by name, as the files are now."""
        if self._next_look is None:
            self.refresh()
        return self._loaded

    def get(self, name: str) -> Template:
        """A template by its name. Raises TemplateError: unknown, with the nearest name; or what is wrong with it."""
        found = self.loaded.get(name)
        if found is None:
            near = get_close_matches(name, self._loaded, n=1)
            there = (
                f"there are {', '.join(self._loaded)}"
                if self._loaded
                else f"write {self.folder}/{name}/en.toml"
            )
            mend = f"did you mean {near[0]}?" if near else there
            raise TemplateError(
                f"unknown template {name!r}", field="template", mend=mend, code="unknown_template"
            )
        if found.template is None:
            raise found.wrong[0]
        return found.template

    def refresh(self) -> None:
        """Look for changed files, at most once in LOOK_EVERY.

        A template whose change is broken goes on as it was before; after a start there is nothing to go on with, and
        what asks for it is refused.
        """
        now = self._monotonic()
        if self._next_look is not None and now < self._next_look:
            return
        first, self._next_look = self._next_look is None, now + LOOK_EVERY
        stamps = _stamps(self.folder)
        loaded: dict[str, Loaded] = {}
        for name, stamp in stamps.items():
            before = self._loaded.get(name)
            if before is not None and self._stamps.get(name) == stamp:
                loaded[name] = before
                continue
            fresh = self._load(name, stamp)
            for error in fresh.wrong:
                self._alert("template", f"template {name} can not be used: {error.message}")
            if fresh.wrong and not first and before is not None and before.template is not None:
                fresh.template = before.template
            loaded[name] = fresh
        # One assignment: a thread that renders sees the old ones or the new ones.
        self._stamps, self._loaded = stamps, loaded

    def _load(self, name: str, stamp: Stamps) -> Loaded:
        # Loaded with the first template: Jinja and the tables of CLDR take a while, and many need neither.
        from ringonce.core.locales import normal
        from ringonce.core.render import Template

        made = Loaded(None)
        texts: dict[str, Mapping[str, Wording]] = {}
        if not _NAME.fullmatch(name):
            made.wrong.append(_wrong(name, "this is no name of a template", "use letters, digits, - _ and ."))
        for file in sorted(stamp):
            origin = f"{name}/{file}"
            locale = normal(file.removesuffix(".toml"))
            if locale is None:
                made.wrong.append(_wrong(origin, "this is no locale", "name the file en.toml, pt-BR.toml, …"))
            elif locale in texts:
                made.wrong.append(_wrong(origin, "there is another file for this locale", "keep one of them"))
            else:
                texts[locale] = self._read(self.folder / name / file, origin, locale, made)
        if not texts:
            made.wrong.append(_wrong(name, "it has no text", f"write {self.folder / name}/en.toml"))
        if not made.wrong:
            made.template = Template(name, texts, self._defaults)
        return made

    def _read(self, path: Path, origin: str, locale: str, made: Loaded) -> Mapping[str, Wording]:
        from ringonce.core.render import missing_forms, wording

        try:
            source = path.read_bytes().decode().replace("\r\n", "\n")
            table = tomllib.loads(source)
        except (OSError, ValueError) as error:
            made.wrong.append(_wrong(origin, str(error), "see the page on templates"))
            return {}
        lines = _first_lines(source)
        common, cuts = self._table(table, "", origin, lines, made)
        channels = {name: value for name, value in table.items() if isinstance(value, dict)}
        texts: dict[str, Wording] = {}
        for channel, raw_table in {"": {}, **channels}.items():
            own, own_cuts = self._table(raw_table, channel, origin, lines, made, default=cuts)
            compiled, wrong = wording({**common, **own}, origin, cut_=own_cuts)
            made.wrong += [error for error in wrong if str(error) not in map(str, made.wrong)]
            if compiled is not None:
                texts[channel] = compiled
                told = missing_forms(compiled, locale)
                made.notices += [text for text in told if text not in made.notices]
            if channel and channel not in self._channels:
                near = get_close_matches(channel, self._channels, n=1)
                made.notices.append(
                    f"{origin}: no channel is called {channel}"
                    + (f"; did you mean {near[0]}?" if near else "")
                )
        return texts

    def _table(
        self,
        table: Mapping[str, object],
        channel: str,
        origin: str,
        lines: Mapping[tuple[str, str], int],
        made: Loaded,
        *,
        default: bool = True,
    ) -> tuple[dict[str, tuple[str, int]], bool]:
        """The parts of a table with their first lines; whether what is too long is cut."""
        parts: dict[str, tuple[str, int]] = {}
        cuts = default
        for key, value in table.items():
            if isinstance(value, dict) and not channel:
                continue
            place = f"{origin}, line {lines.get((channel, key), 1)}"
            if key == TOO_LONG and value in {"cut", "refuse"}:
                cuts = value == "cut"
            elif key == TOO_LONG:
                made.wrong.append(_wrong(place, f"{key} is cut or refuse", f'{key} = "cut"'))
            elif key not in PARTS:
                near = get_close_matches(key, _KEYS, n=1)
                mend = (
                    f"did you mean {near[0]}?"
                    if near
                    else f"there are {', '.join(_KEYS)} and tables for channels"
                )
                made.wrong.append(_wrong(place, f"unknown key {key}", mend))
            elif not isinstance(value, str):
                made.wrong.append(_wrong(place, f"{key} is a text", "put it in quotes"))
            else:
                parts[key] = (value, lines.get((channel, key), 1))
        return parts, cuts


def _stamps(folder: Path) -> dict[str, Stamps]:
    """Template -> file -> (time of change, size). Hidden folders and files that are no TOML do not count."""
    found: dict[str, Stamps] = {}
    try:
        names = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return found
    for path in names:
        files: Stamps = {}
        try:
            for file in path.iterdir():
                if file.suffix == ".toml" and not file.name.startswith("."):
                    state = file.stat()
                    files[file.name] = (state.st_mtime_ns, state.st_size)
        except OSError:
            # It went away between two looks; the next look sees what is left.
            continue
        found[path.name] = files
    return found


_HEAD = re.compile(r"\s*\[\s*[\"']?([^\"'\]]+?)[\"']?\s*\]")
_KEY = re.compile(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=\s*(\"\"\"|''')?(.*)")


def _first_lines(source: str) -> dict[tuple[str, str], int]:
    """(table, key) -> the line on which its text begins; the parser itself does not tell."""
    found: dict[tuple[str, str], int] = {}
    table, quotes = "", ""
    for number, line in enumerate(source.split("\n"), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
        elif head := _HEAD.match(line):
            table = head[1]
        elif key := _KEY.match(line):
            name, opened, rest = key.groups()
            # A line end right after the quotes does not belong to the text.
            found.setdefault((table, name), number + (opened is not None and not rest))
            quotes = opened if opened and opened not in rest else ""
    return found


def _wrong(origin: str, message: str, mend: str) -> TemplateError:
    return TemplateError(f"{origin}: {message}", mend=mend, field="template")
