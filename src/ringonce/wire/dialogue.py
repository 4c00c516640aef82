"""One connection to a mail server: opening it, and handing one mail over, exact about where a break happened.

aiosmtplib speaks for us up to RCPT. The message itself is written here, because the one thing that matters
must be known: had the terminating dot been written when it broke? Before the dot the server has nothing (RFC
5321 section 4.1.1.4), after it the mail may be on its way.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import aiosmtplib

from ringonce.core.text import clean_text
from ringonce.model.exchange import Fault, MailAnswer, NoAnswer

if TYPE_CHECKING:
    from aiosmtplib.protocol import SMTPProtocol

    from ringonce.model.exchange import Answer, MailRequest, MailServer

MAX_REPLY = 2000
"""Characters of a reply that are kept."""

_ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")  # RFC 3463 section 2
_LONE_ENDS = re.compile(rb"\r\n|\n|\r")
_LEADING_DOT = re.compile(rb"(?m)^\.")
_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x1f\x7f<>]")
_DONE, _GO_ON, _NO = 2, 3, 4  # the first digit of a reply: RFC 5321 section 4.2.1


class Refused(Exception):  # noqa: N818 - it says what happened
    """The server's reply decided."""

    def __init__(self, answer: MailAnswer) -> None:
        super().__init__(answer.code)
        self.answer = answer


