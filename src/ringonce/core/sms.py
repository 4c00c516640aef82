"""Short messages: how many a text becomes, what is sent of a content, and phone numbers.

A short message carries 140 octets (3GPP TS 23.040 section 9.2.3.24): 160 characters of the GSM alphabet with seven bits
each, or 70 UTF-16 code units. In a longer text each part begins with a header of six octets that says which part it is
(section 9.2.3.24.1), which leaves 153 and 67. Each part is billed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.core.text import length
from ringonce.errors import InputError, PayloadTooLarge

if TYPE_CHECKING:
    from ringonce.model.notification import Content

# 3GPP TS 23.038 sections 6.2.1 and 6.2.1.1, in the order of the codes. What the second holds is written with an
# escape before it, which is no character itself.
_ESCAPE: Final = "\x1b"
_TABLE: Final = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION: Final = {
    "\f": 0x0A,
    "^": 0x14,
    "{": 0x28,
    "}": 0x29,
    "\\": 0x2F,
    "[": 0x3C,
    "~": 0x3D,
    "]": 0x3E,
    "|": 0x40,
    "€": 0x65,
}
_CODES: Final = {letter: bytes((code,)) for code, letter in enumerate(_TABLE) if letter != _ESCAPE} | {
    letter: bytes((_TABLE.index(_ESCAPE), code)) for letter, code in _EXTENSION.items()
}
_GSM: Final = frozenset(_CODES)
_MOST_PARTS: Final = 255  # the header counts them in one octet
_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # ITU-T E.164 section 6.1: 15 digits at most
_BETWEEN = re.compile(r"[ ().\u00a0-]")


@dataclass(frozen=True, slots=True)
class Segments:
    """What a text becomes. ``encoding`` is ``gsm7`` or ``ucs2``; ``units``: septets or UTF-16 code units in all.

    ``parts``: the text of each short message; joined they are the whole text.
    """

    encoding: str
    units: int
    parts: tuple[str, ...]


def segments(text: str) -> Segments:
    """The short messages that a text is sent as.

    A pair (an escape with its character, or two surrogates) is never divided, so that a part may have one unit
    less than would fit. An empty text is one empty message.
    """
    gsm = _GSM.issuperset(text)
    sizes = [1 + (letter in _EXTENSION if gsm else letter > "\uffff") for letter in text]
    units = sum(sizes)
    alone, room = (160, 153) if gsm else (70, 67)
    if units <= alone:
        return Segments("gsm7" if gsm else "ucs2", units, (text,))
    parts, begin, used = [], 0, 0
    for index, size in enumerate(sizes):
        if used + size > room:
            parts.append(text[begin:index])
            begin, used = index, 0
        used += size
    return Segments("gsm7" if gsm else "ucs2", units, (*parts, text[begin:]))


def user_data(text: str, number: int, *, apart: bool = True) -> tuple[bytes, ...]:
    """The octets of each short message that a text becomes, with the header that joins them.

    A text of the GSM alphabet has one septet in each octet, as SMPP carries it; any other is UTF-16, big end first.

    Args:
        text: what is to be said.
        number: the same in all parts of a text and different in the texts that one phone gets at a time; its lowest
            octet counts (3GPP TS 23.040 section 9.2.3.24.1).
        apart: False: one piece without a header, however long.
    """
    made = segments(text)
    pieces = made.parts if apart else (text,)
    coded = [_gsm7(piece) if made.encoding == "gsm7" else piece.encode("utf-16-be") for piece in pieces]
    if len(coded) == 1:
        return (coded[0],)
    head, count = bytes((5, 0, 3, number & 0xFF)), len(coded)
    return tuple(head + bytes((count, place)) + piece for place, piece in enumerate(coded, 1))


def _gsm7(text: str) -> bytes:
    return b"".join([_CODES[letter] for letter in text])


def gsm7_text(octets: bytes) -> str:
    """The text of septets, one in each octet; what stands for nothing is a question mark."""
    letters = {code: letter for letter, code in _EXTENSION.items()}
    shown, escaped = [], False
    for octet in octets:
        letter = letters.get(octet, "?") if escaped else _TABLE[octet] if octet < len(_TABLE) else "?"
        escaped = letter == _ESCAPE
        if not escaped:
            shown.append(letter)
    return "".join(shown)


def sms_text(content: Content, *, longest: int | None = None, most: int = 0) -> str:
    """Title and text as one message.

    Args:
        content: what is to be said.
        longest: how many UTF-16 code units are allowed; None: as many as the parts carry.
        most: how many parts are allowed; 0: as many as there can be.

    Raises:
        InputError: nothing of it is visible.
        PayloadTooLarge: it is longer than that. It is never cut.
    """
    text = "\n".join(part for part in (content.title, content.text) if part)
    if not text.strip():
        raise InputError(
            "a short message needs a visible text", field="content.text", mend="give a content.text"
        )
    size = length(text, "utf16")
    if longest is not None and size > longest:
        raise PayloadTooLarge(
            f"title and text have {size} UTF-16 code units, and {longest} are carried",
            field="content.text",
            mend="shorten it; a message is never cut",
        )
    made = segments(text)
    allowed = min(most, _MOST_PARTS) if most > 0 else _MOST_PARTS
    if len(made.parts) > allowed:
        raise PayloadTooLarge(
            f"title and text become {len(made.parts)} short messages ({made.encoding}), and {allowed} are allowed",
            field="content.text",
            mend="shorten it, or leave out what the GSM alphabet lacks",
        )
    return text


def phone(value: object) -> str:
    """A number as E.164 writes it, ``+`` and digits. Spaces, dashes, dots and brackets are left out.

    Raises:
        InputError: it is none, or its country is missing.
    """
    text = _BETWEEN.sub("", value) if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        raise InputError(
            "this is no phone number with its country",
            field="address",
            mend="write it as +447700900123",
        )
    return text
