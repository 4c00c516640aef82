"""Bodies of requests and answers, as several stand-ins read and write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ringonce.vendors.http import Reply

if TYPE_CHECKING:
    from ringonce.vendors.http import Call

JSON = ("Content-Type", "application/json")


def form(call: Call) -> dict[str, str]:
    """The fields of a form; of a name that comes twice the last one."""
    return dict(parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True))


def document(call: Call) -> dict[str, Any]:
    """The JSON object that was sent; empty if it was none."""
    try:
        body = json.loads(call.body)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def reply(status: int, body: object, *more: tuple[str, str], accepted: bool = False) -> Reply:
    """An answer in JSON. ``more``: headers besides."""
    return Reply(status, json.dumps(body, ensure_ascii=False).encode(), (JSON, *more), accepted=accepted)
