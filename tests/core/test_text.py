"""Text from outside."""

import pytest

from ringonce.core.text import clean_text


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
