"""A stand-in for WhatsApp's Cloud API: texts and templates to phone numbers.

Facts: developers.facebook.com/documentation/business-messaging/whatsapp (``error.code`` decides). A refusal's word is
its code.

As a program: ``python -m ringonce.vendors.whatsapp --token x --number 106540352242922 --refused +15550001234=131026``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.chat import ChatApi, Said, run
from ringonce.vendors.http import Call, Reply
from ringonce.vendors.reports import Planned, Reporter, Signed, Told

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_TEXT = 4_096
_STATUS = {"131056": 429, "130429": 429, "131000": 500, "2": 503, "190": 401, "368": 403, "132001": 404}
_CODES = {429: "130429", 500: "131000", 503: "2"}


class WhatsAppApi(Reporter, ChatApi):
    """Knows one sender, by token and number's id; everybody has WhatsApp but those that are refused.

    Args:
        token: the access token.
        number: the sender's id.
        paused: names of templates that Meta has paused (132015); may be changed while it runs.
        more: see ChatApi, and Reporter, whose ``receipt_secret`` is the app secret.
    """

    def __init__(self, token: str, number: str, *, paused: Collection[str] = (), **more: Any) -> None:
        super().__init__(**more)
        self.paused = set(paused)
        self._token, self._number_id = token, number
        self._path = re.compile(rf"/v\d+\.\d/{re.escape(number)}/messages")

    def said(self, call: Call) -> Said:
        """The number, the text or the template's name, and ``biz_opaque_callback_data``."""
        body = document(call)
        text, template = body.get("text"), body.get("template")
        said = text.get("body") if isinstance(text, dict) else None
        named = template.get("name") if isinstance(template, dict) else None
        return Said(
            str(body.get("to", "")), str(said or named or ""), str(body.get("biz_opaque_callback_data", ""))
        )

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """Another token, another number, a body without its parts, too long a text."""
        if call.headers.get("authorization") != f"Bearer {self._token}":
            return self.no("190")
        if not self._path.fullmatch(call.path):
            return reply(400, {"error": {"message": "no such object", "code": 100, "error_subcode": 33}})
        if document(call).get("messaging_product") != "whatsapp" or not said.address or not said.text:
            return self.no("131008")
        if document(call).get("type") == "template" and said.text in self.paused:
            return self.no("132015")
        return self.no("131009") if len(said.text) > MAX_TEXT else None

    def taken(self, said: Said, number: int) -> Reply:
        """The message's id; whether it arrives is told later."""
        digits = said.address.removeprefix("+")
        return reply(
            200,
            {
                "messaging_product": "whatsapp",
                "contacts": [{"input": said.address, "wa_id": digits}],
                "messages": [{"id": f"wamid.{number:016x}"}],
            },
        )

    def no(self, word: str) -> Reply:
        """An error by its code."""
        error = {"message": f"(#{word})", "type": "OAuthException", "code": int(word), "fbtrace_id": "A1"}
        return reply(_STATUS.get(word, 400), {"error": error})

    def about(self, call: Call, reply: Reply) -> Told:
        """The message's id, and ``biz_opaque_callback_data``."""
        said = self.said(call)
        return Told(said.reference, said.address, json.loads(reply.body)["messages"][0]["id"])

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """One status, as the app's webhook gets it; the bytes are signed by the app secret."""
        status: dict[str, object] = {
            "id": told.message_id,
            "status": report.word,
            "timestamp": str(int(report.moment)),
            "recipient_id": told.address.removeprefix("+"),
            "biz_opaque_callback_data": told.reference,
        }
        if report.code:
            status["errors"] = [{"code": int(report.code), "title": "refused"}]
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"phone_number_id": self._number_id},
            "statuses": [status],
        }
        entry = {"id": "1", "changes": [{"value": value, "field": "messages"}]}
        body = json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"}
        return Signed(told.url or self.reports_to, headers, body)

    def fails(self, status: int) -> Reply:
        """An error by its status."""
        return self.no(_CODES[status]) if status in _CODES else Reply(status)


if __name__ == "__main__":
    run(WhatsAppApi, "A stand-in for WhatsApp's Cloud API that fails as it is told.", "token", "number")
