"""What the API needs of the program behind it; ``ringonce.app.Ringonce`` is that."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ringonce.engine.failing import Outlook, Verdicts
from ringonce.engine.inbox import InboxPage, Stream
from ringonce.engine.receipts import Reply
from ringonce.model.audit import AuditRow
from ringonce.model.draft import Draft, DraftMode, DraftState, Saved
from ringonce.model.notification import Address
from ringonce.model.receipt import Callback
from ringonce.ports import Accepted, Backlog, Life, Person, Row, Settled


class Metrics(Protocol):
    """The counters and gauges as text."""

    def exposition(self) -> str:
        """Prometheus's text format."""
        ...


class Ready(Protocol):
    """Whether the database answers."""

    async def overrides(self) -> Mapping[str, Mapping[str, object]]:
        """A small read. Raises StoreError."""
        ...


class Facade(Protocol):
    """See ``ringonce.app.Ringonce``, which says what each method raises."""

    @property
    def telemetry(self) -> Metrics:
        """Counters, gauges."""
        ...

    @property
    def store(self) -> Ready:
        """The database."""
        ...

    async def notify(self, body: bytes | Mapping[str, object], /, *, caller: str | None = None) -> Accepted:
        """Accept one."""
        ...

    async def notify_many(
        self, bodies: Sequence[bytes | Mapping[str, object]], *, caller: str | None = None
    ) -> list[Accepted]:
        """Accept all or none."""
        ...

    async def get(self, id_: UUID, *, tenant: str | None = None) -> Life:
        """Read one."""
        ...

    async def explain(self, id_: UUID, *, tenant: str | None = None) -> list[str]:
        """One in words."""
        ...

    async def search(self, **terms: Any) -> list[Row]:
        """Find."""
        ...

    async def failure_outlook(
        self, *, discard: bool = False, force: bool = False, **terms: Any
    ) -> list[Outlook]:
        """What a decision about terminal failures would do."""
        ...

    async def retry_failures(self, ids: Sequence[UUID] | None = None, **how: Any) -> Verdicts:
        """Send terminal failures again."""
        ...

    async def discard_failures(self, ids: Sequence[UUID] | None = None, **how: Any) -> Verdicts:
        """Let terminal failures be."""
        ...

    async def failure_audit(self, **terms: Any) -> list[AuditRow]:
        """The failure audit."""
        ...

    async def report(
        self,
        *,
        tenant: str | None = None,
        channel: str | None = None,
        since: int | None = None,
        until: int | None = None,
        by: Sequence[str] = (),
    ) -> list[Mapping[str, object]]:
        """The once report."""
        ...

    async def backlog(self) -> list[Backlog]:
        """What is left."""
        ...

    async def cancel(self, id_: UUID, *, by: str = "", tenant: str | None = None) -> Settled:
        """Stop one."""
        ...

    async def retry(
        self, id_: UUID, *, by: str = "", force: bool = False, tenant: str | None = None
    ) -> Settled:
        """Send one again."""
        ...

    async def resolve(self, id_: UUID, verdict: str, *, by: str = "", tenant: str | None = None) -> Settled:
        """Decide a doubt."""
        ...

    async def cancel_subject(self, subject: str, *, tenant: str = "", by: str = "") -> list[Settled]:
        """Withdraw a subject."""
        ...

    async def channels(self) -> list[dict[str, object]]:
        """All channels."""
        ...

    async def change_channel(self, name: str, changes: Mapping[str, object]) -> None:
        """Change one."""
        ...

    async def enable(self, name: str, *, scope: str | None = None) -> None:
        """Let one go on, or a part of it."""
        ...

    async def recipient(self, recipient: str, *, tenant: str = "") -> Person:
        """A recipient's record."""
        ...

    async def set_recipient(
        self, recipient: str, changes: Mapping[str, str | None] | None = None, *, tenant: str = ""
    ) -> Person:
        """Make or change it."""
        ...

    async def erase(self, recipient: str, *, tenant: str = "", by: str = "") -> int:
        """Forget a person."""
        ...

    async def register(self, recipient: str, channel: str, address: object, *, tenant: str = "") -> Address:
        """Register an address."""
        ...

    async def addresses(
        self, recipient: str, channel: str | None = None, *, tenant: str = "", invalidated: bool = False
    ) -> list[Address]:
        """Where a recipient is reached."""
        ...

    async def set_addresses(
        self, recipient: str, addresses: Mapping[str, Sequence[object]], *, tenant: str = ""
    ) -> list[Address]:
        """Replace the addresses of the channels that are named."""
        ...

    async def invalidate(
        self, recipient: str, channel: str, address: object, *, tenant: str = "", reason: str = ""
    ) -> int:
        """Drop an address."""
        ...

    async def quarantined(
        self, channel: str | None = None, *, after: int = 0, limit: int = 100
    ) -> list[Address]:
        """Addresses about which a person has to decide."""
        ...

    async def release_quarantined(self, channel: str) -> int:
        """They stay."""
        ...

    async def drop_quarantined(self, channel: str) -> int:
        """They are dropped."""
        ...

    async def inbox(
        self,
        recipient: str,
        *,
        tenant: str = "",
        unread: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> InboxPage:
        """In-app copies."""
        ...

    async def unread(self, recipient: str, *, tenant: str = "") -> int:
        """How many are unread."""
        ...

    async def mark_read(
        self,
        recipient: str,
        ids: Sequence[UUID] | None = None,
        *,
        up_to: UUID | int | None = None,
        tenant: str = "",
    ) -> int:
        """Mark them as read."""
        ...

    async def draft(self, key: str, *, channel: str | None = None, tenant: str = "") -> Draft:
        """A draft with its history."""
        ...

    async def drafts(
        self,
        *,
        states: Sequence[DraftState | str] = (),
        channel: str | None = None,
        scenario: str | None = None,
        tenant: str | None = None,
        limit: int = 50,
        after: UUID | None = None,
    ) -> list[Draft]:
        """Drafts, newest first."""
        ...

    async def put_draft(
        self,
        key: str,
        text: str | None = None,
        *,
        channel: str | None = None,
        content: Mapping[str, object] | None = None,
        to: object = None,
        scenario: str | None = None,
        mode: DraftMode | str | None = None,
        subject: str | None = None,
        version: int | None = None,
        by: str = "",
        tenant: str = "",
    ) -> Saved:
        """Save a text under a key."""
        ...

    async def send_draft(
        self,
        key: str,
        *,
        channel: str | None = None,
        version: int | None = None,
        by: str = "",
        tenant: str = "",
    ) -> Draft:
        """Approve one."""
        ...

    async def reject_draft(
        self,
        key: str,
        *,
        channel: str | None = None,
        reason: str = "",
        version: int | None = None,
        by: str = "",
        tenant: str = "",
    ) -> Draft:
        """Put one aside."""
        ...

    async def receive(self, channel: str, callback: Callback) -> Reply:
        """What a provider's callback reports."""
        ...

    def stream(self, recipient: str, *, tenant: str = "", after: int | None = None) -> Stream:
        """Copies as they come."""
        ...
