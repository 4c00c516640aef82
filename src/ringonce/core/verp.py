"""Return paths that say which mail came back (VERP), with a proof that the report of it is not made up.

A report of a bounce (RFC 3464) carries no signature. Whoever knows an address could report it as dead, so the return
path holds an authentication code over the reference: only who has seen the mail on its way knows it.

The tag is letters and digits that survive being folded to one case, and short enough for a local part (RFC 5321
section 4.5.3.1.1: 64 octets).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final
from uuid import UUID

from ringonce.errors import InputError

LONGEST: Final = 26 + 1 + 4 + 1 + 16
"""Characters of a tag: the id, the revision, the code."""
_CODE: Final = 10  # octets: 80 bits, and one guess costs one mail
_REFERENCE = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.r([1-9][0-9]{0,3}))?")
_TAG = re.compile(r"([a-z2-7]{26})-([1-9][0-9]{0,3})-([a-z2-7]{16})", re.IGNORECASE)


def tag(reference: str, secret: str) -> str:
    """The tag of a client reference. Raises InputError: it is no reference of ours, or its revision has five digits."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise InputError("the reference can not stand in a return path", field="reference")
    id_ = _text(UUID(found[1]).bytes)
    return f"{id_}-{found[2] or 1}-{_text(_code(reference, secret))}"


def references(text: str, secret: str) -> list[str]:
    """The client references of all tags in a text that were made with this secret, in their order."""
    found = []
    for id_, revision, code in _TAG.findall(text):
        raw = base64.b32decode(id_.upper() + "======")
        reference = str(UUID(bytes=raw)) + (f".r{revision}" if revision != "1" else "")
        if hmac.compare_digest(_text(_code(reference, secret)), code.lower()):
            found.append(reference)
    return list(dict.fromkeys(found))


def tagged(text: str) -> bool:
    """There is something in the text that looks like a tag, whoever made it."""
    return _TAG.search(text) is not None


def _code(reference: str, secret: str) -> bytes:
    return hmac.new(secret.encode(), b"ringonce bounce " + reference.encode(), hashlib.sha256).digest()[
        :_CODE
    ]


def _text(raw: bytes) -> str:
    return base64.b32encode(raw).rstrip(b"=").decode("ascii").lower()
