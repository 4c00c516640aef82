"""A structure that is right is read by msgspec alone; everything else goes the long way, which names the mistake.

Both ways give the same event and the same canonical body: this one only leaves out what needs no look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta

from ringonce.core.journal import canonical
from ringonce.engine.contract import LIMITS, MAX_DEPTH, MAX_RECIPIENTS, TYPE_BYTES, Body, RecipientIn
from ringonce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_Id = Annotated[str, Meta(min_length=1, max_length=LIMITS["event_id"])]
_Subject = Annotated[str, Meta(min_length=1, max_length=LIMITS["subject"])]
_Thread = Annotated[str, Meta(min_length=1, max_length=LIMITS["thread"])]
_Collapse = Annotated[str, Meta(min_length=1, max_length=LIMITS["collapse"])]
_Template = Annotated[str, Meta(min_length=1, max_length=LIMITS["template"])]


class _Right(Body, forbid_unknown_fields=True):
    """The structure with its limits as types."""

    event_id: _Id | None = None
    type: Annotated[str, Meta(max_length=TYPE_BYTES)] = ""
    tenant: Annotated[str, Meta(max_length=LIMITS["tenant"])] | None = None
    recipients: Annotated[list[_Id | RecipientIn], Meta(max_length=MAX_RECIPIENTS)] = []  # noqa: RUF012 - msgspec copies it
    channels: Annotated[list[str], Meta(min_length=1)] | None = None
    template: _Template | None = None
    subject: _Subject | None = None
    thread: _Thread | None = None
    priority: Literal["low", "normal", "high"] = "normal"
    collapse: _Collapse | None = None


def _written_by_many(_number: str) -> NoReturn:
    """A fraction may be spelled in many ways, and only one encoder decides which is the canonical one."""
    raise ValueError


_VALUE = msgspec.json.Decoder(float_hook=_written_by_many)
_SORTED = msgspec.json.Encoder(order="sorted")
_NUL = rb"\u0000"


def read(body: bytes | Mapping[str, Any], max_bytes: int) -> tuple[Body, bytes] | None:
    """The structure and its canonical body; None: it is wrong, or so unusual that it needs a closer look."""
    try:
        if isinstance(body, bytes):
            if len(body) > max_bytes:
                return None
            value = _VALUE.decode(body)
            right = msgspec.convert(value, _Right)
            whole = _SORTED.encode(value)
        else:
            right = msgspec.convert(body, _Right)
            whole = canonical(body)
    except (msgspec.MsgspecError, InputError, ValueError, TypeError, RecursionError):
        return None
    if (
        len(whole) > max_bytes
        or (b"\\" in whole and _NUL in whole)
        or whole.count(b"{") + whole.count(b"[") > MAX_DEPTH
    ):
        return None
    return (right, whole) if len(right.type.encode()) <= TYPE_BYTES else None
