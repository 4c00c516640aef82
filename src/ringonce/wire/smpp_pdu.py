"""Packets of SMPP 3.4: smpplib writes them and takes them apart, this says which and what of them matters.

Decision 0011 tells why no library's session is used. smpplib reads an optional parameter by the length that it expects
instead of the one that is told, and gives up at one that it does not know, so those are read here (section 3.2.4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from smpplib.command_codes import commands
from smpplib.smpp import make_pdu

from ringonce.model.exchange import SmsDelivered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.model.exchange import SmsCenter, SmsRequest

LONGEST: Final = 131_072
"""Octets of one packet; the largest that 3.4 can make has a message_payload of 65,535."""
OK, WRONG_COMMAND, LATER = 0x00, 0x03, 0x64
"""ESME_ROK, ESME_RINVCMDID, ESME_RX_T_APPN (section 5.1.3)."""

_HEADER: Final = struct.Struct(">LLLL")
_TAG: Final = struct.Struct(">HH")
_NAMES: Final = {code: name for name, code in commands.items()}
_RECEIPTED_ID, _VERSION, _PAYLOAD, _STATE = 0x001E, 0x0210, 0x0424, 0x0427
_UCS2, _WITH_OPTIONS = 8, 0x34


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet. ``name``: the command's, empty for one that is unknown."""

    name: str
    status: int
    sequence: int
    data: bytes

    @property
    def response(self) -> bool:
        """It answers one of ours."""
        return self.data[4] >= 0x80  # noqa: PLR2004 - the highest bit of the command (section 5.1.2.1)


def packets(buffer: bytearray) -> Iterator[Packet]:
    """Take all complete packets off the buffer. Raises ValueError: this is no SMPP."""
    while len(buffer) >= _HEADER.size:
        length, command, status, sequence = _HEADER.unpack_from(buffer)
        if not _HEADER.size <= length <= LONGEST:
            raise ValueError(length)
        if len(buffer) < length:
            return
        data = bytes(buffer[:length])
        del buffer[:length]
        yield Packet(_NAMES.get(command, ""), status, sequence, data)


# What we say.


def bind(center: SmsCenter, sequence: int) -> bytes:
    """``bind_transceiver`` (section 4.1.5)."""
    return _written(
        "bind_transceiver",
        sequence,
        system_id=center.system_id,
        password=center.password,
        system_type=center.system_type,
    )


def submit(request: SmsRequest, part: int, sequence: int, *, options: bool) -> bytes:
    """``submit_sm`` for one part (section 4.4.1). ``options``: the center reads optional parameters."""
    last = part == len(request.parts) - 1
    text = "message_payload" if request.payload else "short_message"
    fields: dict[str, Any] = {text: request.parts[part]}
    if options:
        fields["user_message_reference"] = request.reference
    for kind, (ton, npi, value) in (("source", request.source), ("dest", request.destination)):
        fields |= {f"{kind}_addr_ton": ton, f"{kind}_addr_npi": npi}
        fields["source_addr" if kind == "source" else "destination_addr"] = value
    return _written(
        "submit_sm",
        sequence,
        service_type=request.service_type,
        esm_class=request.esm_class,
        validity_period=request.validity,
        registered_delivery=int(request.report and last),
        data_coding=request.data_coding,
        **fields,
    )


def plain(name: str, sequence: int, status: int = OK) -> bytes:
    """A packet that says nothing but its name: ``enquire_link``, ``unbind``, and all responses of ours."""
    return _written(name, sequence, status)


def _written(name: str, sequence: int, status: int = OK, **fields: object) -> bytes:
    made: Any = make_pdu(name, sequence=sequence, **fields)
    made.sequence, made.status = sequence, status
    data: bytes = made.generate()
    return data


# What we hear.


def takes_options(packet: Packet) -> bool:
    """The center that answered our bind so reads optional parameters (section 3.4.2)."""
    version = _read(packet)[1].get(_VERSION, b"")
    return len(version) == 1 and version[0] >= _WITH_OPTIONS


def message_id(packet: Packet) -> str:
    """Of a ``submit_sm_resp``; empty: it has none."""
    return _text(getattr(_read(packet)[0], "message_id", None) or b"")


def delivered(packet: Packet) -> SmsDelivered:
    """What a ``deliver_sm`` or ``data_sm`` says."""
    made, options = _read(packet)
    text = options.get(_PAYLOAD) or getattr(made, "short_message", None) or b""
    ucs2 = getattr(made, "data_coding", None) == _UCS2
    return SmsDelivered(
        text.decode("utf-16-be", "replace") if ucs2 else _text(text),
        int(getattr(made, "esm_class", None) or 0),
        _text(options.get(_RECEIPTED_ID, b"").rstrip(b"\0")),
        options[_STATE][0] if options.get(_STATE) else None,
    )


def _read(packet: Packet) -> tuple[Any, dict[int, bytes]]:
    """The fields as far as they can be read, and the optional parameters by tag."""
    tails: list[bytes] = []
    made: Any = make_pdu(packet.name, sequence=packet.sequence)
    made.parse_optional_params = tails.append
    try:
        made.parse(packet.data)
    except (struct.error, IndexError, TypeError, ValueError):
        return made, {}  # the status in the header is a verdict all the same
    return made, dict(_options(tails[0])) if tails else {}


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + _TAG.size <= len(data):
        tag, length = _TAG.unpack_from(data, place)
        place += _TAG.size + length
        if place <= len(data):
            yield tag, data[place - length : place]


def _text(octets: bytes) -> str:
    return octets.decode("latin-1")
