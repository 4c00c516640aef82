"""How one value of the configuration is written: a kind checks it, converts it, and says what it expects."""

from __future__ import annotations

import ipaddress
import math
import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from ringonce.model.policy import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from enum import StrEnum

UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3_600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 604_800 * SECOND,
}
LONGEST = 3_650 * UNITS["d"]
"""Ten years: sums of durations and the clock stay far inside 64 bits and inside what a calendar can show."""

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)")
_DURATION = re.compile(rf"(?:{_PART.pattern}\s*)+")
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|kB|MB)?")
_SIZES = {None: 1, "B": 1, "kB": 1_000, "MB": 1_000_000, "KiB": 1_024, "MiB": 1_048_576}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,4}")
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


class Bad(ValueError):  # noqa: N818 - never leaves the package; the reader turns it into a ConfigError
    """A value that its kind refuses."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend


class EnvText(str):
    """A value that came from the environment: always text, to be read as whatever its key wants."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """``title`` is what the reference page calls it; ``convert`` raises Bad."""

    title: str
    convert: Callable[[object], object]


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean X?``, or the list of what there is when nothing is near."""
    names = sorted(set(known))
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return "known here: " + ", ".join(names) if names else ""


def shown(value: object) -> str:
    """A value for an error message: short, and never a text, which might be a secret."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else type(value).__name__


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _to_duration(value: object) -> int:
    mend = 'write "500ms", "1s", "30m", "1h30m", "7d", or a number of seconds'
    number = _number(value)
    if isinstance(value, str):
        plain = value.strip()
        if _DURATION.fullmatch(plain):
            micros = sum(float(amount) * UNITS[unit] for amount, unit in _PART.findall(plain))
        elif re.fullmatch(r"\d+(?:\.\d+)?", plain):
            micros = float(plain) * SECOND
        else:
            raise Bad("is no duration", mend)
    elif number is not None:
        if number < 0:
            raise Bad("must not be negative", mend)
        micros = number * SECOND
    else:
        raise Bad(f"expected a duration, found {shown(value)}", mend)
    if micros > LONGEST:
        raise Bad("is longer than ten years", mend)
    return round(micros)


def duration(*, least: int = 0, most: int = LONGEST) -> Kind:
    """A duration in microseconds, at least ``least`` and at most ``most``."""

    def convert(value: object) -> object:
        micros = _to_duration(value)
        if micros < least:
            raise Bad(f"must be at least {span(least)}")
        if micros > most:
            raise Bad(f"must be at most {span(most)}")
        return micros

    return Kind("duration", convert)


def duration_or_none(*, least: int = 0) -> Kind:
    """A duration, or the word ``none``: no limit."""
    plain = duration(least=least)

    def convert(value: object) -> object:
        if isinstance(value, str) and value.strip().lower() == "none":
            return None
        return plain.convert(value)

    return Kind('duration or "none"', convert)


def span(micros: int) -> str:
    """A duration in the longest unit that divides it: 90 s is ``90s``, 3,600 s is ``1h``."""
    for unit in ("d", "h", "m", "s", "ms"):
        if micros and micros % UNITS[unit] == 0:
            return f"{micros // UNITS[unit]}{unit}"
    return f"{micros}us" if micros else "0s"


def text(*, empty: bool = False) -> Kind:
    """A text."""

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise Bad(f"expected a text, found {shown(value)}", "put it in quotes")
        if not value.strip() and not empty:
            raise Bad("must not be empty")
        return str(value)

    return Kind("text", convert)


def flag() -> Kind:
    """``true`` or ``false``; from the environment also 1/0, yes/no, on/off."""

    def convert(value: object) -> object:
        if isinstance(value, bool):
            return value
        if isinstance(value, EnvText) and value.strip().lower() in _TRUE | _FALSE:
            return value.strip().lower() in _TRUE
        raise Bad(f"expected true or false, found {shown(value)}", "write true or false, without quotes")

    return Kind("true or false", convert)


def switch(enum: type[StrEnum]) -> Kind:
    """``"auto"``, or a flag; the enum has these three."""

    def convert(value: object) -> object:
        if isinstance(value, str) and value.strip().lower() == "auto":
            return enum("auto")
        try:
            return enum("true" if flag().convert(value) else "false")
        except Bad as bad:
            raise Bad(f'{bad.message}, or "auto"', 'write "auto", or true or false without quotes') from None

    return Kind('"auto", true or false', convert)


def endpoint() -> Kind:
    """``HOST:PORT`` as (host, port); an IPv6 address in brackets."""

    def convert(value: object) -> object:
        mend = 'write "127.0.0.1:9464"'
        if not isinstance(value, str):
            raise Bad(f"expected a text, found {shown(value)}", mend)
        host, _, port = value.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise Bad("is no HOST:PORT", mend)
        return host.strip("[]"), int(port)

    return Kind('text, "HOST:PORT"', convert)


def integer(*, least: int = 0, most: int = 2**31 - 1) -> Kind:
    """A whole number between ``least`` and ``most``."""

    def convert(value: object) -> object:
        number: object = value
        if isinstance(value, EnvText):
            plain = value.strip()
            number = int(plain) if re.fullmatch(r"-?\d{1,18}", plain) else value
        if isinstance(number, bool) or not isinstance(number, int):
            raise Bad(f"expected a whole number, found {shown(value)}", "write it without quotes")
        if number < least:
            raise Bad(f"must be at least {least}, is {number}")
        if number > most:
            raise Bad(f"must be at most {most}, is {number}")
        return number

    return Kind("whole number", convert)


def decimal(*, least: float, most: float) -> Kind:
    """A number between ``least`` and ``most``."""

    def convert(value: object) -> object:
        number = _number(value)
        if isinstance(value, EnvText) and re.fullmatch(r"\d+(?:\.\d+)?", value.strip()):
            number = float(value)
        if number is None:
            raise Bad(f"expected a number, found {shown(value)}", "write it without quotes")
        if not least <= number <= most:
            raise Bad(f"must be between {least:g} and {most:g}, is {number:g}")
        return float(number)

    return Kind("number", convert)


def size(*, least: int, most: int) -> Kind:
    """A number of bytes: ``262144`` or ``"256KiB"``."""

    def convert(value: object) -> object:
        count: int | None = None
        if isinstance(value, str):
            match = _SIZE.fullmatch(value.strip())
            if match:
                count = int(match[1]) * _SIZES[match[2]]
        elif isinstance(value, int) and not isinstance(value, bool):
            count = value
        if count is None:
            raise Bad(f"expected a size, found {shown(value)}", 'write "256KiB" or a number of bytes')
        if not least <= count <= most:
            raise Bad(f"must be between {least} and {most} bytes, is {count}")
        return count

    return Kind("size", convert)


def choice(enum: type[StrEnum], *, later: Collection[str] = ()) -> Kind:
    """One of the values of ``enum``; those in ``later`` are known and not available yet."""
    names = [str(item) for item in enum if str(item) not in later]

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise Bad(f"expected a text, found {shown(value)}", "one of " + ", ".join(names))
        plain = value.strip()
        if plain in later:
            raise Bad(f'"{plain}" is not available yet', "one of " + ", ".join(names))
        if plain not in names:
            raise Bad(f"must be one of {', '.join(names)}", nearest(plain, names))
        return enum(plain)

    return Kind(" | ".join(f'"{name}"' for name in names), convert)


def sequence(item: Kind, *, least: int = 0) -> Kind:
    """A list of one kind; from the environment, separated by commas."""

    def convert(value: object) -> object:
        items: object = value
        if isinstance(value, EnvText):
            items = [
                part.strip() for part in value.strip().strip("[]").replace('"', "").split(",") if part.strip()
            ]
        if not isinstance(items, (list, tuple)):
            raise Bad(f"expected a list, found {shown(value)}", "put it in [ ]")
        if len(items) < least:
            raise Bad("must not be empty")
        converted = []
        for index, element in enumerate(items):
            try:
                converted.append(item.convert(element))
            except Bad as bad:
                raise Bad(f"item {index + 1} {bad.message}", bad.mend) from None
        return tuple(converted)

    return Kind(f"list of {item.title}", convert)


def table_of(item: Kind) -> Kind:
    """A table of names with values of one kind; from the environment, as inline TOML."""

    def convert(value: object) -> object:
        table = inline(value) if isinstance(value, EnvText) else value
        if not isinstance(table, dict):
            raise Bad(f"expected a table, found {shown(value)}", "put it in { }")
        converted = {}
        for name, element in table.items():
            try:
                converted[str(name)] = item.convert(element)
            except Bad as bad:
                raise Bad(f"{name}: {bad.message}", bad.mend) from None
        return converted

    return Kind(f"table of {item.title}", convert)


def http_url() -> Kind:
    """An address on the web, ``http`` or ``https``. It may hold a secret, so it is never repeated."""

    def convert(value: object) -> object:
        mend = 'write "https://app.example.com/wanted"'
        if not isinstance(value, str):
            raise Bad(f"expected a text, found {shown(value)}", mend)
        try:
            parts = urlsplit(value.strip())
            good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not value.strip().isascii() or any(char.isspace() for char in value.strip()):
            raise Bad("is no address on the web", mend)
        return value.strip()

    return Kind("URL", convert)


def network() -> Kind:
    """An IPv4 or IPv6 network, e.g. ``127.0.0.0/8``."""

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise Bad(f"expected a network, found {shown(value)}", 'write "127.0.0.0/8"')
        try:
            return str(ipaddress.ip_network(value.strip(), strict=False))
        except ValueError:
            raise Bad("is no network", 'write it as "127.0.0.0/8" or "fd00::/8"') from None

    return Kind("network", convert)


def locale() -> Kind:
    """A language tag, e.g. ``ru`` or ``pt-BR``."""

    def convert(value: object) -> object:
        if not isinstance(value, str) or not _LANGUAGE.fullmatch(value.strip()):
            raise Bad("is no locale", 'write "en", "pt-BR", …')
        return value.strip()

    return Kind("locale", convert)


def timezone() -> Kind:
    """An IANA time zone, e.g. ``Europe/Berlin``."""

    def convert(value: object) -> object:
        try:
            return str(ZoneInfo(value.strip() if isinstance(value, str) else ""))
        except (OSError, ValueError, KeyError):
            raise Bad("is no time zone", 'write "UTC", "Europe/Berlin", …') from None

    return Kind("time zone", convert)


def jitter() -> Kind:
    """Additive (``"1s"``) or proportional (``"10%"``): (microseconds, share of the delay)."""
    plain = duration()

    def convert(value: object) -> object:
        if isinstance(value, str) and value.strip().endswith("%"):
            number = value.strip()[:-1].strip()
            if not re.fullmatch(r"\d+(?:\.\d+)?", number) or float(number) > 100:  # noqa: PLR2004 - per cent
                raise Bad("must be between 0% and 100%")
            return (0, float(number) / 100)
        return (plain.convert(value), 0.0)

    return Kind("duration or per cent", convert)


def per_second(value: str) -> float:
    """A rate such as ``50/s`` or ``30/m`` in events per second. Raises Bad."""
    match = _RATE.fullmatch(value.strip())
    if not match or float(match[1]) <= 0:
        raise Bad("is no rate", 'write "50/s" or "30/m"')
    return float(match[1]) * SECOND / UNITS[match[2]]


def inline(value: EnvText) -> object:
    """A list or table written as TOML in an environment variable; any other text stays what it is."""
    plain = value.strip()
    if plain[:1] not in {"[", "{"}:
        return value
    try:
        return tomllib.loads(f"value = {plain}")["value"]
    except tomllib.TOMLDecodeError:
        return value
