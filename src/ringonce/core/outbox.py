"""What our own events say: CloudEvents-like records with a stable id, keyed by the notification or the person.

Envelope attributes by CloudEvents 1.0 (section "Required Attributes"); ``time`` and ``source`` are added by the
relay, which knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.core.journal import person_key, spelled
from ringonce.core.stamp import spell_time
from ringonce.core.tally import DISPATCHED
from ringonce.model.proposals import MOVED
from ringonce.model.records import OutboxRow

if TYPE_CHECKING:
    from uuid import UUID

    from ringonce.model.notification import State
    from ringonce.model.transition import Emit

CONTRACT_VERSION: Final = 1
INVALIDATED: Final = "address.invalidated"


def outbox_row(notification: UUID, tenant: str, channel: str, emit: Emit, state: State) -> OutboxRow:
    """The row for one Emit of the table.

    Args:
        notification: Its id is the key: events of one notification stay in order.
        tenant: ``''`` for none, told as null.
        channel: Name of the channel.
        emit: The facts that the table gives.
        state: The state after the step. An end is told once per revision, so its id is ``ID.rREVISION``; anything
            else once per version, ``ID.vVERSION``.
    """
    subject = spelled(notification)
    version = f"r{state.revision}" if emit.kind == DISPATCHED else f"v{state.version}"
    event_id = f"{subject}.{version}"
    data = {
        "notificationId": subject,
        "contractVersion": CONTRACT_VERSION,
        "tenant": tenant or None,
        "channel": channel,
        **emit.data,
    }
    return OutboxRow(event_id, emit.kind, subject, _envelope(event_id, emit.kind, subject, data))


def invalidated_row(
    address: int, tenant: str, recipient: str, channel: str, registered_at: int, at: int, reason: str | None
) -> OutboxRow:
    """The row for an address that was dropped. Its value is not told, for it is personal.

    Args:
        address: Its id.
        tenant: ``''`` for none, told as null.
        recipient: Whose it was. One that was named by ``to`` stands for itself: nobody is told.
        channel: Name of the channel.
        registered_at: Since when it was in use, microseconds UTC. One that is registered again and dropped again is
            another event; so the id is ``address-ID.REGISTERED_AT``.
        at: When it was dropped, microseconds UTC.
        reason: A code, ``moved``, or what a person gave as the reason.
    """
    subject = f"address-{address}"
    event_id = f"{subject}.{registered_at}"
    named = recipient.startswith(f"{channel}:")
    data: dict[str, object] = {
        "addressId": address,
        "contractVersion": CONTRACT_VERSION,
        "tenant": tenant or None,
        "channel": channel,
        "recipient": None if named else recipient,
        "reason": reason,
        "moved": reason == MOVED,
        "at": spell_time(at),
    }
    key = subject if named else person_events(tenant, recipient)
    return OutboxRow(event_id, INVALIDATED, key, _envelope(event_id, INVALIDATED, subject, data))


def person_events(tenant: str, recipient: str) -> str:
    """The key of what is told of a person, by which it stays in order and is found to be erased."""
    return person_key(tenant, recipient).hex()


def _envelope(event_id: str, kind: str, subject: str, data: dict[str, object]) -> dict[str, object]:
    return {
        "specversion": "1.0",
        "id": event_id,
        "type": kind,
        "subject": subject,
        "datacontenttype": "application/json",
        "data": data,
    }
