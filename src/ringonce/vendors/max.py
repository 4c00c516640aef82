"""A stand-in for MAX's Bot API: ``POST /messages`` to a person or a chat.

Facts: max-messenger-bot/max-bot-api-schemas (``schema_2026_07_01.yaml``). A refusal's word is its ``code``.

As a program: ``python -m ringonce.vendors.max --token x --refused user:42=chat.denied``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.chat import ChatApi, Said, run
from ringonce.vendors.reports import Planned, Reporter, Signed, Told

if TYPE_CHECKING:
    from ringonce.vendors.http import Call, Reply

MAX_TEXT = 4_000
_STATUS = {"verify.token": 401, "chat.denied": 403, "chat.not.found": 404}
_CODE = {429: "too.many.requests", 500: "internal.error", 503: "service.unavailable"}


class MaxApi(Reporter, ChatApi):
    """Knows one bot, by its token; everybody exists but those that are refused."""

    def __init__(self, token: str, **more: Any) -> None:
        super().__init__(**more)
        self._token = token

    def said(self, call: Call) -> Said:
        """``user:NUMBER`` or ``chat:NUMBER``, and the text."""
        asked = dict(parse_qsl(urlsplit(call.path).query))
        kind = next((kind for kind in ("user", "chat") if f"{kind}_id" in asked), "")
        return Said(f"{kind}:{asked[f'{kind}_id']}" if kind else "", str(document(call).get("text", "")))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """Another path or method, another token, nobody to tell, no text or too long a one."""
        if urlsplit(call.path).path != "/messages":
            return reply(404, {"code": "not.found", "message": "Path is not recognized"})
        if call.method != "POST":
            return reply(405, {"code": "method.not.allowed", "message": "Method is not allowed"})
        if call.headers.get("authorization") != self._token:
            return self.no("verify.token")
        return None if said.address and 0 < len(said.text) <= MAX_TEXT else self.no("proto.payload")

    def taken(self, said: Said, number: int) -> Reply:
        """The message with its id."""
        body = {"mid": f"mid.{number:016x}", "seq": number, "text": said.text}
        return reply(200, {"message": {"recipient": {"chat_type": "dialog"}, "body": body}})

    def no(self, word: str) -> Reply:
        """An error by its code."""
        message = "error.dialog.suspended" if word == "chat.denied" else word
        return reply(_STATUS.get(word, 400), {"code": word, "message": message})

    def about(self, call: Call, reply: Reply) -> Told:
        """The message's id."""
        return Told(
            address=self.said(call).address, message_id=json.loads(reply.body)["message"]["body"]["mid"]
        )

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """An update: ``blocked`` (``bot_stopped``), ``unblocked`` (``bot_started``), or a type of its own name."""
        kind = {"blocked": "bot_stopped", "unblocked": "bot_started"}.get(report.word, report.word)
        number = int(told.address.partition(":")[2])
        update: dict[str, object] = {"update_type": kind, "timestamp": int(report.moment * 1000)}
        update["chat_id"] = number if told.address.startswith("chat:") else number + 1
        update["user"] = {"user_id": number, "first_name": "Ada", "is_bot": False}
        headers = {"Content-Type": "application/json", "X-Max-Bot-Api-Secret": secret}
        return Signed(told.url or self.reports_to, headers, json.dumps(update).encode())

    def fails(self, status: int) -> Reply:
        """An error by its status."""
        return reply(status, {"code": _CODE.get(status, "error"), "message": ""})


if __name__ == "__main__":
    run(MaxApi, "A stand-in for MAX's Bot API that fails as it is told.", "token")
