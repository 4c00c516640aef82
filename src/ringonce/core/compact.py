"""JSON without a needless byte, as bodies and tokens are written."""

from __future__ import annotations

import json

from ringonce.errors import InputError, PayloadTooLarge


def json_bytes(value: object, name: str = "content.data", most: int | None = None) -> bytes:
    """UTF-8, without spaces.

    Args:
        value: what is to be written.
        name: the field that is to blame where it can not be.
        most: how many bytes the payload of a push may have; None: any number.

    Raises:
        InputError: it holds something that JSON has not, refers to itself, or holds half of a surrogate pair.
        PayloadTooLarge: it has more than ``most``.
    """
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError("it can not be written as JSON", field=name, mend="use plain JSON values") from None
    if most is not None and len(written) > most:
        raise PayloadTooLarge(
            f"{len(written)} bytes of title, text and data, and a push carries {most}",
            field="content",
            mend="send less, and let the app fetch the rest",
        )
    return written
