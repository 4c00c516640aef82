"""A stand-in for Discord's webhooks: the message comes back with ``wait=true`` only.

Facts: discord/discord-api-docs (``resources/webhook.mdx``, ``topics/rate-limits.mdx``). An address is
``ID/TOKEN``, with ``?thread_id=`` for a thread; all of them exist but those that are refused. A refusal's word is
its ``code``.

As a program: ``python -m ringonce.vendors.discord --refused 12345/secret=10015``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.chat import ChatApi, Said, run
from ringonce.vendors.http import Call, Reply

if TYPE_CHECKING:
    from ringonce.vendors.script import Fault

MAX_TEXT = 2_000
FIRST_ID = 1_100_000_000_000_000_000
_PATH = re.compile(r"/api(?:/v\d+)?/webhooks/([^/]+/[^/]+)")
_CODES = {
    "10003": (404, "Unknown Channel"),
    "10015": (404, "Unknown Webhook"),
    "50006": (400, "Cannot send an empty message"),
    "50027": (401, "Invalid Webhook Token"),
    "50035": (400, "Invalid Form Body"),
}


class DiscordHooks(ChatApi):
    """All webhooks of all servers."""

    def said(self, call: Call) -> Said:
        """The webhook and its thread, and the text."""
        parts = urlsplit(call.path)
        found, thread = _PATH.fullmatch(parts.path), parse_qs(parts.query).get("thread_id")
        address = (found[1] if found else "") + (f"?thread_id={thread[0]}" if thread else "")
        return Said(address, str(document(call).get("content", "")))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """Another path, no text or too long a one. Without ``wait=true`` what is wrong is not told."""
        if not said.address:
            return reply(404, {"message": "404: Not Found", "code": 0})
        if said.text and len(said.text) <= MAX_TEXT:
            return None if _waits(call) else Reply(204, accepted=True)
        return self.no("50035" if said.text else "50006") if _waits(call) else Reply(204)

    def taken(self, said: Said, number: int) -> Reply:
        """The message with its id."""
        return reply(200, {"id": str(FIRST_ID + number), "type": 0, "content": said.text})

    def no(self, word: str) -> Reply:
        """An error by its code."""
        status, message = _CODES.get(word, (400, "error"))
        return reply(status, {"message": message, "code": int(word)})

    def fails(self, status: int) -> Reply:
        """An error by its status."""
        return reply(status, {"message": f"{status}", "code": 0})

    def refusal(self, fault: Fault) -> Reply:
        """A limit says its delay twice: a fraction in the body, rounded up in the header."""
        if fault.status != 429 or fault.body is not None:
            return super().refusal(fault)
        delay = float(dict(fault.headers).get("Retry-After", "1"))
        headers = (("Retry-After", str(math.ceil(delay))), ("X-RateLimit-Scope", "user"))
        body = {"message": "You are being rate limited.", "retry_after": delay, "global": False}
        return reply(429, body, *headers)


def _waits(call: Call) -> bool:
    return parse_qs(urlsplit(call.path).query).get("wait") == ["true"]


if __name__ == "__main__":
    run(DiscordHooks, "A stand-in for Discord's webhooks that fails as it is told.")
