"""In-app: the copy is stored for the recipient and read through the API. No vendor, no call, no address.

What it takes is what the application shows: everything. The inbox itself is ``ringonce.engine.inbox``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ringonce.provider import Features, InDoubt, InputError, Provider

LONGEST = 256
"""The limit of a recipient's id."""


@dataclass(frozen=True)
class InappOptions:
    """``stop_when_read``: reading a copy stops the unsent ones of the same event on other channels.

    Always, or for the event types named; ``order.*`` names all that begin so. An event may say otherwise.
    """

    stop_when_read: bool | tuple[str, ...] = False


class Inapp(Provider):
    """Stored when it is due; the recipient's id is the address."""

    name = "inapp"
    title = "In-app"
    stored = True
    features = Features(html=True, data=True)
    in_doubt = InDoubt.RESEND
    second_send = "impossible: it is stored once"
    Options = InappOptions

    def stops_others(self, event_type: str) -> bool:
        """As it is set."""
        types = self.options.stop_when_read
        return types if isinstance(types, bool) else any(fnmatchcase(event_type, one) for one in types)

    def address(self, value: object) -> str:
        """The recipient's id, for ``to``. Raises InputError."""
        recipient = super().address(value)
        if len(recipient) > LONGEST:
            raise InputError(f"a recipient's id has 1 to {LONGEST} characters", field="address")
        return recipient
