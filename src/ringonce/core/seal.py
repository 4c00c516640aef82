"""Sealed tokens: texts that only who knows the secret can write or read, and that stay the same when written again.

AES-SIV (RFC 5297) encrypts and proves at once and needs no random number, so that a mail with such a token in it is
the same in every byte when it is sent again. Nothing has to be stored, and nothing of what is inside can be read in
the log of whoever passes it on.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ringonce.core.base64url import base64url, from_base64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

LONGEST: Final = 2048
"""Characters of a token that are looked at."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def seal(secret: str, purpose: str, *parts: str) -> str:
    """A token of letters, digits, ``-`` and ``_``. One made for another purpose can not be passed off as it."""
    said = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
    return base64url(_cipher(secret, purpose).encrypt(said, None))


def unseal(secret: str, purpose: str, token: str, *, longest: int = LONGEST) -> tuple[str, ...] | None:
    """The parts of a token that was sealed with this secret for this purpose; None: it was not."""
    from cryptography.exceptions import InvalidTag

    if len(token) > longest or not _TOKEN.fullmatch(token):
        return None
    try:
        raw = from_base64url(token)
        said = _cipher(secret, purpose).decrypt(raw, None)
    except (InvalidTag, ValueError):
        return None
    return tuple(json.loads(said))


@lru_cache(maxsize=32)
def _cipher(secret: str, purpose: str) -> AESSIV:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    length = len(secret.encode()).to_bytes(4)
    return AESSIV(hashlib.sha512(b"ringonce seal" + length + secret.encode() + purpose.encode()).digest())
