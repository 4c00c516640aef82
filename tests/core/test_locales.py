"""Which text somebody gets, and how numbers and moments are written in it."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.locales import (
    FORMS,
    Misuse,
    chain,
    kind,
    locale_of,
    normal,
    ordinary_forms,
    pick,
    way_of_writing,
    zone,
)
from tests.core.writing import written

MOMENT = "2026-07-01T22:30:00Z"


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("ru", "ru"),
        ("pt_BR", "pt-br"),
        ("PT-br", "pt-br"),
        ("ru_RU.UTF-8", "ru-ru"),
        ("de_DE@euro", "de-de"),
        ("zh-Hant-TW", "zh-hant-tw"),
        ("../../etc/passwd", None),
        ("C", None),
        ("", None),
        (None, None),
        ("ру", None),
        ("en-" + "x" * 80, None),
    ],
)
def test_tags_have_one_spelling(tag: str | None, expected: str | None) -> None:
    """A tag in whatever spelling is one; what is none is nothing, and never a path."""
    assert normal(tag) == expected


def test_a_tag_falls_back_to_its_language() -> None:
    """From region to script to language."""
    assert chain("zh_Hant_TW") == ["zh-hant-tw", "zh-hant", "zh"]
    assert chain("../x") == []


@pytest.mark.parametrize(
    ("wanted", "default", "present", "expected"),
    [
        ("ru-RU", "en", {"ru", "en"}, "ru"),
        ("ru-RU", "en", {"ru-ru", "ru"}, "ru-ru"),
        ("pt", "en", {"pt-br", "pt-pt", "en"}, "pt-br"),
        ("xx", "de-AT", {"de", "en"}, "de"),
        (None, "de", {"de", "en"}, "de"),
        ("../../etc/passwd", "fr", {"en", "de"}, "en"),
        (None, "fr", {"de", "cs"}, "cs"),
        ("ru", "", {"en"}, "en"),
    ],
)
def test_the_chain_of_texts(wanted: str | None, default: str, present: set[str], expected: str) -> None:
    """Own locale, its language, the default, English, any."""
    assert pick(wanted, default, present) == expected


def test_inside_a_text_things_are_written_in_its_language() -> None:
    """The recipient's region counts inside a text of their language; in any other text it does not."""
    assert way_of_writing("en-GB", "en") == "en-gb"
    assert way_of_writing("ru", "en") == "en"
    assert way_of_writing(None, "en") == "en"
    assert way_of_writing("en-QQ", "en") == "en"


def test_zones_are_names_and_never_paths() -> None:
    """A known name is a zone; a path, a folder and a misspelling are none."""
    assert str(zone("Asia/Kathmandu")) == "Asia/Kathmandu"
    for name in (
        "../../etc/passwd",
        "Europe",
        "Europe/Berlni",
        "/etc/localtime",
        "",
        None,
        "x" * 100,
        "a\0b",
    ):
        assert zone(name) is None


def test_every_tag_has_data() -> None:
    """What CLDR does not know is written as in English."""
    assert str(locale_of("ru-ru")) == "ru_RU"
    assert str(locale_of("de-qq")) == "de"
    assert str(locale_of("qqq")) == "en"
    assert str(locale_of("en-a1b2c3d4")) == "en"


RU = {"one": "заказ", "few": "заказа", "many": "заказов", "other": "заказа (дробь)"}


@pytest.mark.parametrize(
    ("locale", "count", "form"),
    [
        ("ru", 1, "one"),
        ("ru", 21, "one"),
        ("ru", 11, "many"),
        ("ru", 2, "few"),
        ("ru", 5, "many"),
        ("ru", 0, "many"),
        ("ru", 1.5, "other"),
        ("ru", -1, "one"),
        ("ru", "21", "one"),
        ("en", 1, "one"),
        ("en", 0, "other"),
        ("en", Decimal("1.0"), "other"),
        ("pt", 0, "one"),
        ("pt", 1, "one"),
        ("pt-pt", 0, "other"),
        ("pt", 2, "other"),
        ("pt", 1_000_000, "many"),
        ("ar", 0, "zero"),
        ("ar", 2, "two"),
        ("ar", 3, "few"),
        ("ar", 11, "many"),
        ("ar", 100, "other"),
        ("pl", 1, "one"),
        ("pl", 22, "few"),
        ("pl", 12, "many"),
        ("ja", 1, "other"),
        ("xx", 1, "one"),
    ],
)
def test_plural_forms(locale: str, count: object, form: str) -> None:
    """The form of a number is CLDR's."""
    assert written(locale).plural(count, {name: name for name in FORMS}) == form


