"""Bytes in text that may stand in a URL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.base64url import base64url, from_base64url


@given(st.binary())
def test_there_and_back(data: bytes) -> None:
    """What is spelled is read back, has no padding, and is read with padding too."""
    text = base64url(data)
    assert "=" not in text
    assert from_base64url(text) == from_base64url(text + "=" * (-len(text) % 4)) == data


def test_what_is_none_is_refused() -> None:
    """A length that no bytes have is an error."""
    with pytest.raises(ValueError, match="base64"):
        from_base64url("secre")
