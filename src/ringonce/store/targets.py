"""Whom an event names, as the tables will hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringonce.model.event import Recipient
from ringonce.store.values import clean

if TYPE_CHECKING:
    from ringonce.model.event import Event


@dataclass(frozen=True, slots=True)
class Target:
    """One recipient of an event: a named one, or an address that stands for its recipient."""

    id: str
    recipient: Recipient | None = None
    channel: str = ""
    value: str = ""


def targets(event: Event) -> list[Target]:
    """The recipients of an event in the order that the cursor counts."""
    named = [Target(recipient.id, recipient) for recipient in event.recipients]
    return named + [
        Target(f"{channel}:{value}", None, channel, value) for channel, value in sorted(event.to.items())
    ]


def cleaned(event: Event) -> Event:
    """The event with names and addresses as the tables will hold them, so that what is stored is found again."""
    names = [event.tenant, *event.to, *event.to.values(), *(who.id for who in event.recipients)]
    if all(clean(name) == name for name in names) and not any(who.addresses for who in event.recipients):
        return event
    people = tuple(
        Recipient(
            clean(who.id),
            who.locale,
            who.timezone,
            {clean(channel): tuple(map(clean, values)) for channel, values in who.addresses.items()},
        )
        for who in event.recipients
    )
    to = {clean(channel): clean(value) for channel, value in event.to.items()}
    return replace(event, tenant=clean(event.tenant), recipients=people, to=to)
