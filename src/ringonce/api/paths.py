"""Ids in paths may hold a slash: ``/v1/recipients/team%2F7`` is one recipient.

Servers decode a path before it is routed, and the slash would part it. So ``%2F``, and ``%25`` so that nothing else
looks like it, stay encoded until the parameter is read.
"""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import BeforeValidator
from starlette.types import ASGIApp, Receive, Scope, Send

_KEPT = re.compile(rb"%(?=2[Ff]|25)")


class WholeSegments:
    """ASGI middleware: parts the path at the slashes that were written as such."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decode it our way."""
        raw = scope.get("raw_path")
        if scope["type"] in {"http", "websocket"} and raw and b"%" in raw:
            kept = _KEPT.sub(b"%25", raw.partition(b"?")[0])
            scope = {**scope, "path": unquote(kept.decode("ascii", "replace"))}
        await self._app(scope, receive, send)


Segment = Annotated[str, BeforeValidator(unquote)]
"""One segment of a path, its slashes included."""
