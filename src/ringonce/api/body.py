"""Reads a request's body up to a limit, and nothing but JSON."""

from fastapi import HTTPException, Request

from ringonce.errors import PayloadTooLarge


async def read(request: Request, limit: int) -> bytes:
    """The body. Raises PayloadTooLarge as soon as it is longer than ``limit`` bytes; HTTPException 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Also keeps out what a web page may send across origins without asking first.
        raise HTTPException(415, "send the header Content-Type: application/json")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise PayloadTooLarge(f"{declared} bytes; at most {limit}", mend="send less data")
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        length += len(part)
        if length > limit:
            raise PayloadTooLarge(f"more than {limit} bytes", mend="send less data")
        parts.append(part)
    return b"".join(parts)