class Broken(Exception):  # noqa: N818 - it says what happened
    """There will be no reply."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail


class Dialogue:
    """A connection to one mail server. ``stage``: where it stands; ``sent``: this mail's dot was written."""

    def __init__(self, server: MailServer, helo: str, tls: ssl.SSLContext) -> None:
        self.stage = "CONNECT"
        self.sent = False
        self.since = 0.0
        self.mails = 0
        self._server = server
        self._tls = tls
        self._client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=helo,
            use_tls=server.tls == "implicit",
            start_tls=False,
            tls_context=tls,
            timeout=None,
        )

    @property
    def open(self) -> bool:
        """The connection stands, as far as is known."""
        return self._client.is_connected

    # Opening.

    async def connect(self, limit: float) -> None:
        """Connect, wait for the greeting.

        Raises:
            Refused: the greeting was a refusal.
            Broken: no connection, no certificate, or no greeting within ``limit`` seconds.
        """
        try:
            async with asyncio.timeout(limit):
                await self._client.connect()
        except TimeoutError as error:
            raise Broken(Fault.CONNECT_TIMEOUT, "no greeting in time") from error
        except aiosmtplib.SMTPResponseException as error:
            raise self._reply(error.code, error.message) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise Broken(*_why_no_connection(error)) from error

    async def introduce(self) -> None:
        """EHLO, STARTTLS and AUTH, as the server's settings ask. Raises Refused or Broken."""
        try:
            await self._hello()
            await self._encrypt()
            await self._login()
        except aiosmtplib.SMTPResponseException as error:
            raise self._reply(error.code, error.message) from error

    async def _hello(self) -> None:
        self.stage = "EHLO"
        try:
            await self._client.ehlo()
        except aiosmtplib.SMTPHeloError as error:
            if error.code // 100 != _NO + 1 or not self.open:
                raise
            await self._client.helo()

    async def _encrypt(self) -> None:
        if self._server.tls in {"none", "implicit"}:
            return
        if not self._client.supports_extension("starttls"):
            if self._server.tls == "auto":
                return
            raise Broken(Fault.TLS_CERT_INVALID, "the server offers no STARTTLS")
        try:
            await self._client.starttls()
        except ssl.SSLCertVerificationError as error:
            raise Broken(
                Fault.TLS_CERT_INVALID, f"the certificate is not valid: {error.verify_message}"
            ) from error
        except ssl.SSLError as error:
            raise Broken(Fault.CONNECT_REFUSED, "the TLS handshake failed") from error
        await self._hello()

    async def _login(self) -> None:
        user, password = self._server.user, self._server.password or ""
        if user is None:
            return
        self.stage = "AUTH"
        if self._client.supported_auth_methods:
            await self._client.login(user, password)
            return
        # Not announced: the server says itself what is wrong with it, before it sees a password.
        code, text = await self._client.execute_command(b"AUTH", b"PLAIN")
        if code // 100 == _GO_ON:
            secret = base64.b64encode(f"\0{user}\0{password}".encode())
            code, text = await self._client.execute_command(secret)
        if code // 100 != _DONE:
            raise self._reply(code, text)

    # Handing over.

    async def begin(self, request: MailRequest) -> None:
        """Everything up to the message: MAIL, RCPT, DATA. Raises Refused or Broken."""
        self.sent = False
        self.stage = "MAIL"
        if _NOT_IN_AN_ADDRESS.search(request.sender + request.recipient):
            raise Broken(Fault.NOT_STARTED, "an address holds a character that ends it")
        offers = self._client.supports_extension
        options = []
        wide = not (request.sender + request.recipient).isascii()
        if offers("size"):
            options.append(b"SIZE=%d" % len(request.message))
        if offers("8bitmime") and (wide or not request.message.isascii()):
            options.append(b"BODY=8BITMIME")
        if wide and offers("smtputf8"):
            options.append(b"SMTPUTF8")
        wanted = []
        if request.envelope_id is not None and offers("dsn"):
            # RFC 3461 section 4: who it was for as we wrote it, and that a delay is told; the headers are enough.
            options += [b"RET=HDRS", b"ENVID=" + _xtext(request.envelope_id)]
            wanted = [b"NOTIFY=FAILURE,DELAY", b"ORCPT=rfc822;" + _xtext(request.recipient)]
        await self._command(_DONE, b"MAIL", b"FROM:<%b>" % request.sender.encode(), *options)
        self.stage = "RCPT"
        await self._command(_DONE, b"RCPT", b"TO:<%b>" % request.recipient.encode(), *wanted)
        self.stage = "DATA_BODY"
        await self._command(_GO_ON, b"DATA")

    async def reset(self) -> None:
        """Forget what the last mail left. Raises Refused or Broken."""
        self.stage = "MAIL"
        self.sent = False
        await self._command(_DONE, b"RSET")

    async def body(self, message: bytes) -> asyncio.Future[aiosmtplib.SMTPResponse]:
        """Write the message without its end, until the socket has taken all of it. Returns the coming reply.

        Raises:
            Refused: the server did not want to hear the rest.
            Broken: the connection broke.
        """
        try:
            protocol = self._protocol()
        except ConnectionResetError as error:
            raise Broken(*_WHILE_WRITING) from error
        transport = cast("asyncio.WriteTransport", protocol.transport)
        # No buffer of our own: what is drained is with the system.
        transport.set_write_buffer_limits(0)
        # What the server says while we write is a reply as well.
        reply = asyncio.ensure_future(protocol.read_response())
        reply.add_done_callback(_looked_at)
        transport.write(_stuffed(message))
        # What a StreamWriter's drain() waits on; a StreamWriter would close the connection when it goes.
        drained = asyncio.ensure_future(protocol._drain_helper())  # noqa: SLF001
        drained.add_done_callback(_looked_at)
        try:
            await asyncio.wait({reply, drained}, return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                await drained
                return reply
            code, text = await reply
        except aiosmtplib.SMTPResponseException as error:
            raise self._reply(error.code, error.message) from error
        except OSError as error:
            reply.cancel()
            raise Broken(*_WHILE_WRITING) from error
        except BaseException:
            reply.cancel()
            raise
        finally:
            drained.cancel()
        raise self._reply(code, text)

    async def end(self, reply: asyncio.Future[aiosmtplib.SMTPResponse]) -> MailAnswer:
        """Write the dot and wait for the reply that decides. Raises Broken.

        From the dot on ``sent`` is true: whatever breaks, the server may have the mail.
        """
        try:
            protocol = self._protocol()
        except ConnectionResetError as error:
            raise Broken(*_WHILE_WRITING) from error
        self.sent = True
        self.stage = "DATA_END"
        try:
            protocol.write(b".\r\n")
            code, text = await reply
        except aiosmtplib.SMTPResponseException as error:
            raise Broken(Fault.RESET_BEFORE_STATUS, "the final reply is not SMTP") from error
        except OSError as error:
            raise Broken(Fault.RESET_BEFORE_STATUS, "closed before the final reply") from error
        finally:
            reply.cancel()
        if code // 100 in {_DONE, _NO, _NO + 1}:
            return _answer(code, text, self.stage)
        raise Broken(Fault.RESET_BEFORE_STATUS, f"the final reply {code} decides nothing")

    async def quit(self) -> None:
        """Say good-bye; what the server answers is of no interest. Then close."""
        try:
            async with asyncio.timeout(2):
                await self._client.quit()
        except (aiosmtplib.SMTPException, OSError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection at once, without waiting for the other side's consent."""
        transport = self._client.transport
        self._client.close()
        if transport is not None:
            cast("asyncio.WriteTransport", transport).abort()

    def _protocol(self) -> SMTPProtocol:
        protocol = self._client.protocol
        if protocol is None or protocol.transport is None or protocol.transport.is_closing():
            raise ConnectionResetError("closed")
        return protocol

    async def _command(self, wanted: int, *words: bytes) -> None:
        try:
            code, text = await self._client.execute_command(*words)
        except aiosmtplib.SMTPResponseException as error:
            raise self._reply(error.code, error.message) from error
        if code // 100 != wanted:
            raise self._reply(code, text)

    def _reply(self, code: int, text: str) -> Refused | Broken:
        """A refusal is an answer. Anything else that was not expected here decides nothing."""
        if _NO <= code // 100 <= _NO + 1:
            return Refused(_answer(code, text, self.stage))
        return Broken(Fault.RESET_BEFORE_STATUS, f"an unexpected reply {code}")


_WHILE_WRITING = Fault.WRITE_RESET, "the connection broke before the end of the message was written"


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Its failure shows elsewhere too; asyncio must not report it as forgotten."""
    if not future.cancelled():
        future.exception()


def _xtext(text: str) -> bytes:
    """RFC 3461 section 4: visible ASCII as it is, but + and =; anything else as + and two digits."""
    return b"".join(
        bytes((octet,)) if 0x21 <= octet <= 0x7E and octet not in b"+=" else b"+%02X" % octet  # noqa: PLR2004
        for octet in text.encode()
    )


def _stuffed(message: bytes) -> bytes:
    """RFC 5321 section 4.5.2: lines end in CRLF, a leading dot is doubled."""
    text = _LEADING_DOT.sub(b"..", _LONE_ENDS.sub(b"\r\n", message))
    return text if text.endswith(b"\r\n") else text + b"\r\n"


def _answer(code: int, text: str, stage: str) -> MailAnswer:
    enhanced = _ENHANCED.match(text)
    return MailAnswer(code, clean_text(text, MAX_REPLY), enhanced.group() if enhanced else None, stage)


def _why_no_connection(error: BaseException) -> tuple[Fault, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Fault.TLS_CERT_INVALID, f"the certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return Fault.CONNECT_REFUSED, "the TLS handshake failed"
        if isinstance(cause, socket.gaierror):
            slow = cause.errno == socket.EAI_AGAIN
            return Fault.DNS_TIMEOUT if slow else Fault.DNS_NXDOMAIN, "the host name does not resolve"
        if isinstance(cause, TimeoutError):
            return Fault.CONNECT_TIMEOUT, "no connection in time"
        cause = cause.__cause__
    return Fault.CONNECT_REFUSED, "no connection, or closed without a greeting"


def broken(error: BaseException, *, sent: bool, stage: str) -> Answer:
    """A break as a value. ``error``: what a method of Dialogue, or a timeout around it, raised."""
    match error:
        case Refused():
            return error.answer
        case Broken():
            fault, detail = error.fault, error.detail
        case TimeoutError():
            fault, detail = Fault.READ_TIMEOUT, "time is over"
        case asyncio.CancelledError():
            fault = Fault.READ_TIMEOUT if sent else Fault.NOT_STARTED
            detail = "given up at shutdown"
        case OSError() | aiosmtplib.SMTPException():
            fault, detail = Fault.RESET_BEFORE_STATUS, "the connection broke"
        case _:
            fault = Fault.RESET_BEFORE_STATUS if sent else Fault.NOT_STARTED
            detail = f"the mail can not be carried ({type(error).__name__})"
    return NoAnswer(fault, sent=sent, detail=detail, stage=stage)
