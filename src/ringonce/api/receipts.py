"""Providers' callbacks. The vendor's signature is the key, so no other one is asked for."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ringonce.api import schemas
from ringonce.api.access import SIGNED
from ringonce.api.notifications import facade
from ringonce.model.receipt import Callback

PREFIX = SIGNED
LARGEST = 3 * 1024 * 1024
"""Bytes of a callback: what the vendor that sends the largest ones may put into one."""
NO_CONTENT = 204

router = APIRouter(prefix="/v1/receipts", tags=["receipts"])

ANY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": False,
        "description": "As the vendor sends it; it is verified and read by the channel's provider.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Channel = Annotated[str, Path(min_length=1, max_length=64, description="The channel by which it was sent.")]


@router.post("/{channel}", response_model=schemas.ReceiptsTaken, openapi_extra=ANY_BODY)
async def receive(request: Request, channel: Channel) -> Response:
    """Take what a provider reports: delivered, read, failed, blocked. What is unknown is answered 200 as well.

    401: the signature is missing, wrong or too old.
    """
    return await _taken(request, channel)


@router.get("/{channel}", response_model=schemas.ReceiptsTaken)
async def ask(request: Request, channel: Channel) -> Response:
    """Answer a vendor that asks whether this URL is ours, or reports by the query."""
    return await _taken(request, channel)


async def _taken(request: Request, channel: str) -> Response:
    callback = Callback(
        request.method,
        _url(request),
        {name.lower(): value for name, value in request.headers.items()},
        await request.body(),
    )
    reply = await facade(request).receive(channel, callback)
    if reply.text is not None:
        return PlainTextResponse(reply.text, reply.status)
    if reply.status == NO_CONTENT:
        return Response(status_code=reply.status)
    return JSONResponse({"reports": dict(reply.reports)}, reply.status)


def _url(request: Request) -> str:
    """The URL as the vendor called it: what stands in front of us may have changed all of it but the path's end."""
    scope = request.scope
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    public: str = request.app.state.public_url or f"{request.url.scheme}://{request.url.netloc}"
    whole = path.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    return f"{public}{whole}"
