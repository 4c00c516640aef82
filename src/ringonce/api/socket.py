"""In-app copies over a WebSocket (RFC 6455): what happens in an inbox comes as it happens, and reading is told back.

To the page go JSON texts: ``hello`` (``cursor``, ``unread``), ``notification`` and ``read`` with their ``seq``, after
them ``unread``, in a silence ``heartbeat``, and ``error`` for what could not be done. From the page comes ``read``,
with what ``POST …/read`` takes. Whoever breaks off goes on with ``?after=`` the last ``seq``, as with the stream.

What the page does not take waits in the connection, and nothing more is asked of the store meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from fastapi import HTTPException
from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from ringonce.api import bodies, problems
from ringonce.api.access import scope
from ringonce.api.feed import told
from ringonce.api.fields import micros
from ringonce.api.tickets import PROTOCOL
from ringonce.errors import InputError, RingonceError, StoreError

if TYPE_CHECKING:
    from ringonce.api.facade import Facade
    from ringonce.engine.inbox import Stream

log = logging.getLogger("ringonce")

PATH = "/v1/inbox/{recipient}/ws"
GOING_AWAY, UNSUPPORTED, BUG, TRY_LATER, TICKET_OVER = 1001, 1003, 1011, 1013, 4401
"""Why we close: RFC 6455 section 7.4.1 and its registry; from 4000 on they are an application's own."""
SILENT = 1.0
"""Seconds before the database is asked again when it can not be used."""
_NUMBER = re.compile(r"[0-9]{1,15}")


async def connect(websocket: WebSocket) -> None:
    """One device of one recipient. A refusal is a problem document, as for any other request."""
    try:
        following, session = await _opened(websocket)
    except HTTPException as error:
        code = problems.CODE_OF_STATUS.get(error.status_code, "http_error")
        await websocket.send_denial_response(problems.problem(error.status_code, str(error.detail), code))
        return
    except RingonceError as error:
        await websocket.send_denial_response(problems.of_error(error))
        return
    open_: set[Stream] = websocket.app.state.streams
    async with following:
        open_.add(following)
        try:
            await session.run(following)
        except WebSocketDisconnect:
            pass  # it comes again and goes on where it was
        except Exception:
            log.exception("bug in the WebSocket of an inbox")
            await session.close(BUG)
        finally:
            open_.discard(following)


async def _opened(websocket: WebSocket) -> tuple[Stream, Session]:
    """What is asked for, checked. Raises InputError, HTTPException, StoreError."""
    asked = websocket.query_params
    for name in asked:
        if name not in {"after", "tenant"} or len(asked.getlist(name)) > 1:
            raise InputError(
                "is not known here, or given twice", field=name, mend="there are after and tenant"
            )
    after, recipient = asked.get("after"), unquote(websocket.path_params["recipient"])
    if after is not None and not _NUMBER.fullmatch(after):
        raise InputError("a number is needed", field="after", mend="the last seq, or a page's cursor")
    if "\0" in recipient + asked.get("tenant", ""):
        raise InputError("U+0000 can not be stored", field="recipient")
    owner = scope(websocket, asked.get("tenant")) or ""
    behind: Facade = websocket.app.state.facade
    following = behind.stream(recipient, tenant=owner, after=None if after is None else int(after))
    await behind.unread(recipient, tenant=owner)  # a database that is away is told before the answer begins
    return following, Session(websocket, behind, recipient, owner)


class Session:
    """The conversation with one page."""

    def __init__(self, websocket: WebSocket, behind: Facade, recipient: str, tenant: str) -> None:
        self._socket = websocket
        self._behind = behind
        self._who = recipient, tenant
        self._silence: float = websocket.app.state.heartbeat
        self._until: int | None = websocket.scope.get("state", {}).get("until")

    async def run(self, following: Stream) -> None:
        """Tell and hear until one side has enough. Raises WebSocketDisconnect."""
        offered = self._socket.scope.get("subprotocols", ())
        await self._socket.accept(subprotocol=PROTOCOL if PROTOCOL in offered else None)
        sides = asyncio.create_task(self._tell(following)), asyncio.create_task(self._hear())
        try:
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)
        for side in done:
            await self.close(side.result())

    async def close(self, code: int) -> None:
        """Say why, and end."""
        with suppress(RuntimeError, WebSocketDisconnect):  # it may be closed already
            await self._socket.close(code)

    async def _send(self, kind: str, **more: object) -> None:
        await self._socket.send_text(
            json.dumps({"type": kind, **more}, ensure_ascii=False, separators=(",", ":"))
        )

    async def _tell(self, following: Stream) -> int:
        """What happens in the inbox; the code with which to close."""
        try:
            await self._send("hello", cursor=following.cursor, unread=await following.unread())
        except StoreError:
            return TRY_LATER
        while not following.ended:
            left = self._silence if self._until is None else min(self._silence, self._until - time.time())
            if left <= 0:
                return TICKET_OVER
            try:
                changes = await following.changes(left)
                for name, number, view in told(changes):
                    await self._send(name, seq=number, **{name: view} if name == "notification" else view)
                if changes:
                    await self._send("unread", unread=await following.unread())
                elif not following.ended:
                    await self._send("heartbeat")
            except StoreError as error:
                await self._trouble(error)
                await asyncio.sleep(SILENT)
        return GOING_AWAY

    async def _hear(self) -> int:
        """What the page says; the code with which to close. Raises WebSocketDisconnect."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                return UNSUPPORTED
            try:
                await self._read(text)
            except (RingonceError, ValidationError) as error:
                await self._trouble(error)

    async def _read(self, text: str) -> None:
        """Mark copies as read: all devices, this one too, hear of it as a change. Raises InputError, StoreError."""
        try:
            said: Any = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or said.pop("type", None) != "read":
            raise InputError(
                "only reading is told here", field="type", mend='e.g. {"type": "read", "all": true}'
            )
        body = bodies.ReadIn.model_validate(cast("dict[str, object]", said))
        recipient, tenant = self._who
        up_to = body.up_to if body.until is None else micros(body.until)
        await self._behind.mark_read(recipient, body.ids, up_to=up_to, tenant=tenant)

    async def _trouble(self, error: Exception) -> None:
        if isinstance(error, RingonceError):
            answer = json.loads(bytes(problems.of_error(error).body))
        else:
            first = cast("ValidationError", error).errors()[0]
            answer = {"status": 422, "code": "invalid_input", "detail": first["msg"]}
        await self._send("error", error=answer)
