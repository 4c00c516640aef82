"""A stand-in for the Telegram Bot API's ``sendMessage``, with the real API's bodies.

Facts: core.telegram.org/bots/api and the sources of tdlib/telegram-bot-api (``Query.h``: the HTTP status is
the ``error_code``; a 429 says its delay in the header, in ``parameters.retry_after`` and in the text, all
equal).

As a program: ``python -m ringonce.vendors.telegram --token 1:x --blocked 42 --fault 500:first=9``.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ringonce.vendors.bodies import JSON, document, reply
from ringonce.vendors.http import Call, Reply
from ringonce.vendors.reports import Planned, Reporter, Signed, Told, chosen, options
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ringonce.vendors.script import Fault

MAX_TEXT = 4096
"""UTF-16 code units of a text."""
_TEXTS = {
    400: "Bad Request: message text is empty",
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    500: "Internal Server Error",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


class TelegramApi(Reporter):
    """Knows one bot and what is special about some chats; all other chats exist.

    Args:
        token: the bot's.
        blocked: chats whose person blocked the bot (403).
        unknown: chats that do not exist (400, ``chat not found``).
        migrated: group chats that became supergroups: old id -> new id.
        reference: (chat, text) -> the sender's reference, for the ledger; the protocol carries none.
        more: see Reporter, whose ``receipt_secret`` is the webhook's ``secret_token``.
    """

    def __init__(
        self,
        token: str,
        *,
        blocked: Collection[str] = (),
        unknown: Collection[str] = (),
        migrated: Mapping[str, int] | None = None,
        reference: Callable[[str, str], str] = lambda _chat, text: text,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._path = f"/bot{token}/"
        self._blocked = frozenset(blocked)
        self._unknown = frozenset(unknown)
        self._migrated = dict(migrated or {})
        self._reference = reference
        self._message_id = 0

    def identify(self, call: Call) -> tuple[str, str]:
        """The reference that the text holds, and the chat."""
        body = document(call)
        chat, text = str(body.get("chat_id", "")), str(body.get("text", ""))
        return self._reference(chat, text), chat

    def respond(self, call: Call) -> Reply:
        """What the Bot API says."""
        if not call.path.startswith("/bot"):
            return _error(404, "Not Found")
        if not call.path.startswith(self._path):
            return _error(401, "Unauthorized")
        if call.path.removeprefix(self._path).lower() != "sendmessage":
            return _error(404, "Not Found: method not found")
        body = document(call)
        chat, text = str(body.get("chat_id", "")), str(body.get("text", ""))
        if not chat:
            return _error(400, "Bad Request: chat_id is empty")
        if chat in self._unknown:
            return _error(400, "Bad Request: chat not found")
        if chat in self._migrated:
            return _error(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self._migrated[chat],
            )
        if chat in self._blocked:
            return _error(403, "Forbidden: bot was blocked by the user")
        if not text.strip():
            return _error(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le", "surrogatepass")) // 2 > MAX_TEXT:
            return _error(400, "Bad Request: message is too long")
        self._message_id += 1
        result = {
            "message_id": self._message_id,
            "date": int(time.time()),
            "chat": {"id": int(chat) if chat.lstrip("-").isdecimal() else chat, "type": "private"},
            "text": text,
        }
        return reply(200, {"ok": True, "result": result}, accepted=True)

    def about(self, call: Call, reply: Reply) -> Told:
        """The chat."""
        return Told(*self.identify(call), message_id=str(json.loads(reply.body)["result"]["message_id"]))

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """The update ``my_chat_member``: ``blocked``, ``unblocked``, or a member's status of the Bot API."""
        status = {"blocked": "kicked", "unblocked": "member"}.get(report.word, report.word)
        person = {"id": int(told.address), "is_bot": False, "first_name": "Ada"}
        body = {
            "update_id": int(report.moment * 1000),
            "my_chat_member": {
                "chat": {"id": int(told.address), "type": "private", "first_name": "Ada"},
                "from": person,
                "date": int(report.moment),
                "old_chat_member": {"user": {"id": 1, "is_bot": True}, "status": "member"},
                "new_chat_member": {"user": {"id": 1, "is_bot": True}, "status": status},
            },
        }
        headers = {"Content-Type": "application/json", "X-Telegram-Bot-Api-Secret-Token": secret}
        return Signed(told.url or self.reports_to, headers, json.dumps(body).encode())

    def refusal(self, fault: Fault) -> Reply:
        """An error as the Bot API words it."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        if fault.status == 429:
            delay = int(dict(fault.headers).get("Retry-After", "1"))
            said = _error(429, f"Too Many Requests: retry after {delay}", retry_after=delay)
            return Reply(429, said.body, (JSON, ("Retry-After", str(delay))))
        said = _error(fault.status, _TEXTS.get(fault.status, "Bad Request: unknown"))
        return Reply(fault.status, said.body, (*said.headers, *fault.headers))


def _error(code: int, description: str, **parameters: int) -> Reply:
    body: dict[str, object] = {"ok": False, "error_code": code, "description": description}
    if parameters:
        body["parameters"] = parameters
    return reply(code, body)


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for the Telegram Bot API that fails as it is told.")
    parser.add_argument("--token", required=True)
    parser.add_argument("--blocked", action="append", default=[], metavar="CHAT")
    parser.add_argument("--unknown", action="append", default=[], metavar="CHAT")
    options(parser)
    given = parser.parse_args()
    TelegramApi(
        given.token, blocked=given.blocked, unknown=given.unknown, **chosen(given), **common(given)
    ).run_until_stopped()


if __name__ == "__main__":
    main()
