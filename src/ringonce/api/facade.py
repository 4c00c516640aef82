"""What the API needs of the program behind it; ``ringonce.app.Ringonce`` is that."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ringonce.ports import Accepted, Backlog, Life, Row, Settled


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

    async def notify(self, body: bytes | Mapping[str, object], /) -> Accepted:
        """Accept one."""
        ...

    async def notify_many(self, bodies: Sequence[bytes | Mapping[str, object]]) -> list[Accepted]:
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
