"""What our own events say."""

from __future__ import annotations

from uuid import UUID

from ringonce.core.outbox import invalidated_row, outbox_row
from ringonce.model.transition import Emit
from tests.core.lives import OK, answered

ID = UUID("0190a7c2-7c1e-7b3a-9d5f-1a2b3c4d5e6f")


def rows(tenant: str = "acme") -> list[object]:
    """The rows of a notification that was accepted at the first call."""
    made = answered(OK)
    return [outbox_row(ID, tenant, "email", e, made.state) for e in made.effects if isinstance(e, Emit)]


def test_dispatched() -> None:
    """A04: keyed by the notification, contract version 1, one stable id for each revision."""
    _, row = rows()
    assert (row.event_id, row.kind, row.key) == (f"{ID}.r1", "notification.dispatched", str(ID))  # type: ignore[attr-defined]
    assert row.payload == {  # type: ignore[attr-defined]
        "specversion": "1.0",
        "id": f"{ID}.r1",
        "type": "notification.dispatched",
        "subject": str(ID),
        "datacontenttype": "application/json",
        "data": {
            "notificationId": str(ID),
            "contractVersion": 1,
            "tenant": "acme",
            "channel": "email",
            "status": "Sent",
            "revision": 1,
            "code": None,
            "assumed": False,
        },
    }


def test_no_tenant_is_null() -> None:
    """The empty tenant is none."""
    assert rows("")[1].payload["data"]["tenant"] is None  # type: ignore[attr-defined]


def test_other_events_have_ids_of_their_own() -> None:
    """A change of status happens once for each version, not once for each revision."""
    assert rows()[0].event_id == f"{ID}.v2"  # type: ignore[attr-defined]


def test_an_address_that_was_dropped() -> None:
    """Told once for each registration, in order with what is told of the same person, and without its value."""
    first = invalidated_row(7, "acme", "ada", "email", 1_000_000, 2_000_000, "moved")
    again = invalidated_row(7, "acme", "ada", "email", 3_000_000, 4_000_000, "removed")
    other = invalidated_row(8, "", "ada", "email", 1_000_000, 2_000_000, "removed")
    assert (first.event_id, again.event_id) == ("address-7.1000000", "address-7.3000000")
    assert first.key == again.key != other.key
    assert first.payload["subject"] == "address-7"
    assert first.payload["data"] == {
        "addressId": 7,
        "contractVersion": 1,
        "tenant": "acme",
        "channel": "email",
        "recipient": "ada",
        "reason": "moved",
        "moved": True,
        "at": "1970-01-01T00:00:02.000000Z",
    }
