"""Languages and places: which text somebody gets, and how numbers and moments are written for them.

Nothing here asks the process for its locale or its zone. The data are those of CLDR, by way of Babel, and of the
IANA time zones. What is read of them is the same on every machine: tables, not the state of the world.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time, get_timezone_gmt
from babel.numbers import format_currency, format_decimal, format_percent, is_currency

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Width: TypeAlias = Literal["short", "medium", "long", "full"]

_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8}){0,4}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ABBREVIATION = re.compile(r"[A-Z]{1,5}")
_DIGITS: Final = "0123456789"
# The digit zero of CLDR's numbering systems; Babel writes the separators of a locale, but European digits.
_ZERO: Final = {
    "arab": 0x0660,
    "arabext": 0x06F0,
    "beng": 0x09E6,
    "deva": 0x0966,
    "mymr": 0x1040,
    "adlm": 0x1E950,
}
_CACHED: Final = 512
LAST_RESORT: Final = "en"
FORMS: Final = ("zero", "one", "two", "few", "many", "other")
DATE_WIDTHS: Final = ("short", "medium", "long", "full")
TIME_WIDTHS: Final = ("short", "medium")
"""Without and with seconds."""
_LARGEST: Final = 10**40


class Misuse(Exception):  # noqa: N818 - becomes a TemplateError, which knows the place
    """A value that can not be shown that way. ``mend`` says what can."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend


def normal(tag: str | None) -> str | None:
    """A language tag in one spelling (``pt_BR`` and ``PT-br`` are ``pt-br``), or None: it is none.

    The encoding and the variant of a POSIX name (``ru_RU.UTF-8``, ``de_DE@euro``) are left out.
    """
    if not tag or len(tag) > 64:
        return None
    plain = re.split("[.@]", tag.strip(), maxsplit=1)[0].replace("_", "-").lower()
    return plain if _TAG.fullmatch(plain) else None


def chain(tag: str | None) -> list[str]:
    """From the tag to its language alone: ``zh-hant-tw``, ``zh-hant``, ``zh``; nothing for what is no tag."""
    plain = normal(tag)
    if plain is None:
        return []
    parts = plain.split("-")
    return ["-".join(parts[:count]) for count in range(len(parts), 0, -1)]


def pick(wanted: str | None, default: str, present: Collection[str]) -> str:
    """Which of the texts that are there somebody gets.

    The one for the tag or what it falls back to; another one of the same language; the default's; English; any, the
    first by name.

    Args:
        wanted: the recipient's locale, as it was given.
        default: the installation's.
        present: normal tags; at least one.
    """
    for candidate in (wanted, default, LAST_RESORT):
        tags = chain(candidate)
        for tag in tags:
            if tag in present:
                return tag
        if tags:
            kin = sorted(tag for tag in present if tag.split("-")[0] == tags[-1])
            if kin:
                return kin[0]
    return min(present)


def way_of_writing(wanted: str | None, text: str) -> str:
    """The tag by which numbers and moments are written inside a text.

    The recipient's own where it is the text's language (``en-GB`` inside an ``en`` text), else the text's: no
    Russian month stands in an English sentence.
    """
    plain = normal(wanted)
    if (
        plain is not None
        and plain.split("-")[0] == text.split("-", maxsplit=1)[0]
        and _locale(plain) is not None
    ):
        return plain
    return text


@lru_cache(_CACHED)
def zone(name: str | None) -> tzinfo | None:
    """A zone by its IANA name, or None: there is no such zone."""
    if not name or len(name) > 64:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        # A folder's name, a path out of the database, a name that nobody knows.
        return None


@lru_cache(_CACHED)
def _locale(tag: str) -> Locale | None:
    try:
        return Locale.parse(tag, sep="-")
    except (UnknownLocaleError, ValueError):
        return None


@lru_cache(_CACHED)
def locale_of(tag: str) -> Locale:
    """CLDR's data for a tag, or for what it falls back to."""
    found = (_locale(candidate) for candidate in (*chain(tag), LAST_RESORT))
    return next(locale for locale in found if locale is not None)


def ordinary_forms(tag: str) -> frozenset[str]:
    """The plural forms that the whole numbers up to 200 take in a language."""
    rule = locale_of(tag).plural_form
    return frozenset(rule(number) for number in range(201))


