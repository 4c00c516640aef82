"""How long does the provider want us to wait? RFC 9110 section 10.2.3, read leniently where that is safe."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 86_400
"""A day, in seconds. A longer wait is cut: the channel's max_age ends a notification before it matters."""

_TOO_LONG = 100  # a longer header is not a number and not a date, whatever it begins with
_SECOND = 1_000_000
# [0-9] and not \d: Python's digits include those of other scripts, which int() would happily take.
_DELTA = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_HINT = re.compile(r"([0-9]+)(?:\.([0-9]+))? ?(s|m|h)?(?:ec|in|our)?(?:ond|ute)?s?", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600}
_MONTHS = {"janfebmaraprmayjunjulaugsepoctnovdec"[at : at + 3]: at // 3 + 1 for at in range(0, 36, 3)}
_MONTH = r"(?P<month>[A-Za-z]{3})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# RFC 9110 section 5.6.7: IMF-fixdate, the obsolete RFC 850 form, asctime. "-0000" is how some libraries spell GMT.
_DATES = tuple(
    re.compile(form)
    for form in (
        rf"[A-Za-z]{{3}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} (?:GMT|UTC|[+-]0000)",
        rf"[A-Za-z]{{6,9}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} (?:GMT|UTC|[+-]0000)",
        rf"[A-Za-z]{{3}} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def retry_after(headers: Mapping[str, str], body_hint: str | float | None, now: int) -> int | None:
    """Whole seconds to wait, 0 … ``LONGEST``, or None when nothing legible was said.

    ``headers`` have lower-case names. ``body_hint`` is the value that the answer's body gives: seconds, or a
    text with a unit as in ``3.5s`` (Google's RetryInfo) or ``5 minutes`` (greylisting). Header and body
    disagree: the longer. ``now`` in microseconds UTC serves where the answer has no ``Date``.
    A date is measured against the answer's own ``Date``, so that a wrong clock of ours does not matter.
    Never raises: not on 5,000 digits, not on a year 99999, not on digits of other scripts.
    """
    waits = (_of_header(headers, now), _delta(body_hint, _HINT))
    return max((wait for wait in waits if wait is not None), default=None)


def _of_header(headers: Mapping[str, str], now: int) -> int | None:
    value = headers.get("retry-after", "").strip(" \t")
    wait = _delta(value)
    if wait is not None:
        return wait
    until = _date(value, now)
    if until is None:
        return None
    since = _date(headers.get("date", "").strip(" \t"), now)
    distance = until - (now if since is None else since)
    return min(max(-(-distance // _SECOND), 0), LONGEST)


def _delta(value: str | float | None, form: re.Pattern[str] = _DELTA) -> int | None:
    """A number of seconds, rounded up."""
    if value is None or isinstance(value, bool):
        return None
    text = value if isinstance(value, str) else f"{value:.3f}"  # nan, inf and negatives do not match below
    match = form.fullmatch(text) if len(text) <= _TOO_LONG else None
    if match is None:
        return None
    whole, fraction, *unit = match.groups()
    seconds = int(whole) + bool((fraction or "").strip("0"))
    return min(seconds * (_UNITS[unit[0].lower()] if unit and unit[0] else 1), LONGEST)


def _date(value: str, now: int) -> int | None:
    """Microseconds UTC of an HTTP date; independent of the process's locale and time zone."""
    match = (
        next(filter(None, (form.fullmatch(value) for form in _DATES)), None)
        if len(value) <= _TOO_LONG
        else None
    )
    if match is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        # RFC 9110 section 5.6.7: a year that seems more than 50 years ahead is the past one with these digits.
        this_year = datetime.fromtimestamp(now / _SECOND, UTC).year
        year += this_year - this_year % 100
        if year > this_year + 50:
            year -= 100
    try:
        at = datetime(
            year,
            _MONTHS[match["month"].lower()],
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            min(int(match["second"]), 59),  # a leap second is legal, and Python's datetime has none
            tzinfo=UTC,
        )
    except (KeyError, ValueError):
        return None
    return int((at - _EPOCH).total_seconds()) * _SECOND
