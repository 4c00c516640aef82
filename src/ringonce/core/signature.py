"""Is this callback from whom it says? What the vendors' signatures have in common.

Everything is compared in constant time, with every secret that is in use: two are while one is replaced by the other.
What is wrong is never told to the caller; the log of whoever sets it up is the vendor's own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any, Final

from ringonce.core.base64url import base64url
from ringonce.errors import ConfigError, ForgedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TOLERANCE: Final = 300
"""Seconds that a signed time may differ from ours, both ways."""
_SECOND: Final = 1_000_000


def several(given: str | Sequence[str], name: str) -> tuple[str, ...]:
    """The secrets in an option: one text, with commas between several, or a list. Raises ConfigError for ``name``."""
    texts = tuple(part.strip() for part in (given.split(",") if isinstance(given, str) else given))
    texts = tuple(text for text in texts if text)
    if not all(re.fullmatch(r"[\x21-\x7e]{1,1024}", text) for text in texts):
        raise ConfigError(
            "this can not be a secret: it holds spaces", field=name, mend="write it as it was given"
        )
    return texts


def prove(given: str | None, secrets: Iterable[str], *signs: Callable[[bytes], str]) -> None:
    """One of the secrets makes the signature that was given, in one of these ways. Raises ForgedError: none does."""
    shown = (given or "").encode(errors="surrogateescape")
    # All are compared, so that the time tells nothing.
    fits = [
        hmac.compare_digest(shown, sign(secret.encode()).encode()) for secret in secrets for sign in signs
    ]
    if not given or not any(fits):
        raise ForgedError


def hmac_hex(body: bytes, begin: str = "", kind: str = "sha256") -> Callable[[bytes], str]:
    """HMAC of the body as hexadecimal digits, with ``begin`` before them, by the secret."""
    return lambda secret: begin + hmac.new(secret, body, kind).hexdigest()


def hmac_sha1_base64(body: bytes) -> Callable[[bytes], str]:
    """HMAC-SHA1 of the body in base64, by the secret."""
    return lambda secret: base64.b64encode(hmac.new(secret, body, hashlib.sha1).digest()).decode()


def plain(secret: bytes) -> str:
    """The secret itself, where the vendor only repeats it."""
    return secret.decode()


def fresh(stamp: object, now: int, tolerance: int = TOLERANCE) -> None:
    """A time in whole seconds, as a number or in ASCII digits, is near ours (microseconds). Raises ForgedError."""
    text = str(stamp) if isinstance(stamp, str | int) and not isinstance(stamp, bool) else ""
    if not re.fullmatch("[0-9]{1,12}", text) or abs(int(text) * _SECOND - now) > tolerance * _SECOND:
        raise ForgedError


def hs256(token: str, secrets: Sequence[str]) -> dict[str, Any]:
    """What a token says that was signed with one of the secrets (RFC 7515; RFC 7518, section 3.2).

    Raises ForgedError: no secret made its signature, or it is no such token.
    """
    signed, _, signature = token.rpartition(".")

    def sign(secret: bytes) -> str:
        return base64url(hmac.new(secret, signed.encode(errors="surrogateescape"), hashlib.sha256).digest())

    prove(signature.rstrip("="), secrets, sign)
    try:
        header, claims = (json.loads(_from_base64(part)) for part in signed.split("."))
    except (ValueError, RecursionError):
        raise ForgedError from None
    # A signature of another kind is no proof, whatever its bytes are (RFC 8725, section 3.1).
    if not isinstance(header, dict) or header.get("alg") != "HS256" or not isinstance(claims, dict):
        raise ForgedError
    return claims


def ed25519(key: bytes, signature: str | None, message: bytes) -> None:
    """The hexadecimal signature was made by the owner of the public key (RFC 8032). Raises ForgedError."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature or ""), message)
    except (InvalidSignature, ValueError):
        raise ForgedError from None


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
