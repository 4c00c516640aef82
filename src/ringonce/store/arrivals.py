"""An event as the tables hold it: its recipients in order, its row, and what is answered of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.journal import recipient_key
from ringonce.model.event import Recipient
from ringonce.model.notification import State, Status
from ringonce.model.quick import quick
from ringonce.ports import Brief
from ringonce.store.schema import notifications
from ringonce.store.values import clean, digest, is_unicode

if TYPE_CHECKING:
    from uuid import UUID

    from ringonce.model.event import Event
    from ringonce.ports import NewEvent

EVENT = (
    *("key", "tenant", "event_id", "type", "subject", "subject_key", "thread", "priority", "collapse"),
    *("body_hash", "body", "total", "cursor", "expanded", "created_at"),
)


@quick
@dataclass(frozen=True, slots=True)
class Target:
    """One recipient of an event: a named one, or an address that stands for its recipient."""

    id: str
    recipient: Recipient | None = None
    channel: str = ""
    value: str = ""


@dataclass(slots=True)
class Chunk:
    """Some recipients of one event, being expanded."""

    key: bytes
    event: Event
    accepted_at: int
    targets: list[Target]
    briefs: list[Brief]
    subject_key: bytes | None = None

    def __post_init__(self) -> None:
        """Digest the subject once."""
        self.subject_key = subject_key(self.event)

    def entries(self) -> list[tuple[bytes, Target]]:
        """The journal's key of each recipient."""
        return [(recipient_key(self.key, t.id, direct=t.recipient is None), t) for t in self.targets]

    def collapse_key(self, recipient: str, channel: str) -> bytes | None:
        """What a newer notification replaces this one by."""
        event = self.event
        return None if event.collapse is None else digest(event.tenant, event.collapse, recipient, channel)


def targets(event: Event) -> list[Target]:
    """The recipients of an event in the order that the cursor counts."""
    named = [Target(recipient.id, recipient) for recipient in event.recipients]
    return named + [
        Target(f"{channel}:{value}", None, channel, value) for channel, value in sorted(event.to.items())
    ]


def cleaned(event: Event) -> Event:
    """The event with names and addresses as the tables will hold them, so that what is stored is found again."""
    texts = [event.tenant, *event.to, *event.to.values()]
    for who in event.recipients:
        texts.append(who.id)
        for channel, values in who.addresses.items():
            texts += (channel, *values)
    whole = "".join(texts)
    if "\x00" not in whole and is_unicode(whole):
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


def subject_key(event: Event) -> bytes | None:
    """What a withdrawal names."""
    return None if event.subject is None else digest(event.tenant, event.subject)


def event_values(item: NewEvent, total: int, time: int | None, *, expanded: bool) -> tuple[Any, ...]:
    """The values of EVENT: of an event that is expanded at once, or that a worker will expand."""
    event = item.event
    return (
        *(
            item.key,
            event.tenant,
            event.event_id,
            event.type,
            event.subject,
            subject_key(event),
            event.thread,
        ),
        *(event.priority, event.collapse, item.body_hash, item.body.decode("utf-8", "replace")),
        *(total, total if expanded else 0, expanded, time),
    )


def briefs_where(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """What is answered of an event's notifications, the key of their event first."""
    n = notifications.c
    columns = (n.event_key, n.id, n.recipient, n.channel, n.status, n.next_attempt_at)
    return sa.select(*columns).where(condition).order_by(n.created_at, n.id)


def make_brief(id_: UUID, recipient: str, channel: str, status: str, next_attempt_at: int | None) -> Brief:
    """Read the columns of ``briefs_where``, the key apart."""
    state = State(Status(status), next_attempt_at=next_attempt_at)
    return Brief(id_, recipient, channel, state.status, state.final)
