"""Keys that make a duplicate impossible to insert: digests of unambiguous encodings."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final
from uuid import UUID

SIZE: Final = 16
"""Bytes of a key: a collision among 10^12 keys has a chance of about 10^-15."""
BODY_HASH_VERSION: Final = 1
"""The first byte of a body's hash. Another canonical form gets another number, and is never compared with this."""

# To copy what has begun, and to look a length up, takes two thirds of the time.
_BEGUN: Final = {
    kind: blake2b(digest_size=SIZE, person=kind)
    for kind in (b"event", b"recipient", b"body", b"receipt", b"message", b"person")
}
_REFERENCE: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.r([1-9][0-9]{0,8}))?")
_BEFORE: Final = [b"\1" + length.to_bytes(8) for length in range(512)]
"""What stands before a part of this length."""


def event_key(tenant: str | None, event_id: str) -> bytes:
    """The key of an event: what is accepted once. ``tenant`` None and ``''`` are the same: none."""
    return _digest(b"event", tenant or None, event_id)


def recipient_key(event: bytes, recipient: str, *, direct: bool) -> bytes:
    """The key of one recipient of an event: who is told once.

    Args:
        event: The event's key.
        recipient: The recipient's id; with ``direct`` the channel and address that stand for one.
        direct: Addressed by ``to``. Somebody whose id reads like an address is somebody else.
    """
    return _digest(b"recipient", event, "to" if direct else None, recipient)


def person_key(tenant: str | None, recipient: str) -> bytes:
    """The key of a person, whatever is told of them. ``tenant`` None and ``''`` are the same: none."""
    return _digest(b"person", tenant or None, recipient)


def canonical(body: object) -> bytes:
    """JSON in one spelling: sorted keys, no spaces, UTF-8.

    Numbers stay as they are written: ``1`` and ``1.0`` are two bodies.

    Raises:
        TypeError: A value that JSON does not know, or keys of mixed types.
        ValueError: NaN, an infinity, a circle, or text that is no Unicode (a lone surrogate).
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def body_hash(body: bytes) -> bytes:
    """The hash of a canonical body: one byte of version, then 16 of digest."""
    return bytes((BODY_HASH_VERSION,)) + _digest(b"body", body)


@lru_cache(maxsize=4096)
def spelled(notification: UUID) -> str:
    """The id as text. It is needed half a dozen times on the way of a notification, and takes a microsecond."""
    return str(notification)


def client_reference(notification: UUID, revision: int) -> str:
    """What the provider is told as our id: the same for every attempt of a revision."""
    text = spelled(notification)
    return text if revision == 1 else f"{text}.r{revision}"


def read_reference(text: str | None) -> tuple[UUID, int] | None:
    """The notification and the revision that a client reference names; None: it is none of ours."""
    found = _REFERENCE.fullmatch(text or "")
    return None if found is None else (UUID(found[1]), int(found[2] or 1))


def receipt_key(account: str, *facts: str | None) -> bytes:
    """The key of a report of a provider: what is carried out once."""
    return _digest(b"receipt", account, *facts)


def message_key(account: str, message_id: str) -> bytes:
    """The key of a message under the provider's own id for it."""
    return _digest(b"message", account, message_id)


def _digest(kind: bytes, *parts: bytes | str | None) -> bytes:
    """Each part with its length before it, null in a way of its own: no two lists of parts read the same."""
    begun = _BEGUN[kind].copy()
    whole = b""
    for part in parts:
        if part is None:
            whole += b"\0"
            continue
        raw = part if isinstance(part, bytes) else part.encode(errors="surrogatepass")
        length = len(raw)
        whole += (_BEFORE[length] if length < len(_BEFORE) else b"\1" + length.to_bytes(8)) + raw
    begun.update(whole)
    return begun.digest()
