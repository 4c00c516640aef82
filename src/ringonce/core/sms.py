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

# 3GPP TS 23.038 sections 6.2.1 and 6.2.1.1. What the second holds is written with an escape before it.
_BASIC: Final = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION: Final = frozenset("\f^{}\\[~]|€")
_GSM: Final = _BASIC | _EXTENSION
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
