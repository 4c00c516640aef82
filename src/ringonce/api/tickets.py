"""Tickets: what a browser shows instead of a key. One opens one person's inbox for a while, and nothing else.

A key sees all recipients of its tenant, so it never belongs into a page. The application's server, which knows who is
logged in, asks for a ticket with its key and gives it to the page. Nothing is stored: the ticket is sealed with the key
that asked for it, so it is good in every process that knows this key, and ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ringonce.core.base64url import from_base64url
from ringonce.core.seal import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "inbox_"
PROTOCOL = "ringonce.inbox"
"""The subprotocol that a server and a page speak over a WebSocket."""
KEY_PROTOCOL = "ringonce.key."
"""Begins the subprotocol that carries a ticket or a key, in base64url: a page can set no other header (RFC 6455)."""
_PURPOSE = "inbox ticket"
_PLACE = 3  # of the recipient in /v1/inbox/ada/stream


@dataclass(frozen=True, slots=True)
class Ticket:
    """Whose inbox it opens, until when (seconds since 1970)."""

    tenant: str
    recipient: str
    until: int

    def admits(self, path: str) -> bool:
        """The path is below this recipient's inbox, and no place where tickets are made."""
        parts = path.split("/")
        below = parts[:_PLACE] == ["", "v1", "inbox"] and len(parts) > _PLACE
        return below and unquote(parts[_PLACE]) == self.recipient and parts[_PLACE + 1 :] != ["ticket"]


def write(secret: str, ticket: Ticket) -> str:
    """The ticket as a text that may stand in a header."""
    return PREFIX + seal(secret, _PURPOSE, ticket.tenant, ticket.recipient, str(ticket.until))


def read(text: str, secrets: Iterable[tuple[str, str | None]]) -> Ticket | None:
    """The ticket, if it was sealed with one of the secrets, and with one of a tenant for this tenant only."""
    for secret, tenant in secrets:
        said = unseal(secret, _PURPOSE, text.removeprefix(PREFIX))
        if said is not None and tenant in {None, said[0]}:
            return Ticket(said[0], said[1], int(said[2]))
    return None


def from_protocols(offered: str) -> str:
    """The ticket or key among the subprotocols that a page offers; empty: there is none."""
    for protocol in offered.split(","):
        name = protocol.strip()
        if name.startswith(KEY_PROTOCOL):
            raw = name.removeprefix(KEY_PROTOCOL)
            try:
                return from_base64url(raw).decode()
            except ValueError:
                return ""
    return ""
