"""Retry-After in all its forms."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.retry_after import LONGEST, retry_after

NOW = 2_139_722_820_000_000  # 2037-10-21T07:27:00Z


def wait(value: str, date: str | None = None, now: int = NOW) -> int | None:
    """Parse this header beside this ``Date``."""
    headers = {"retry-after": value} | ({} if date is None else {"date": date})
    return retry_after(headers, None, now)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        (" 30 ", 30),
        ("\t30", 30),
        ("1.5", 2),
        ("1.000", 1),
        ("86401", LONGEST),
        ("9" * 20, LONGEST),
        ("Wed, 21 Oct 2037 07:28:00 GMT", 60),
        ("Wed, 21 Oct 2037 07:28:00 -0000", 60),
        ("Wednesday, 21-Oct-37 07:28:00 GMT", 60),
        ("Wed Oct 21 07:28:00 2037", 60),
        ("Thu Oct  1 07:28:00 2037", 0),
        ("Wed, 21 Oct 2037 07:27:60 GMT", 59),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        ("Tuesday, 21-Oct-97 07:28:00 GMT", 0),
    ],
)
def test_legible(value: str, seconds: int) -> None:
    """Seconds and the three date forms are honoured, fractions rounded up, the past is 0, a day is the most."""
    assert wait(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "-5",
        "+60",
        "1e3",
        "1_0",
        "inf",
        "nan",
        "60, 120",
        "٣",
        "6\uff10",
        "\xff",
        "60s",
        ".5",
        "5.",
        "rand(30),add(30)",
        "2037-10-21T07:28:00Z",
        "Wed, 21 Oct 2037 07:28:00 +0200",
        "Wed, 21 Oct 2037 25:28:00 GMT",
        "Wed, 30 Feb 2037 07:28:00 GMT",
        "Wed, 21 Foo 2037 07:28:00 GMT",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "9" * 5_000,
        "Wed, 21 Oct 2037 07:28:00 GMT" + " " * 5_000 + "x",
    ],
)
def test_garbage(value: str) -> None:
    """What is not in the grammar is ignored and never raises."""
    assert wait(value) is None


def test_no_header() -> None:
    """Without header and hint there is no wait."""
    assert retry_after({}, None, NOW) is None


def test_date_of_the_answer() -> None:
    """A date is measured against the answer's own clock; an illegible one leaves ours."""
    assert wait("Wed, 21 Oct 2037 07:28:00 GMT", "Wed, 21 Oct 2037 07:23:00 GMT") == 300
    assert wait("Wed, 21 Oct 2037 07:28:00 GMT", "yesterday") == 60


def test_part_of_a_second() -> None:
    """A started second counts."""
    assert wait("Wed, 21 Oct 2037 07:28:00 GMT", now=NOW + 1) == 60
    assert wait("Wed, 21 Oct 2037 07:28:00 GMT", now=NOW + 59_999_999) == 1


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [
        (5, 5),
        (64.57, 65),
        ("3.5s", 4),
        ("300 seconds", 300),
        ("5 minutes", 300),
        ("5 min", 300),
        ("2 hours", 7_200),
        ("48h", LONGEST),
        ("-5", None),
        (-5, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("", None),
        ("later", None),
    ],
)
def test_body_hint(hint: str | float, seconds: int | None) -> None:
    """The body may say it as a number, or as a text with a unit."""
    assert retry_after({}, hint, NOW) == seconds


def test_longer_of_both() -> None:
    """Header and body disagree: the longer, and garbage in one does not hide the other."""
    assert retry_after({"retry-after": "30"}, 5, NOW) == 30
    assert retry_after({"retry-after": "5"}, 30, NOW) == 30
    assert retry_after({"retry-after": "soon"}, 30, NOW) == 30
    assert retry_after({"retry-after": "30"}, "soon", NOW) == 30


def test_time_zone_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's time zone changes nothing."""
    monkeypatch.setenv("TZ", "America/Sao_Paulo")
    time.tzset()
    try:
        assert wait("Wed Oct 21 07:28:00 2037") == 60
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.text(), st.text(), st.none() | st.text() | st.integers() | st.floats())
def test_never_raises(value: str, date: str, hint: str | float | None) -> None:
    """Whatever the headers and the body say, the answer is None or within a day."""
    seconds = retry_after({"retry-after": value, "date": date}, hint, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST
