"""A stand-in for Viber's bot API: HTTP is always 200, the verdict stands in the body.

Facts: public clients of developers.viber.com/docs/api/rest-bot-api. A refusal's word is its ``status``.

As a program: ``python -m ringonce.vendors.viber --token a-b-c --refused 01234567890A==6``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.chat import ChatApi, Said, run
from ringonce.vendors.http import Call, Reply
from ringonce.vendors.reports import Planned, Reporter, Signed, Told

FIRST_TOKEN = 5_741_311_803_571_721_087
"""Beyond 2^53: a reader that takes it for a float gets another number."""
_NAMES = {
    "2": "invalidAuthToken",
    "4": "missingData",
    "5": "receiverNotRegistered",
    "6": "receiverNotSubscribed",
}
_TOO_MANY = "12"


class ViberApi(Reporter, ChatApi):
    """Knows one bot, by its token; all subscribers exist but those that are refused."""

    def __init__(self, token: str, **more: Any) -> None:
        super().__init__(**{**more, "receipt_secret": more.get("receipt_secret") or token})
        self._token = token

    def said(self, call: Call) -> Said:
        """Receiver, text and ``tracking_data``."""
        body = document(call)
        return Said(*(str(body.get(key, "")) for key in ("receiver", "text", "tracking_data")))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """Another path, another token, no receiver, no text."""
        if call.path != "/pa/send_message":
            return Reply(404)
        if call.headers.get("x-viber-auth-token") != self._token:
            return self.no("2")
        return None if said.address and said.text else self.no("4")

    def taken(self, said: Said, number: int) -> Reply:
        """Status 0 and a token for the message."""
        return reply(200, {"status": 0, "status_message": "ok", "message_token": FIRST_TOKEN + number})

    def no(self, word: str) -> Reply:
        """A status that is not 0."""
        return reply(200, {"status": int(word), "status_message": _NAMES.get(word, "failed")})

    def about(self, call: Call, reply: Reply) -> Told:
        """The message's token."""
        said = self.said(call)
        return Told(said.reference, said.address, str(json.loads(reply.body)["message_token"]))

    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """One event (``delivered``, ``seen``, ``failed``, ``subscribed``, ``unsubscribed``), signed by the token."""
        event: dict[str, object] = {"event": report.word, "timestamp": int(report.moment * 1000)}
        if report.word == "subscribed":
            event["user"] = {"id": told.address, "name": "Ada"}
        else:
            event["user_id"] = told.address
        if told.message_id:
            event["message_token"] = int(told.message_id)
        if report.word == "failed":
            event["desc"] = report.code or "failure description"
        body = json.dumps(event).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Viber-Content-Signature": signature}
        return Signed(told.url or self.reports_to, headers, body)

    def fails(self, status: int) -> Reply:
        """Too many requests are a 200 as well; what comes from in front of the API is not."""
        return self.no(_TOO_MANY) if status == 429 else Reply(status)


if __name__ == "__main__":
    run(ViberApi, "A stand-in for Viber's bot API that fails as it is told.", "token")
