"""One connection to a short message center: bound, kept alive, exact about what was written.

A packet that was given to the socket may have arrived, whatever happens afterwards; one that was not given to it has
certainly not. Nothing is ever written twice.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

from ringonce.model.exchange import Fault, SmsAnswer
from ringonce.wire.smpp_pdu import OK, WRONG_COMMAND, Packet, bind, packets, plain, submit, takes_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.model.exchange import SmsCenter, SmsRequest

FAREWELL = 2.0
"""Seconds that an unbind may take."""
ANSWER = 10.0
"""Seconds that the other side has at least to say that it is there."""
_MOST_SEQUENCE = 0x7FFF_FFFF  # SMPP 3.4 section 3.2
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
_INBOUND = frozenset({"deliver_sm", "data_sm"})
_NOT_TO_BE_ANSWERED = frozenset({"alert_notification", "outbind"})


class Refused(Exception):  # noqa: N818 - it says what happened
    """The center answered our bind, and it was a no."""

    def __init__(self, answer: SmsAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Broken(Exception):  # noqa: N818 - it says what happened
    """There is no connection (any more)."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


class Session(asyncio.Protocol):
    """A connection. ``busy``: exchanges that run over it; the owner counts them.

    Args:
        center: where, and as whom.
        heard: called with each message that the center delivers; it is answered by ``respond``.
    """

    def __init__(self, center: SmsCenter, heard: Callable[[Session, Packet], None]) -> None:
        self.busy = 0
        self.bound = False
        self.gone = asyncio.get_running_loop().create_future()
        self._center = center
        self._heard = heard
        self._options = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._sequence = 0
        self._waiting: dict[int, asyncio.Future[Packet | None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    # Opening and closing.

    async def open(self, limit: float, tls: ssl.SSLContext | None) -> None:
        """Connect and bind within ``limit`` seconds. Raises Refused or Broken."""
        try:
            async with asyncio.timeout(limit):
                await self._connect(tls)
                answer = await self._ask(lambda number: bind(self._center, number))
        except TimeoutError:
            raise Broken(Fault.CONNECT_TIMEOUT, "no answer to the bind in time") from None
        if answer.status != OK:
            # A generic_nack answers a bind as well.
            raise Refused(SmsAnswer(answer.status, "bind_transceiver_resp"))
        self._options = takes_options(answer)
        self.bound = not self.gone.done()
        if self.bound:
            self._listen()

    async def _connect(self, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, self._center.host, self._center.port, ssl=tls)
        except ssl.SSLCertVerificationError as error:
            raise Broken(
                Fault.TLS_CERT_INVALID, f"the certificate is not valid: {error.verify_message}"
            ) from None
        except ssl.SSLError:
            raise Broken(Fault.CONNECT_REFUSED, "the TLS handshake failed") from None
        except socket.gaierror as error:
            slow = error.errno == socket.EAI_AGAIN
            fault = Fault.DNS_TIMEOUT if slow else Fault.DNS_NXDOMAIN
            raise Broken(fault, "the host name does not resolve") from None
        except OSError:
            raise Broken(Fault.CONNECT_REFUSED, "no connection") from None

    async def leave(self) -> None:
        """Say good-bye and close. What still waits for its answer waits in vain."""
        self.bound = False
        try:
            async with asyncio.timeout(FAREWELL):
                await self._ask(lambda number: plain("unbind", number))
        except (TimeoutError, Broken):
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self.bound = False
        if self._transport is not None:
            self._transport.abort()

    # Asking and answering.

    async def submit(self, request: SmsRequest, part: int, wrote: Callable[[], None]) -> Packet:
        """Hand one part in and wait for the response. ``wrote`` is called when it may have left us. Raises Broken."""
        response = await self._ask(lambda number: submit(request, part, number, options=self._options), wrote)
        if response.name != "submit_sm_resp" and (response.name != "generic_nack" or response.status == OK):
            raise Broken(Fault.RESET_BEFORE_STATUS, "the response is none to a message")
        return response

    async def _ask(self, write: Callable[[int], bytes], wrote: Callable[[], None] | None = None) -> Packet:
        transport = self._transport
        if transport is None or transport.is_closing() or _hung_up(transport):
            raise Broken(Fault.CONNECT_REFUSED, "the connection was closed before anything was written")
        self._sequence = number = self._sequence % _MOST_SEQUENCE + 1
        data = write(number)
        answer: asyncio.Future[Packet | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        if wrote is not None:
            wrote()
        transport.write(data)
        try:
            packet = await answer
        finally:
            self._waiting.pop(number, None)
        if packet is None:
            raise Broken(Fault.RESET_BEFORE_STATUS, "the connection broke before the response")
        return packet

    def respond(self, packet: Packet, status: int) -> None:
        """Answer a message that the center delivered, if it still listens."""
        self._say(plain(f"{packet.name}_resp", packet.sequence, status))

    def _say(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _listen(self) -> None:
        """After so many seconds of silence ask whether the other side is there; after as many again it is not."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._center.enquire_link, self._silent)

    def _silent(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(ANSWER, self._center.enquire_link), self.abort)
        self._sequence = self._sequence % _MOST_SEQUENCE + 1
        self._say(plain("enquire_link", self._sequence))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Packets, whole or not."""
        self._buffer += data
        if self._timer is not None:
            self._listen()
        try:
            for packet in packets(self._buffer):
                self._take(packet)
        except ValueError:
            self.abort()  # no SMPP: nothing after it can be understood

    def _take(self, packet: Packet) -> None:
        if packet.response:
            waiting = self._waiting.pop(packet.sequence, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(packet)
        elif packet.name in _INBOUND:
            self._heard(self, packet)
        elif packet.name == "enquire_link":
            self._say(plain("enquire_link_resp", packet.sequence))
        elif packet.name == "unbind":
            self._part(packet)
        elif packet.name not in _NOT_TO_BE_ANSWERED:
            self._say(plain("generic_nack", packet.sequence, WRONG_COMMAND))

    def _part(self, packet: Packet) -> None:
        """The center goes. What it has not answered yet it may still answer for a moment."""
        self.bound = False
        self._say(plain("unbind_resp", packet.sequence))
        if self._transport is not None:
            wait = FAREWELL if self._waiting else 0.0
            asyncio.get_running_loop().call_later(wait, self._transport.close)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        """Whoever waits for an answer gets none."""
        self.bound = False
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        if not self.gone.done():
            self.gone.set_result(None)


def _hung_up(transport: Any) -> bool:
    """The peer has closed, and the event loop has not heard of it yet: what is written now would be a doubt."""
    sock = transport.get_extra_info("socket")
    look = select.poll()
    look.register(sock.fileno(), _HUNG_UP)
    return bool(look.poll(0))
