"""A caller that speaks ASGI to the application in this process: no port, no thread."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(slots=True)
class Caller:
    """Calls one application."""

    app: FastAPI
    host: str = "127.0.0.1:8070"
    pieces_read: int = 0

    async def call(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        raw: bytes | Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request. ``body`` is sent as JSON, ``raw`` as it is, in pieces if it is an iterable."""
        parts = urlsplit(target)
        sent = {"host": self.host, **(headers or {})}
        content: Iterable[bytes] = [b""]
        if body is not None:
            content = [json.dumps(body).encode()]
        elif raw is not None:
            content = [raw] if isinstance(raw, bytes) else raw
        if (body is not None or raw is not None) and "content-type" not in sent:
            sent["content-type"] = "application/json"
        pieces = iter(content)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8070),
        }
        start: dict[str, Any] = {}
        received = bytearray()
        ended = False

        async def receive() -> dict[str, Any]:
            nonlocal ended
            if ended:
                # As long as the caller listens there is nothing more to receive.
                await asyncio.Event().wait()
            piece = next(pieces, None)
            ended = piece is None
            if piece is not None:
                self.pieces_read += 1
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                received.extend(message.get("body", b""))

        await self.app(scope, receive, send)
        return Answer(
            start["status"],
            {key.decode(): value.decode() for key, value in start["headers"]},
            bytes(received),
        )

    async def get(self, target: str, **more: Any) -> Answer:
        """GET."""
        return await self.call("GET", target, **more)

    async def post(self, target: str, body: object = None, **more: Any) -> Answer:
        """POST."""
        return await self.call("POST", target, body, **more)

    async def put(self, target: str, body: object = None, **more: Any) -> Answer:
        """PUT."""
        return await self.call("PUT", target, body, **more)
