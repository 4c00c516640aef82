"""A short message center (SMPP 3.4) at the level of bytes: binds, takes messages, reports what became of them.

Faults happen at stage BIND or, without a stage, when a message is handed in; a ``status`` is the response's
command_status (``88:first=3`` throttles three). The reference in the ledger is the text of the part. It has a coder of
its own, so that it can not be wrong together with the sender's.

As a program: ``python -m ringonce.vendors.smpp --system-id acme --password secret --fault 88:first=3``.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ringonce.core.sms import gsm7_text
from ringonce.vendors.standin import StandIn, arguments, break_off, common

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ringonce.vendors.script import Fault

LONGEST = 131_072
_HEADER = struct.Struct(">LLLL")
_BIND, _SUBMIT, _DELIVER, _UNBIND, _ENQUIRE = 0x09, 0x04, 0x05, 0x06, 0x15
_RESPONSE, _NACK = 0x8000_0000, 0x8000_0000
_WRONG_COMMAND, _BAD_PASSWORD, _UNKNOWN_ID, _NO_NUMBER, _LATER = 0x03, 0x0E, 0x0F, 0x0B, 0x64
_UDHI, _UCS2 = 0x40, 8
_TAGS = {"payload": 0x0424, "reference": 0x0204, "receipted": 0x001E, "state": 0x0427, "version": 0x0210}
_STATES = {"ENROUTE": 1, "DELIVRD": 2, "EXPIRED": 3, "DELETED": 4, "UNDELIV": 5, "ACCEPTD": 6, "REJECTD": 8}


@dataclass(frozen=True, slots=True)
class Taken:
    """A part that was taken. ``octets``: of the text, with its header; ``options``: optional parameters by tag."""

    id: str
    source: tuple[int, int, str]
    destination: tuple[int, int, str]
    octets: bytes
    data_coding: int
    esm_class: int
    registered: int
    validity: str
    service_type: str
    options: dict[int, bytes] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What is shown of it."""
        body = self.octets[self.octets[0] + 1 :] if self.esm_class & _UDHI else self.octets
        return body.decode("utf-16-be", "replace") if self.data_coding == _UCS2 else gsm7_text(body)


