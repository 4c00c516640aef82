"""Text from outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.text import clean_text, cut, length


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("tab\tline\r\nend", "tab\tline\r\nend"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800x\udfff", "\ufffdx\ufffd"),
        ("\x1b[31mred\x9b", "\ufffd[31mred\ufffd"),
        ("Grüße 😀".encode(), "Grüße 😀"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"nul\x00", "nul\ufffd"),
        ("", ""),
    ],
)
def test_what_can_not_be_stored_or_shown_is_replaced(value: bytes | str, expected: str) -> None:
    """U+0000, lone surrogates, control characters and bytes that are not UTF-8 become U+FFFD."""
    assert clean_text(value, 100) == expected


@pytest.mark.parametrize("value", ["x" * 11, ("é" * 11).encode(), "😀" * 50, ("😀" * 50).encode()])
def test_a_long_text_is_cut(value: bytes | str) -> None:
    """No more characters than the limit, and the last one says that it was cut."""
    text = clean_text(value, 10)
    assert len(text) == 10
    assert text.endswith("…")
    assert "\ufffd" not in text


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "…"), (3, "abc")])
def test_small_limits(limit: int, expected: str) -> None:
    """The limit is kept whatever it is; a text of exactly the limit is whole."""
    assert clean_text("abc", limit) == expected


@pytest.mark.parametrize(
    ("text", "chars", "octets", "utf16", "json"),
    [
        ("", 0, 0, 0, 0),
        ("abc", 3, 3, 3, 3),
        ("жук", 3, 6, 3, 6),
        ("😀", 1, 4, 2, 4),
        ('a"\\\n\t\x01', 6, 6, 6, 15),
        ("\u2028", 1, 3, 1, 3),
    ],
)
def test_length_by_unit(text: str, chars: int, octets: int, utf16: int, json: int) -> None:
    """Code points, UTF-8, UTF-16, and what a JSON string needs."""
    assert [length(text, unit) for unit in ("chars", "bytes", "utf16", "json")] == [
        chars,
        octets,
        utf16,
        json,
    ]


FAMILY = "👨‍👩‍👧‍👦"
FLAGS = "🇩🇪🇫🇷"


@pytest.mark.parametrize(
    ("text", "limit", "unit", "expected"),
    [
        ("hello", 5, "chars", "hello"),
        ("hello", 4, "chars", "hel…"),
        ("hello world", 7, "chars", "hello…"),
        ("hello", 1, "chars", "…"),
        ("hello", 0, "chars", ""),
        ("hello", 2, "bytes", ""),
        ("жжж", 5, "bytes", "ж…"),
        ("😀😀", 3, "utf16", "😀…"),
        ("😀😀", 2, "utf16", "…"),
        ("aé", 2, "chars", "aé"),
        ("ae\u0301x", 3, "chars", "a…"),
        (f"a{FAMILY}b", 4, "chars", "a…"),
        (f"a{FAMILY}b", 8, "chars", "a…"),
        (f"a{FAMILY}bc", 9, "chars", f"a{FAMILY}…"),
        ("a👍🏽b", 3, "chars", "a…"),
        (f"{FLAGS}🇮🇹", 4, "chars", "🇩🇪…"),
        (f"{FLAGS}🇮🇹", 5, "chars", f"{FLAGS}…"),
        ("a\r\nbc", 3, "chars", "a…"),
        ("a\rbc", 3, "chars", "a…"),
        ("❤️x", 2, "chars", "…"),
        ("🏴\U000e0067\U000e0062\U000e007fx", 3, "chars", "…"),
        ('""""', 7, "json", '""…'),
    ],
)
def test_cut(text: str, limit: int, unit: str, expected: str) -> None:
    """It ends between two characters as a reader sees them, with the ellipsis inside the limit."""
    assert cut(text, limit, unit) == expected


@given(st.text(max_size=60), st.integers(0, 80), st.sampled_from(["chars", "bytes", "utf16", "json"]))
def test_cut_never_exceeds_and_keeps_what_fits(text: str, limit: int, unit: str) -> None:
    """Whatever the text, the result fits, is valid Unicode, and is the text itself when that fits."""
    shorter = cut(text, limit, unit)
    shorter.encode()
    assert length(shorter, unit) <= limit
    assert (shorter == text) == (length(text, unit) <= limit)
    assert text.startswith(shorter.removesuffix("…"))
