"""Secrets and addresses stay out of what is kept of an answer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.redact import LIMIT, clean, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("550 <bob.smith+x@mail.example.com>: unknown", "550 <[address]>: unknown"),
        ("почта@пример.рф не найдена", "[address] не найдена"),
        ("call +7 916 123-45-67 now", "call [number] now"),
        ("chat 4815162342 gone", "chat [number] gone"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [secret]"),
        ('{"access_token": "abc", "a": 1}', '{"access_token": "[secret]", "a": 1}'),
        ('{\\"access_token\\":\\"abc\\"}', '{\\"access_token\\":\\"[secret]\\"}'),
        ("GET /x?api_key=abc&y=1", "GET /x?api_key=[secret]&y=1"),
        ("https://user:pa%20ss@example.com/x", "https://[secret]@example.com/x"),
        (
            "https://api.example/bot123456:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abc/send",
            "https://api.example/[secret]/send",
        ),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "[secret]"),
        ("jwt eyJhbGciOi.eyJzdWIi.c2ln end", "jwt [secret] end"),
        ("token APA91bHPRgkF3JUikC4ENAHEeMrd41Zxv3hVZjC9KtT8OvPVGJ gone", "token [token] gone"),
        ("queued as 4F1A2B", "queued as 4F1A2B"),
        (
            "id 018f2f6e-1111-7222-8333-444455556666 of 2026-01-01",
            "id 018f2f6e-1111-7222-8333-444455556666 of 2026-01-01",
        ),
        ("Too Many Requests: retry after 86399", "Too Many Requests: retry after 86399"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    """Addresses, phone numbers, tokens and credentials become a word; codes and ids stay legible."""
    assert redact(text) == shown


def test_clean() -> None:
    """Control characters, U+0000 and lone surrogates become spaces; long text is cut visibly."""
    assert clean(" a\0b\r\n\x85c\ud800 ") == "a b c"
    assert clean("x" * 600) == "x" * 499 + "…"
    assert clean("x" * LIMIT) == "x" * LIMIT
    assert clean("abcdef", 4) == "abc…"


def test_cut_after_redaction() -> None:
    """A secret that the cut would halve is hidden as a whole."""
    assert "ABC" not in redact("y " * 240 + "token=" + "ABC" * 30)


@pytest.mark.parametrize(
    "piece", ["a", "a-", "token", "1 ", "a@", "://", "eyJ", "bearer ", "+1 ", "token=\\"]
)
def test_time_is_bounded(piece: str) -> None:
    """No text takes long, however it is built."""
    started = time.process_time()
    redact(piece * 20_000)
    assert time.process_time() - started < 1


@given(st.text())
def test_storable(text: str) -> None:
    """The result can be stored in any database as one line of bounded length."""
    shown = redact(text)
    shown.encode()
    assert len(shown) <= LIMIT
    assert "\0" not in shown
    assert len(shown.splitlines()) <= 1
