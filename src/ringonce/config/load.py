"""File, environment and arguments → one Config, or one ConfigError that names all problems."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringonce.config import sources
from ringonce.config.channels import read_channel
from ringonce.config.keys import LANES, LATER_SECTIONS, NAMED_SECTIONS, SECTIONS
from ringonce.config.kinds import nearest
from ringonce.config.model import DEFAULT_FILE, Config
from ringonce.config.reader import Key, Problems, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.model.policy import Channel


def load(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """The file (``RINGONCE_CONFIG``, or ``./ringonce.toml`` if there is one), overridden by the environment.

    ``overrides`` have the file's structure and win over both. Raises ConfigError.
    """
    env = os.environ if environ is None else environ
    chosen = path or env.get("RINGONCE_CONFIG") or None
    if chosen is None and Path(DEFAULT_FILE).is_file():
        chosen = DEFAULT_FILE
    file = Path(chosen) if chosen is not None else None
    raw = sources.read_file(file) if file is not None else {}
    named = dict.fromkeys(["channels", *NAMED_SECTIONS], True)
    paths = sources.variables(env, {**named, **dict.fromkeys(SECTIONS, False)})
    known = {name: path for name, path in paths.items() if path[0] in {*SECTIONS, *LATER_SECTIONS, *named}}
    origins = sources.overlay(raw, env, known)
    problems = Problems(
        str(chosen) if chosen is not None else "", {**origins, **{name: name for name in paths}}
    )
    for name in paths.keys() - known.keys():
        problems.add(name, "fits no key", nearest(name, _variables()))
    return _build(_merged(raw, overrides or {}), problems, env, file)


def from_mapping(raw: Mapping[str, object], *, overrides: Mapping[str, object] | None = None) -> Config:
    """A configuration written in code, with the file's structure. The environment overrides nothing in it."""
    return _build(_merged(copy.deepcopy(dict(raw)), overrides or {}), Problems(""), os.environ, None)


def _variables() -> list[str]:
    """The variables of the plain sections."""
    return [
        f"{sources.PREFIX}{section}_{key.name}".upper()
        for section, (_, keys) in SECTIONS.items()
        for key in keys
    ]


def _merged(raw: dict[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    for key, value in overrides.items():
        below = raw.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            raw[key] = _merged(dict(below), value)
        else:
            raw[key] = copy.deepcopy(value)
    return raw


def _named(raw: object, section: str, made: type, keys: Sequence[Key], problems: Problems) -> dict[str, Any]:
    """A table for each name."""
    result = {}
    for name, value in Table(raw, section, problems).raw.items():
        table = Table(value, f"{section}.{name}", problems)
        table.reject([key.name for key in keys], {})
        if "url" not in table.raw:
            problems.add(table.at("url"), "is missing", 'e.g. url = "https://app.example.com/wanted"')
        result[name] = made(**table.read(keys))
    return result


def _build(
    raw: dict[str, object], problems: Problems, environ: Mapping[str, str], file: Path | None
) -> Config:
    folder = file.parent if file is not None else Path()
    resolved = sources.resolve(raw, "", environ, folder, problems)
    top = Table(resolved, "", problems)
    top.reject([*SECTIONS, *NAMED_SECTIONS, "lanes", "channels"], LATER_SECTIONS)
    sections: dict[str, Any] = {}
    for name, (made, keys) in SECTIONS.items():
        if name in top.raw:
            table = Table(top.raw[name], name, problems)
            table.reject([key.name for key in keys], {})
            sections[name] = made(**table.read(keys))
    for section, (made, keys) in NAMED_SECTIONS.items():
        if section in top.raw:
            sections[section] = _named(top.raw[section], section, made, keys, problems)
    lanes: Any = top.read([Key("lanes", LANES, "")]).get("lanes")
    channels: dict[str, Channel] = {}
    given: dict[str, frozenset[str]] = {}
    if "channels" in top.raw:
        for name, value in Table(top.raw["channels"], "channels", problems).raw.items():
            channels[name], given[name] = read_channel(name, value, problems, lanes)
    problems.stop()
    return Config(**sections, channels=channels, given=given, file=file)
