"""Which country a phone number belongs to, as far as permissions to send go: its calling code.

ITU-T E.164 and its list of assigned codes. Several countries share a code: those that vendors permit one by one are
told apart by what follows it, so that an island which is not served does not stop the others of its zone.
"""

from __future__ import annotations

import re
from typing import Final

_BEGINS: Final = re.compile(
    # Members of the North American plan besides the United States and Canada (NANPA's list of area codes), Kazakhstan.
    r"1(?:242|246|264|268|284|340|345|441|473|649|658|664|67[01]|684|721|758|767|78[47]|8[024]9|86[89]|876|939)|7[67]"
    # Guernsey, Jersey and the Isle of Man (Ofcom's National Telephone Numbering Plan).
    r"|44(?:1481|7781|7839|7911|1534|7509|7797|7937|1624|7524|7624|7924)"
    # The assigned codes of one digit and of two; all others have three.
    r"|[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[0-9]{1,3}"
)


def country(number: str) -> str:
    """The digits that a number in E.164 form begins with and that tell its country: ``49``, ``1``, ``1876``.

    A text that is no number has none: ``''``.
    """
    found = _BEGINS.match(number.removeprefix("+"))
    return found[0] if found else ""
