"""A mail server (RFC 5321) that takes everything, or fails as it is told.

Faults happen at stage CONNECT, MAIL, RCPT, DATA (the reply before the message) or, without a stage, after the
message. A ``status`` there is the reply's code. The reference in the ledger is the Message-ID.

As a program: ``python -m ringonce.vendors.smtp --greylist --unknown no@example.com --fault reset:each=1``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any

from ringonce.vendors.dsn import Taken, hand_in, report
from ringonce.vendors.standin import StandIn, arguments, break_off, common

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.vendors.script import Fault

MAX_MESSAGE = 32 * 1024 * 1024
_MESSAGE_ID = re.compile(rb"^Message-ID:\s*<?([^>\r\n]*)>?", re.IGNORECASE | re.MULTILINE)
_PATH = re.compile(rb"(?:FROM|TO):\s*<([^>]*)>", re.IGNORECASE)
_ENVELOPE_ID = re.compile(rb"\bENVID=([^ ]+)", re.IGNORECASE)
_TEXTS = {
    421: "4.3.2 service not available, closing",
    450: "4.2.0 greylisted, please try again later",
    451: "4.3.0 local error in processing",
    452: "4.3.1 insufficient system storage",
    550: "5.1.1 user unknown",
    552: "5.3.4 message too big",
    554: "5.6.0 transaction failed",
}


class _Ended(Exception):  # noqa: N818 - not an error
    """A fault has ended the connection."""


class MailServer(StandIn):
    """Accepts mail for everybody but ``unknown``.

    Args:
        greylist: the first mail of each (sender, recipient) is refused with 450; True: for all recipients,
            or those that are.
        unknown: recipients that are refused with 550 5.1.1.
        bounce: recipients whose mail is taken and comes back later: 5.1.1, user unknown.
        bounces_to: the URL to which the reports of it are posted (``POST /v1/receipts/email``); else see ``taken``.
        more: see StandIn.
    """

    def __init__(
        self,
        *,
        greylist: bool | Collection[str] = False,
        unknown: Collection[str] = (),
        bounce: Collection[str] = (),
        bounces_to: str = "",
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._bounce = frozenset(bounce)
        self._bounces_to = bounces_to
        self.taken: list[Taken] = []
        """What was taken for those whose mail comes back, in order: ``vendors.dsn.report`` makes a report of one."""
        self.answers: list[int] = []
        """The statuses with which the posted reports were answered; 0: there was no answer."""
        self._greylist = greylist if isinstance(greylist, bool) else frozenset(greylist)
        self._unknown = frozenset(unknown)
        self._tried: set[tuple[str, str]] = set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve mails until QUIT, the client's end or a fault."""
        with contextlib.suppress(_Ended):
            await self._talk(reader, writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await self._failed("CONNECT", "", reader, writer):
            return
        writer.write(b"220 stand-in ESMTP\r\n")
        sender: str | None = None
        recipients: list[str] = []
        envelope_id = ""
        while True:
            line = (await reader.readuntil(b"\n")).rstrip(b"\r\n")
            verb = line.split(b" ", 1)[0].upper()
            match verb:
                case b"EHLO":
                    writer.write(
                        b"250-stand-in\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250 SIZE %d\r\n"
                        % MAX_MESSAGE
                    )
                case b"HELO" | b"NOOP":
                    writer.write(b"250 ok\r\n")
                case b"RSET":
                    sender, recipients = None, []
                    writer.write(b"250 2.0.0 ok\r\n")
                case b"MAIL":
                    found = _PATH.search(line)
                    if found is None:
                        writer.write(b"501 5.5.4 syntax: MAIL FROM:<address>\r\n")
                    elif not await self._failed("MAIL", "", reader, writer):
                        sender, recipients = found[1].decode("utf-8", "replace"), []
                        named = _ENVELOPE_ID.search(line)
                        envelope_id = named[1].decode("ascii", "replace") if named else ""
                        writer.write(b"250 2.1.0 ok\r\n")
                case b"RCPT":
                    found = _PATH.search(line)
                    if sender is None or found is None:
                        writer.write(b"503 5.5.1 MAIL first\r\n" if found else b"501 5.5.4 syntax\r\n")
                    else:
                        address = found[1].decode("utf-8", "replace")
                        if not await self._failed("RCPT", address, reader, writer):
                            code = self._recipient(sender, address)
                            if code == 250:
                                recipients.append(address)
                                writer.write(b"250 2.1.5 ok\r\n")
                            else:
                                self._refuse(writer, code, "", address)
                case b"DATA":
                    if sender is None or not recipients:
                        writer.write(b"503 5.5.1 RCPT first\r\n")
                    elif not await self._failed("DATA", recipients[0], reader, writer):
                        message = await self._message(recipients, reader, writer)
                        if message is not None:
                            self._come_back(
                                [
                                    Taken(sender, one, message, envelope_id)
                                    for one in recipients
                                    if one in self._bounce
                                ]
                            )
                        sender, recipients = None, []
                case b"QUIT":
                    writer.write(b"221 2.0.0 bye\r\n")
                    await writer.drain()
                    return
                case _:
                    writer.write(b"502 5.5.1 not known here\r\n")
            await writer.drain()

    def _recipient(self, sender: str, address: str) -> int:
        if address in self._unknown:
            return 550
        grey = self._greylist if isinstance(self._greylist, bool) else address in self._greylist
        if grey and (sender, address) not in self._tried:
            self._tried.add((sender, address))
            return 450
        return 250

    async def _message(
        self, recipients: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes | None:
        """The message if it was taken."""
        writer.write(b"354 end with a dot\r\n")
        await writer.drain()
        lines: list[bytes] = []
        size = 0
        while (line := await reader.readuntil(b"\n")) != b".\r\n":
            size += len(line)
            if size > MAX_MESSAGE:
                raise ValueError(size)
            lines.append(line.removeprefix(b"."))
        found = _MESSAGE_ID.search(b"".join(lines).partition(b"\r\n\r\n")[0])
        reference = found[1].decode("utf-8", "replace").strip() if found else ""
        fault = self.plan.next(recipients[0])
        if fault is not None and fault.seconds:
            await asyncio.sleep(fault.seconds)
        refused = fault is not None and fault.verb != "delay" and not fault.accepts
        label = fault.label if fault is not None and fault.verb != "delay" else "250"
        for address in recipients:
            self.ledger.record(reference, address, label, accepted=not refused)
        if fault is None or fault.verb == "delay":
            writer.write(b"250 2.0.0 queued\r\n")
            return b"".join(lines)
        await self._perform(fault, reader, writer)
        return None

    def _come_back(self, mails: list[Taken]) -> None:
        self.taken += mails
        if mails and self._bounces_to:
            # In a thread of its own: who is told may be busy with the very mail.
            threading.Thread(target=self._report, args=(mails,), daemon=True).start()

    def _report(self, mails: list[Taken]) -> None:
        for mail in mails:
            self.answers.append(hand_in(self._bounces_to, report(mail)))

    async def _failed(
        self, stage: str, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """True: a fault of this stage has answered. Raises _Ended when it ended the connection."""
        fault = self.plan.next(address, stage)
        if fault is None:
            return False
        if fault.seconds:
            await asyncio.sleep(fault.seconds)
        if fault.verb == "delay":
            return False
        self.ledger.record("", address, f"{stage} {fault.label}", accepted=False)
        await self._perform(fault, reader, writer)
        return True

    async def _perform(
        self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if fault.verb == "status":
            writer.write(_reply(fault.status, fault.body))
            await writer.drain()
            if fault.status != 421:
                return
        else:
            await break_off(fault, reader, writer)
        raise _Ended

    def _refuse(self, writer: asyncio.StreamWriter, code: int, reference: str, address: str) -> None:
        self.ledger.record(reference, address, str(code), accepted=False)
        writer.write(_reply(code, None))


def _reply(code: int, text: bytes | None) -> bytes:
    words = text if text is not None else _TEXTS.get(code, "as told").encode()
    return b"%d %b\r\n" % (code, words)


def main() -> None:
    """Run as a program."""
    parser = arguments("A mail server that fails as it is told.")
    parser.add_argument("--greylist", action="store_true", help="refuse the first mail of each pair")
    parser.add_argument("--unknown", action="append", default=[], metavar="ADDRESS")
    parser.add_argument(
        "--bounce", action="append", default=[], metavar="ADDRESS", help="its mail comes back"
    )
    parser.add_argument("--bounces-to", default="", metavar="URL", help="where reports of that are posted")
    options = parser.parse_args()
    MailServer(
        greylist=options.greylist,
        unknown=options.unknown,
        bounce=options.bounce,
        bounces_to=options.bounces_to,
        **common(options),
    ).run_until_stopped()


if __name__ == "__main__":
    main()
