"""Short messages over SMPP: a few lasting sessions for each center, a window of messages on each.

A message is handed in over one session, part after part, and never again: one whose packet was, or may have been,
written and that got no response is a doubt; one that was not is certainly not sent. Sessions are opened with the first
message, or at once for a center that somebody listens to, and come back by themselves; a refused bind is told to
whoever waits, and tried again when somebody asks, at most every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from ringonce.model.exchange import Fault, NoAnswer, SmsAnswer
from ringonce.wire.smpp_line import Line
from ringonce.wire.smpp_pdu import OK, message_id
from ringonce.wire.smpp_session import Broken, Refused
from ringonce.wire.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Answer, SmsCenter, SmsRequest
    from ringonce.ports import Deliver, SmsHeard
    from ringonce.wire.smpp_session import Session

log = logging.getLogger("ringonce")


class SmsWire:
    """The part of the wire that carries short messages. See ``ports.Wire`` for what its methods promise.

    Args:
        ca_file: certificates to trust instead of the system's.
    """

    def __init__(self, *, ca_file: str | None = None) -> None:
        self._ca_file = ca_file
        self._lines: dict[SmsCenter, Line] = {}
        self._tasks = Tasks()
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    def submit(self, batch: Sequence[tuple[object, SmsRequest]], deliver: Deliver) -> None:
        """Begin all of ``batch``, one task each."""
        for token, request in batch:
            self._tasks.begin(self._carry(token, request, deliver))

    def listen(self, center: SmsCenter, heard: SmsHeard) -> None:
        """Keep sessions with ``center`` and call ``heard`` with what it delivers; it is acknowledged afterwards."""
        self._line(center).listen(heard)

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for what runs, give the rest up, say good-bye to the centers."""
        self._closed = True
        try:
            await self._tasks.end(grace)
        finally:
            await asyncio.gather(*(line.close() for line in self._lines.values()))
            self._lines.clear()
            await asyncio.sleep(0)  # closed sockets are let go of in the next turn of the loop

    def _line(self, center: SmsCenter) -> Line:
        line = self._lines.get(center)
        if line is None:
            if center.tls and self._tls is None:
                self._tls = ssl.create_default_context(cafile=self._ca_file)
            line = self._lines[center] = Line(center, self._tls if center.tls else None)
        return line

    async def _carry(self, token: object, request: SmsRequest, deliver: Deliver) -> None:
        answer: Answer
        if self._closed:
            answer = NoAnswer(Fault.NOT_STARTED, sent=False, detail="the wire is closed")
        else:
            try:
                answer = await self._exchange(self._line(request.center), request)
            except BaseException as error:  # noqa: BLE001 - every message gets its answer
                answer = _broken(error, sent=False)
        deliver([(token, answer)])

    async def _exchange(self, line: Line, request: SmsRequest) -> Answer:
        try:
            async with asyncio.timeout(request.timeout):
                session = await line.take()
        except TimeoutError:
            return NoAnswer(
                Fault.NOT_STARTED, sent=False, detail="no session, or no room in its window, in time"
            )
        try:
            return await _hand_in(session, request)
        finally:
            line.give_back(session)


async def _hand_in(session: Session, request: SmsRequest) -> Answer:
    written = False

    def wrote() -> None:
        nonlocal written
        written = True

    taken = 0
    try:
        async with asyncio.timeout(request.timeout):
            while True:
                response = await session.submit(request, taken, wrote)
                if response.status != OK:
                    return SmsAnswer(response.status, response.name, accepted=taken)
                taken += 1
                if taken == len(request.parts):
                    return SmsAnswer(OK, response.name, message_id(response), taken)
    except BaseException as error:  # noqa: BLE001 - every message gets its answer, at shutdown too
        return _broken(error, sent=written)


def _broken(error: BaseException, *, sent: bool) -> Answer:
    """A break as a value."""
    match error:
        case Refused():
            return error.answer
        case Broken():
            fault, detail = error.fault, error.detail
        case TimeoutError():
            fault, detail = Fault.READ_TIMEOUT, "no response in time"
        case asyncio.CancelledError():
            fault = Fault.READ_TIMEOUT if sent else Fault.NOT_STARTED
            detail = "given up at shutdown"
        case _:
            fault = Fault.RESET_BEFORE_STATUS if sent else Fault.NOT_STARTED
            detail = f"the message can not be carried ({type(error).__name__})"
            log.error("a short message could not be carried", exc_info=error)
    return NoAnswer(fault, sent=sent, detail=detail)