@given(st.sampled_from(["ru", "pt", "ar", "pl", "en", "ja", "xx"]), st.integers(-(10**9), 10**9))
def test_a_missing_form_is_other(locale: str, count: int) -> None:
    """Whatever the number and language, a form that nobody wrote is ``other`` and no error."""
    assert written(locale).plural(count, {"other": "x"}) == "x"


def test_ordinary_forms() -> None:
    """What whole numbers take: a million in Portuguese is not ordinary."""
    assert ordinary_forms("ru") == {"one", "few", "many"}
    assert ordinary_forms("pt") == {"one", "other"}
    assert ordinary_forms("ar") == set(FORMS)


@pytest.mark.parametrize(
    ("locale", "number", "share", "money", "day", "moment"),
    [
        ("en-us", "1,234.5", "26%", "€1,234.50", "Feb 3, 2026", "Jul 1, 2026, 6:30\u202fPM EDT"),
        ("en-gb", "1,234.5", "26%", "€1,234.50", "3 Feb 2026", "1 Jul 2026, 18:30 GMT-04:00"),
        ("de", "1.234,5", "26\xa0%", "1.234,50\xa0€", "03.02.2026", "01.07.2026, 18:30 GMT-04:00"),
        (
            "ru",
            "1\xa0234,5",
            "26\xa0%",
            "1\xa0234,50\xa0€",
            "3 февр. 2026\u202fг.",
            "1 июл. 2026\u202fг., 18:30 GMT-04:00",
        ),
        ("hi", "1,234.5", "26%", "€1,234.50", "3 फ़र॰ 2026", "1 जुल॰ 2026, 6:30 pm GMT-04:00"),
    ],
)
def test_numbers_and_moments(locale: str, number: str, share: str, money: str, day: str, moment: str) -> None:
    """Separators, order and words are the locale's; the zone is the recipient's and is named."""
    writing = written(locale, "America/New_York")
    assert writing.number(1234.5) == number
    assert writing.percent(0.255) == share
    assert writing.currency("1234.50", "EUR") == money
    assert writing.day("2026-02-03") == day
    assert writing.moment(MOMENT) == moment


def test_grouping_is_the_locales() -> None:
    """India groups by lakh, whatever the number of decimal places."""
    assert written("hi").number(1234567.5, 2) == "12,34,567.50"


def test_digits_are_the_locales() -> None:
    """Egypt writes its own digits in numbers, money and dates alike."""
    writing = written("ar-eg", "UTC")
    assert writing.number(1234.5) == "١٬٢٣٤٫٥"
    for text in (writing.currency(12, "EUR"), writing.day("2026-02-03"), writing.moment(MOMENT)):
        assert not any(digit in text for digit in "0123456789")


def test_a_moment_is_a_day_where_the_recipient_is() -> None:
    """Half past ten in the evening UTC is the next day in India; a plain date is the same day everywhere."""
    assert written("en", "Asia/Kolkata").day(MOMENT) == "Jul 2, 2026"
    assert written("en", "Asia/Kolkata").day("2026-07-01") == "Jul 1, 2026"


def test_kinds_of_values_are_named_without_the_value() -> None:
    """An error names what a value is and never the value."""
    values = (None, True, 1, 1.5, Decimal(1), "x", {}, [])
    assert [kind(value) for value in values] == [
        *("null", "true or false", "a number", "a number", "a number", "a text", "a mapping", "a list"),
    ]


@pytest.mark.parametrize("value", [True, None, "1e3", "١", 10**41, float("inf"), [], {}])
def test_what_is_no_number(value: object) -> None:
    """Texts that only Python would read as numbers are none, nor are truth values and infinities."""
    with pytest.raises(Misuse):
        written().number(value)
