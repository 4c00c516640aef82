"""What happened and who should know: the structure of `POST /v1/notifications`, decoded and checked."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - stored events are decoded by these annotations
from dataclasses import dataclass, field

from ringonce.model.notification import Content  # noqa: TC001 - stored events are decoded by these annotations
from ringonce.model.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Recipient:
    """A person or system named in an event. ``addresses`` maps a channel to canonical address texts."""

    id: str
    locale: str | None = None
    timezone: str | None = None
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. Times are microseconds UTC; ``tenant`` is ``''`` for none.

    ``to`` maps a channel to one address of somebody without a recipient record; the address stands for the
    recipient. ``channels`` None means every enabled channel that has an address for the recipient.
    ``stop_when_read``: reading the in-app copy stops what is not yet begun on other channels; None: as the in-app
    channel is set. It must stay the last field: the store finds it at the end of the stored form.
    """

    event_id: str
    type: str = ""
    tenant: str = ""
    recipients: tuple[Recipient, ...] = ()
    to: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[str, ...] | None = None
    content: Content | None = None
    template: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    subject: str | None = None
    thread: str | None = None
    mentions: tuple[str, ...] = ()
    priority: str = "normal"
    collapse: str | None = None
    occurred_at: int | None = None
    send_at: int | None = None
    expires_at: int | None = None
    stop_when_read: bool | None = None
