"""Acme Pager, a vendor that does not exist: a provider in a package of its own.

Facts: Acme's imaginary guide. A call answers ``{"ok": true, "id": "…"}`` or ``{"ok": false, "error": "…"}``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from ringonce.provider import (
    JSON_API,
    Address,
    Context,
    Features,
    HttpRequest,
    InputError,
    Message,
    OutcomeClass,
    Provider,
    Rule,
)

GUIDE = "Acme guide, section Answers"


@dataclass(frozen=True)
class AcmeOptions:
    """``key``: from Acme's console. ``base_url``: another installation of the vendor."""

    key: str = field(repr=False)
    base_url: str = "https://api.acme.example"


class Acme(Provider):
    """One text for one pager."""

    name = "acme"
    title = "Acme Pager"
    features = Features(title=False, max_text=160)
    second_send = "shown again"
    rules = (
        Rule("acme.taken", OutcomeClass.ACCEPTED, GUIDE, status=200, json={"ok": True}, message_id="json:id"),
        *JSON_API,
        Rule("acme.slow_down", OutcomeClass.RATE_LIMITED, GUIDE, status=400, json={"error": "too_fast"}),
        Rule(
            "acme.no_such_pager",
            OutcomeClass.INVALID_RECIPIENT,
            GUIDE,
            status=400,
            json={"error": "no_such_pager"},
            drop_address=True,
        ),
    )
    Options = AcmeOptions

    @property
    def account(self) -> str:
        """Limits count per key; a digest tells keys apart and gives nothing away."""
        return f"acme:{hashlib.sha256(self.options.key.encode()).hexdigest()[:8]}"

    def address(self, value: object) -> str:
        """A pager's number: four to twelve digits."""
        number = super().address(value)
        if not (number.isascii() and number.isdigit() and 4 <= len(number) <= 12):
            raise InputError("a pager's number has 4 to 12 digits", field="address", mend="write 4815162342")
        return number

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. Acme ignores a reference that it knows."""
        body = {"pager": address.value, "text": message.content.text, "reference": message.reference}
        return HttpRequest(
            method="POST",
            url=f"{self.options.base_url}/v1/page",
            headers=(
                ("content-type", "application/json"),
                ("authorization", f"Bearer {self.options.key}"),
            ),
            body=json.dumps(body).encode(),
            timeout=context.timeout,
        )