@dataclass(frozen=True, slots=True)
class Writing:
    """How things are written for somebody: language and zone."""

    locale: Locale
    zone: tzinfo

    @property
    def right_to_left(self) -> bool:
        """The script runs from right to left."""
        return self.locale.text_direction == "rtl"

    def plural(self, count: object, forms: Mapping[str, object]) -> object:
        """The form that goes with a number; one that is not there is ``other``."""
        number = _number(count)
        form = self.locale.plural_form(-number if number < 0 else number)
        return forms.get(form, forms["other"])

    def number(self, value: object, digits: int | None = None) -> str:
        """A number with the locale's separators; ``digits`` after the decimal point, else as many as it has."""
        number = _number(value)
        whole = self.locale.decimal_formats[None].pattern.split(".")[0]
        pattern = f"{whole}.{'#' * 15 if digits is None else '0' * _places(digits)}"
        return self._digits(format_decimal(number, pattern, self.locale, numbering_system="default"))

    def percent(self, value: object, digits: int = 0) -> str:
        """A share: 0.25 is 25 %."""
        pattern = self.locale.percent_formats[None].pattern
        shown = re.sub(r"0(?:\.[0#]+)?", "0." + "0" * digits if _places(digits) else "0", pattern, count=1)
        return self._digits(format_percent(_number(value), shown, self.locale, numbering_system="default"))

    def currency(self, value: object, code: object) -> str:
        """An amount of money. ``code``: ISO 4217."""
        if not isinstance(code, str) or not is_currency(code):
            raise Misuse("this is no currency", 'give its ISO 4217 code, e.g. | currency("EUR")')
        return self._digits(
            format_currency(_number(value), code, locale=self.locale, numbering_system="default")
        )

    def day(self, value: object, width: str = "medium") -> str:
        """The day of a moment where the recipient is, or a plain date as it is."""
        moment = _moment(value)
        day = moment.astimezone(self.zone).date() if isinstance(moment, datetime) else moment
        return self._digits(format_date(day, _width(width), self.locale))

    def hour(self, value: object, width: str = "short", *, named: bool = True) -> str:
        """The time of day of a moment where the recipient is, with the zone's abbreviation or offset."""
        moment = _here(value, self.zone)
        shown = format_time(moment, _width(width, TIME_WIDTHS), tzinfo=self.zone, locale=self.locale)
        return self._digits(f"{shown} {_abbreviation(moment, self)}" if named else shown)

    def moment(self, value: object, width: str = "medium", *, named: bool = True) -> str:
        """Day and time of a moment where the recipient is, with the zone's abbreviation or offset."""
        pattern = str(self.locale.datetime_formats[_width(width)])
        day, time = self.day(value, width), self.hour(value, named=named)
        return pattern.replace("'", "").replace("{1}", day).replace("{0}", time)

    def _digits(self, shown: str) -> str:
        zero = _ZERO.get(self.locale.default_numbering_system)
        return shown if zero is None else shown.translate({ord(d): zero + int(d) for d in _DIGITS})


def _here(value: object, where: tzinfo) -> datetime:
    moment = _moment(value)
    if not isinstance(moment, datetime):
        raise Misuse("this is a day and has no time", "use | date, or send the moment with its offset")
    return moment.astimezone(where)


def _abbreviation(moment: datetime, writing: Writing) -> str:
    """``EDT`` where the language has such a word, else ``GMT-04:00``."""
    short = format_time(moment, "z", tzinfo=writing.zone, locale=writing.locale)
    return short if _ABBREVIATION.fullmatch(short) else get_timezone_gmt(moment, "long", writing.locale)


def _number(value: object) -> int | float | Decimal:
    """A number, or an amount that was sent as a text so that no digit is lost."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        if not -_LARGEST < value < _LARGEST:
            raise Misuse("this number is too large to be shown", "numbers have up to 40 digits")
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return Decimal(value)
    raise Misuse(f"{kind(value)} is no number", "send a number, e.g. 12 or 12.5")


def _places(digits: object) -> int:
    if isinstance(digits, int) and not isinstance(digits, bool) and 0 <= digits <= 15:
        return digits
    raise Misuse("the number of decimal places is a whole number", "0 to 15")


def _width(width: object, known: tuple[str, ...] = DATE_WIDTHS) -> Width:
    if isinstance(width, str) and width in known:
        return cast("Width", width)
    raise Misuse("there is no such form of a date or time", f"one of {', '.join(known)}")


def _moment(value: object) -> datetime | date:
    """ISO 8601: a day, or a moment with its offset. A bare wall time would be somebody's guess."""
    mend = "send it as 2026-12-01T09:00:00Z or 2026-12-01"
    if not isinstance(value, str):
        raise Misuse(f"{kind(value)} is no moment", mend)
    try:
        if _DATE.fullmatch(value):
            return date.fromisoformat(value)
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise Misuse("this time has no offset", mend)
        # A moment at the edge of the calendar would leave it in another zone.
        return moment.astimezone(UTC) if 1 < moment.year < 9999 else _out_of_range()
    except ValueError:
        raise Misuse("this text is no moment", mend) from None


def _out_of_range() -> datetime:
    raise Misuse("this moment is out of the calendar", "years 2 to 9998")


def kind(value: object) -> str:
    """What a value is, for a message that does not repeat it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float, Decimal)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a mapping" if isinstance(value, dict) else "a list"
