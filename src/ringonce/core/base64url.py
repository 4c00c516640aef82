"""Bytes in text that may stand in a URL: base64url without padding (RFC 4648 section 5, RFC 7515 section 2)."""

from __future__ import annotations

import base64


def base64url(data: bytes) -> str:
    """Spell bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64url(text: str) -> bytes:
    """Read them back, with padding or without. Raises ValueError, which repeats nothing of the text."""
    bare = text.rstrip("=")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
