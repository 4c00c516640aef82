"""Messages and addresses for the tests of providers."""

from collections.abc import Mapping
from uuid import UUID

from ringonce.provider import Address, Content, Context, Message

ID = UUID("018f2f6e-1111-7222-8333-444455556666")
CREATED = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
NOW = CREATED + 90_500_000


def content(
    text: str | None = "It is on its way.",
    title: str | None = None,
    html: str | None = None,
    data: Mapping[str, object] | None = None,
) -> Content:
    """What is said."""
    return Content(title=title, text=text, html=html, data=data or {})


def message(
    said: Content | None = None,
    *,
    attempt: int = 1,
    reference: str = str(ID),
    event_type: str = "order.shipped",
    priority: str = "normal",
    collapse: str | None = None,
    expires_at: int | None = None,
    replaces: bool = False,
) -> Message:
    """Attempt number ``attempt`` of a notification."""
    return Message(
        id=ID,
        reference=reference,
        revision=1,
        attempt=attempt,
        content=said or content(),
        event_id="order-42",
        event_type=event_type,
        tenant="acme",
        recipient="user-1",
        created_at=CREATED,
        priority=priority,
        collapse=collapse,
        expires_at=expires_at,
        replaces=replaces,
    )


def address(value: str) -> Address:
    """A registered address."""
    return Address(id=1, tenant="acme", recipient="user-1", channel="c", value=value, registered_at=0)


def context(now: int = NOW, timeout: float = 15.0) -> Context:
    """The moment of the attempt."""
    return Context(now=now, timeout=timeout)
