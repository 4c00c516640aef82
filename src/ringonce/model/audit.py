"""Terminal failures: what the audit keeps of those of high-priority types, and how many of a kind there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

LONGEST_CODE = 128
"""Characters of ``error_code`` that are kept."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a revision, as far as a step knows it. ``error_code``: the provider's own word, else our ``code``.

    What was said, to whom, and how many calls there were is read where it is written.
    """

    id: UUID
    revision: int
    push_type: str
    error_code: str
    code: str


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of ``notification_failures``. ``driver_id``: the recipient. ``failed_at`` in microseconds UTC.

    ``payload``: what was said, without the address. ``retry_count``: calls that were made to the provider.
    """

    id: UUID
    tenant: str
    notification_id: UUID
    revision: int
    channel: str
    driver_id: str
    push_type: str
    payload: Mapping[str, object]
    error_code: str
    code: str
    retry_count: int
    failed_at: int


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which rows of the audit. None means any; times by ``failed_at``. ``after``: the last row of the page before."""

    tenant: str | None = None
    recipient: str | None = None
    event_type: str | None = None
    channel: str | None = None
    code: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 50
    after: UUID | None = None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Terminal failures that a person's decision treats alike.

    ``doubtful``: an attempt without a verdict may have arrived. ``expired``: their ``expires_at`` has passed.
    """

    channel: str
    code: str
    doubtful: bool
    expired: bool
    count: int
