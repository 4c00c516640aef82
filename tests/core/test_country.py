"""Which country a number belongs to."""

import pytest

from ringonce.core.country import country


@pytest.mark.parametrize(
    ("number", "code"),
    [
        ("+12125550123", "1"),
        ("+18765550123", "1876"),
        ("+18095550123", "1809"),
        ("+79161234567", "7"),
        ("+77011234567", "77"),
        ("+447700900123", "44"),
        ("+447797123456", "447797"),
        ("+491701234567", "49"),
        ("+37060012345", "370"),
        ("+33612345678", "33"),
        ("491701234567", "49"),
        ("+8801712345678", "880"),
        ("+85212345678", "852"),
        ("no number", ""),
    ],
)
def test_by_its_first_digits(number: str, code: str) -> None:
    """One digit, two or three as the code has, and more where countries share it and are permitted one by one."""
    assert country(number) == code
