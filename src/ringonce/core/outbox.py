"""What our own events say: CloudEvents-like records with a stable id, keyed by the notification.

Envelope attributes by CloudEvents 1.0 (section "Required Attributes"); ``time`` and ``source`` are added by the
relay, which knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.core.journal import spelled
from ringonce.core.tally import DISPATCHED
from ringonce.model.records import OutboxRow

if TYPE_CHECKING:
    from uuid import UUID

    from ringonce.model.notification import State
    from ringonce.model.transition import Emit

CONTRACT_VERSION: Final = 1


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
    payload = {
        "specversion": "1.0",
        "id": event_id,
        "type": emit.kind,
        "subject": subject,
        "datacontenttype": "application/json",
        "data": data,
    }
    return OutboxRow(event_id, emit.kind, subject, payload)
