"""A tiny HTTP/1.1 server for stand-ins (RFC 9112): keep-alive, bodies of known length, and faults."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from ringonce.vendors.standin import BODY_LIMIT, StandIn, break_off

if TYPE_CHECKING:
    from ringonce.vendors.script import Fault


@dataclass(frozen=True, slots=True)
class Call:
    """A request. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. ``accepted``: the recipient was told. ``verdict``: for the ledger; empty: the status."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    accepted: bool = False
    verdict: str = ""


class HttpStandIn(StandIn):
    """Base of all stand-ins that speak HTTP."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.host}:{self.port}"

    @abstractmethod
    def identify(self, call: Call) -> tuple[str, str]:
        """Reference and address, for the plan and the ledger; empty where there is none."""

    def stage(self, call: Call) -> str:
        """Which kind of call it is, for the plan; empty: the one that tells somebody."""
        return ""

    @abstractmethod
    def respond(self, call: Call) -> Reply:
        """What the vendor would do."""

    def refusal(self, fault: Fault) -> Reply:
        """The vendor's way to say ``fault.status``."""
        return Reply(fault.status, fault.body or b"", fault.headers)

    async def accepted(self, call: Call, reply: Reply) -> None:
        """Something was accepted, and is not answered yet."""

    def answered(self, call: Call, reply: Reply) -> None:
        """What was accepted is answered, or will never be."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve requests until the client closes or a fault ends it."""
        while True:
            call = await _read(reader)
            if call is None:
                _write(writer, Reply(HTTPStatus.LENGTH_REQUIRED), close=True)
                return
            reference, address = self.identify(call)
            fault = self.plan.next(address, self.stage(call))
            if fault is not None and fault.seconds:
                await asyncio.sleep(fault.seconds)
            if fault is None or fault.verb == "delay" or fault.accepts:
                reply = self.respond(call)
                label = fault.label if fault is not None and fault.accepts and reply.accepted else ""
                verdict = label or reply.verdict or str(reply.status)
                self.ledger.record(reference, address, verdict, accepted=reply.accepted)
                if reply.accepted:
                    await self.accepted(call, reply)
            else:
                self.ledger.record(reference, address, fault.label, accepted=False)
                reply = self.refusal(fault)
            if fault is not None and fault.verb not in {"delay", "status"}:
                if reply.accepted:
                    self.answered(call, reply)
                await break_off(fault, reader, writer)
                return
            close = call.headers.get("connection", "").lower() == "close"
            _write(writer, reply, close=close)
            await writer.drain()
            if reply.accepted:
                self.answered(call, reply)
            if close:
                return


async def _read(reader: asyncio.StreamReader) -> Call | None:
    """The next request; None: its length is not known. Raises EOFError, ValueError, LimitOverrunError."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers:
        return None
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= BODY_LIMIT:
        raise ValueError(length)
    return Call(method, path, headers, await reader.readexactly(length) if length else b"")


def _write(writer: asyncio.StreamWriter, reply: Reply, *, close: bool) -> None:
    try:
        reason = HTTPStatus(reply.status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {reply.status} {reason}", f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if close:
        lines.append("Connection: close")
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + reply.body)