class SmsCenter(StandIn):
    """Knows one account.

    Args:
        system_id: the account's.
        password: the account's.
        report: the state that is reported of what asks for it, as soon as it is answered; empty: none, see ``tell``.
        early: the report comes before the response.
        decimal: reports write the id in decimal, which the response has in hexadecimal.
        bare: reports have no optional parameters, and the bind is answered without them.
        unknown: numbers that do not exist.
        more: see StandIn.
    """

    def __init__(
        self,
        system_id: str,
        password: str,
        *,
        report: str = "",
        early: bool = False,
        decimal: bool = False,
        bare: bool = False,
        unknown: Collection[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._known = system_id, password
        self._report = report
        self._early = early
        self._decimal = decimal
        self._bare = bare
        self._unknown = frozenset(unknown)
        self._next = 0xA0
        self._sequence = 0
        self._bound: deque[asyncio.StreamWriter] = deque()
        self._told: dict[int, bytes] = {}
        self._changed = threading.Condition()
        self.taken: list[Taken] = []
        """What was accepted, in order."""
        self.acknowledged: list[int] = []
        """The statuses with which what was delivered was answered, in order."""
        self.binds = 0
        """How many sessions were bound."""
        self.enquired = 0
        """How often it was asked whether it is there."""

    # From any thread.

    def tell(self, taken: Taken, state: str, error: str = "000") -> None:
        """Report of a part that was taken, over one of the sessions; it is told again until it is acknowledged."""
        self.deliver(self._receipt(taken, state, error))

    def deliver(self, body: bytes) -> None:
        """Deliver a ``deliver_sm`` with this body over one of the sessions."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._deliver, body)

    def unbind(self) -> None:
        """Ask all sessions to end."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._say_all, _UNBIND)

    def wait_for(self, condition: Callable[[SmsCenter], bool], timeout: float = 30.0) -> bool:
        """Block until ``condition(self)``; False: not within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout)

    # In its own.

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while True:
                length, command, status, sequence = _HEADER.unpack(await reader.readexactly(_HEADER.size))
                if not _HEADER.size <= length <= LONGEST:
                    return
                body = await reader.readexactly(length - _HEADER.size)
                if not await self._take(command, status, sequence, body, reader, writer):
                    return
                await writer.drain()
        finally:
            if writer in self._bound:
                self._bound.remove(writer)

    async def _take(
        self,
        command: int,
        status: int,
        sequence: int,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """False: the connection ends."""
        if command == _BIND:
            return await self._bind(sequence, body, reader, writer)
        if command == _SUBMIT and writer in self._bound:
            return await self._submit(sequence, body, reader, writer)
        if command == _DELIVER | _RESPONSE:
            told = self._told.pop(sequence, b"")
            with self._changed:
                self.acknowledged.append(status)
                self._changed.notify_all()
            if status == _LATER and self._loop is not None:
                self._loop.call_later(0.05, self._deliver, told)
        elif command == _ENQUIRE:
            with self._changed:
                self.enquired += 1
                self._changed.notify_all()
            _say(writer, command | _RESPONSE, sequence)
        elif command == _UNBIND:
            _say(writer, command | _RESPONSE, sequence)
            return False
        elif command == _UNBIND | _RESPONSE:
            return False
        elif not command & _RESPONSE:
            _say(writer, _NACK, sequence, _WRONG_COMMAND)
        return True

    async def _bind(
        self, sequence: int, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        system_id, password = (part.decode("latin-1") for part in body.split(b"\0")[:2])
        fault = self.plan.next(system_id, "BIND")
        if fault is not None and fault.seconds:
            await asyncio.sleep(fault.seconds)
        if fault is not None and fault.verb not in {"delay", "status"}:
            await break_off(fault, reader, writer)
            return False
        status = fault.status if fault is not None else 0
        if not status and (system_id, password) != self._known:
            status = _UNKNOWN_ID if system_id != self._known[0] else _BAD_PASSWORD
        version = b"" if self._bare else _option("version", b"\x34")
        _say(writer, _BIND | _RESPONSE, sequence, status, b"" if status else b"stand-in\0" + version)
        if status:
            await writer.drain()
            return False
        self._bound.append(writer)
        with self._changed:
            self.binds += 1
            self._changed.notify_all()
        return True

    async def _submit(
        self, sequence: int, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        part = _part(body, f"{self._next:X}")
        number = part.destination[2]
        fault = self.plan.next(number)
        if fault is not None and fault.seconds:
            await asyncio.sleep(fault.seconds)
        status = _NO_NUMBER if number in self._unknown else 0
        if fault is not None and fault.verb == "status":
            status = fault.status
        accepted = not status and (fault is None or fault.verb == "delay" or fault.accepts)
        label = fault.label if fault is not None and fault.verb != "delay" else str(status)
        self.ledger.record(part.text, number, label, accepted=accepted)
        reports = accepted and self._report and part.registered & 1
        if accepted:
            self._next += 1
            with self._changed:
                self.taken.append(part)
                self._changed.notify_all()
            if reports and self._early:
                self._deliver(self._receipt(part, self._report, "000"))
        if fault is not None and fault.verb not in {"delay", "status"}:
            await self._break(fault, reader, writer)
            return False
        _say(writer, _SUBMIT | _RESPONSE, sequence, status, b"" if status else part.id.encode() + b"\0")
        if reports and not self._early:
            self._deliver(self._receipt(part, self._report, "000"))
        return True

    async def _break(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._bound.remove(writer)
        await break_off(fault, reader, writer)

    def _receipt(self, taken: Taken, state: str, error: str) -> bytes:
        """SMPP 3.4 appendix B, with the optional parameters of section 4.6.1."""
        id_ = f"{int(taken.id, 16):010}" if self._decimal else taken.id
        times = "submit date:2601010000 done date:2601010001"
        quoted = taken.text[:20]
        text = f"id:{id_} sub:001 dlvrd:001 {times} stat:{state} err:{error} text:{quoted}"
        options = b""
        if not self._bare:
            known = bytes((_STATES.get(state, 7),))
            options = _option("receipted", taken.id.encode() + b"\0") + _option("state", known)
        return delivery(taken.destination, taken.source, text.encode("latin-1", "replace"), 0x04, options)

    def _deliver(self, body: bytes) -> None:
        if not self._bound:
            assert self._loop is not None
            self._loop.call_later(0.05, self._deliver, body)
            return
        self._bound.rotate(1)
        self._sequence += 1
        self._told[self._sequence] = body
        _say(self._bound[0], _DELIVER, self._sequence, 0, body)

    def _say_all(self, command: int) -> None:
        for writer in self._bound:
            self._sequence += 1
            _say(writer, command, self._sequence)


def delivery(
    source: tuple[int, int, str],
    destination: tuple[int, int, str],
    text: bytes,
    esm_class: int = 0,
    options: bytes = b"",
) -> bytes:
    """The body of a ``deliver_sm`` (section 4.6.1)."""
    ends = b"".join(bytes((ton, npi)) + value.encode() + b"\0" for ton, npi, value in (source, destination))
    fixed = bytes((esm_class, 0, 0)) + b"\0\0" + bytes((0, 0, 0, 0, len(text)))
    return b"\0" + ends + fixed + text + options


def _option(name: str, value: bytes) -> bytes:
    return struct.pack(">HH", _TAGS[name], len(value)) + value


def _say(
    writer: asyncio.StreamWriter, command: int, sequence: int, status: int = 0, body: bytes = b""
) -> None:
    writer.write(_HEADER.pack(_HEADER.size + len(body), command, status, sequence) + body)


def _part(body: bytes, id_: str) -> Taken:
    """Take a ``submit_sm`` apart (section 4.4.1). Raises ValueError, IndexError."""
    place = 0

    def text() -> str:
        nonlocal place
        end = body.index(b"\0", place)
        found, place = body[place:end].decode("latin-1"), end + 1
        return found

    def octet() -> int:
        nonlocal place
        place += 1
        return body[place - 1]

    service = text()
    source = (octet(), octet(), text())
    destination = (octet(), octet(), text())
    esm_class, _, _ = octet(), octet(), octet()
    _, validity = text(), text()
    registered, _, coding, _, length = octet(), octet(), octet(), octet(), octet()
    octets, tail = body[place : place + length], body[place + length :]
    options = dict(_options(tail))
    octets = options.get(_TAGS["payload"], octets)
    return Taken(id_, source, destination, octets, coding, esm_class, registered, validity, service, options)


def _options(tail: bytes) -> Iterator[tuple[int, bytes]]:
    while tail:
        tag, length = struct.unpack_from(">HH", tail)
        yield tag, tail[4 : 4 + length]
        tail = tail[4 + length :]


def main() -> None:
    """Run as a program."""
    parser = arguments("A short message center that fails as it is told.")
    parser.add_argument("--system-id", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--report", default="", choices=sorted(_STATES), help="the state that is reported")
    parser.add_argument("--early", action="store_true", help="reports come before the response")
    parser.add_argument("--decimal", action="store_true", help="reports have the id in decimal")
    parser.add_argument("--unknown", action="append", default=[], metavar="NUMBER")
    options = parser.parse_args()
    SmsCenter(
        options.system_id,
        options.password,
        report=options.report,
        early=options.early,
        decimal=options.decimal,
        unknown=options.unknown,
        **common(options),
    ).run_until_stopped()


if __name__ == "__main__":
    main()
