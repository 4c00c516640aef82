"""Reads one table of the configuration after the other and keeps every problem until the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.config.kinds import Bad, EnvText, Kind, inline, nearest, shown
from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table, as the reader and the reference page know it."""

    name: str
    kind: Kind
    doc: str


@dataclass(slots=True)
class Problems:
    """What is wrong so far. ``origin`` is the file's name; ``variables`` maps a key path to its variable."""

    origin: str
    variables: Mapping[str, str] = field(default_factory=dict)
    found: list[ConfigError] = field(default_factory=list)

    def add(self, path: str, message: str, mend: str = "") -> None:
        """Keep one problem; ``path`` is dotted."""
        place = self.variables.get(path) or (f"{self.origin}: {path}" if self.origin else path)
        self.found.append(ConfigError(message, mend=mend, field=place))

    def stop(self) -> None:
        """Raise the problem that was found, or one ConfigError that lists them all."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0]
        lines = "".join(f"\n  - {problem}" for problem in self.found)
        raise ConfigError(
            f"{len(self.found)} problems in the configuration:{lines}", field=self.found[0].field
        )


class Table:
    """A table at ``path``: read its keys, then take what is left."""

    def __init__(self, raw: object, path: str, problems: Problems) -> None:
        """A value that is no table is a problem and read as an empty one."""
        self.path = path
        self.problems = problems
        if isinstance(raw, EnvText):
            raw = inline(raw)
        if not isinstance(raw, dict):
            problems.add(path, f"expected a table, found {shown(raw)}", f"write [{path}]")
            raw = {}
        self.raw: dict[str, object] = raw

    def at(self, name: str) -> str:
        """The dotted path of a key of this table."""
        return f"{self.path}.{name}" if self.path else name

    def read(self, keys: Sequence[Key]) -> dict[str, object]:
        """The converted values of the keys that are there and right."""
        values: dict[str, object] = {}
        for key in keys:
            if key.name in self.raw:
                try:
                    values[key.name] = key.kind.convert(self.raw[key.name])
                except Bad as bad:
                    self.problems.add(self.at(key.name), bad.message, bad.mend)
        return values

    def reject(self, known: Sequence[str], later: Mapping[str, str]) -> None:
        """Every key that is neither known nor of a later version is a problem that suggests the nearest."""
        for name in self.raw:
            if name in later:
                self.problems.add(self.at(name), "is not available yet", later[name])
            elif name not in known:
                self.problems.add(self.at(name), "unknown key", nearest(name, known))
