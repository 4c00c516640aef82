"""Which providers are there? Our own by scanning ``ringonce.providers``, others by the entry point group.

The file's name is the provider's name. Modules are imported when they are asked for, so that a provider whose
extra is not installed hurts only those who configured it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from ringonce.errors import ConfigError
from ringonce.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUP = "ringonce.providers"
"""Third parties declare ``name = "package.module:Class"`` in this entry point group; ours lie in this package."""


def names() -> tuple[str, ...]:
    """All providers that can be configured, sorted."""
    return tuple(sorted({*_own(), *_foreign()}))


def provider(name: str) -> type[Provider]:
    """The provider's class. Raises ConfigError: unknown name, missing extra, or two providers of one name."""
    foreign = _foreign().get(name)
    if name in _own():
        if foreign is not None:
            raise ConfigError(
                f'the name "{name}" belongs to ringonce, and "{foreign.value}" claims it too',
                field="provider",
                mend="remove that package or ask its author for another name",
            )
        return _load_own(name)
    if foreign is not None:
        return _load_foreign(foreign)
    raise ConfigError(f'there is no provider "{name}"', field="provider", mend=_nearest(name, names()))


def build(name: str, settings: Mapping[str, object], folder: Path | None = None) -> Provider:
    """A provider with its options, which are the channel's keys that are not the engine's own.

    ``folder``: where the path of a file counts from; None: the working directory.

    Raises ConfigError: what carries its requests is not installed; or naming the key: unknown (with the nearest one),
    missing, of the wrong type, or refused by the provider. The message never repeats a value, which may be a secret.
    """
    cls = provider(name)
    if cls.needs and find_spec(cls.needs) is None:
        raise _missing(name, cls.needs)
    return construct(cls, settings, folder)


def construct(cls: type[Provider], settings: Mapping[str, object], folder: Path | None = None) -> Provider:
    """The same for a class, installed or not: the test kit takes one that no registry knows."""
    name = cls.name
    known = {field.name.rstrip("_"): field for field in fields(cls.Options)}
    for key in settings:
        if key not in known:
            raise ConfigError(f'provider {name} has no option "{key}"', field=key, mend=_nearest(key, known))
        _check_inside(cls, known[key].name, settings[key])
    for key, field in known.items():
        if key not in settings and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(
                f"provider {name} needs {key}", field=key, mend=f'set {key} = "…" in the channel'
            )
    named = {
        known[key].name: _text(key, value, folder or Path()) if known[key].metadata.get("file") else value
        for key, value in settings.items()
    }
    try:
        # Not strict: environment variables bring numbers and switches as text.
        options = msgspec.convert(named, cls.Options, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`").partition("[")[0].rstrip("_")
        raise ConfigError(
            what[:1].lower() + what[1:], field=key or None, mend=f"see provider {name}"
        ) from None
    return cls(options)


def _check_inside(cls: type[Provider], name: str, value: object) -> None:
    """A table of a provider's own has no unknown keys either. Raises ConfigError."""
    tables = [one for one in (value if isinstance(value, list | tuple) else [value]) if isinstance(one, dict)]
    if not tables:
        return
    hints = [get_type_hints(cls.Options)[name]]
    for hint in hints:  # grows while it is walked: unions and lists hold further types
        hints += get_args(hint)
    inside = {f.name.rstrip("_") for hint in hints if is_dataclass(hint) for f in fields(hint)}
    for key in dict.fromkeys(key for table in tables for key in table):
        if inside and key not in inside:
            whole = f"{name.rstrip('_')}.{key}"
            raise ConfigError(f'there is no "{key}" in it', field=whole, mend=_nearest(key, inside))


def _text(key: str, value: object, folder: Path) -> object:
    """What an option that may be a file's path says: a text that begins like JSON or PEM is the content itself."""
    if not isinstance(value, str) or value.lstrip()[:1] in {"{", "-"} or "\n" in value.strip():
        return value
    try:
        return (folder / Path(value.strip()).expanduser()).read_text("utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        mend = "give the path of a file that can be read, or its content"
        raise ConfigError(f"the file can not be read: {reason}", field=key, mend=mend) from None


def answer_names() -> tuple[str, ...]:
    """All names under which answers can be classified, sorted."""
    return tuple(sorted(_answering()))


def answering(name: str) -> type[Provider] | None:
    """The provider that knows answers under this name, or None."""
    owner = _answering().get(name)
    return None if owner is None else provider(owner)


@cache
def _own() -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(importlib.import_module(GROUP).__path__))


@cache
def _foreign() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _answering() -> dict[str, str]:
    """Name of answers to name of provider. A provider that can not be loaded answers under its own name only."""
    owners = {name: name for name in names()}
    for name in names():
        try:
            aliases = provider(name).answers_as
        except ConfigError:
            continue
        for alias in aliases:
            owners.setdefault(alias, name)
    return owners


@cache
def _load_own(name: str) -> type[Provider]:
    try:
        module = importlib.import_module(f"{GROUP}.{name}")
    except ModuleNotFoundError as error:
        raise _missing(name, error.name) from error
    return next(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Provider) and value.__module__ == module.__name__
    )


def _missing(name: str, package: str | None) -> ConfigError:
    return ConfigError(
        f'provider {name} needs the package "{package}", which is not installed',
        field="provider",
        mend=f'pip install "ringonce[{name}]"',
    )


def _load_foreign(point: EntryPoint) -> type[Provider]:
    origin = point.dist.name if point.dist is not None else point.value
    try:
        value: Any = point.load()
    except Exception as error:
        raise ConfigError(
            f'provider {point.name} of "{origin}" can not be loaded: {error}',
            field="provider",
            mend=f"install what {origin} needs, or remove it",
        ) from error
    if not (inspect.isclass(value) and issubclass(value, Provider)):
        raise ConfigError(
            f'"{point.value}" is no provider',
            field="provider",
            mend=f"the entry point must name a subclass of ringonce.provider.Provider; tell the author of {origin}",
        )
    return value


def _nearest(name: str, known: Iterable[str]) -> str:
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(choices) or 'none'}"
