"""A reply that waits for approval: who answers what, and how it is looked for. Times are microseconds UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from ringonce.model.notification import Content
    from ringonce.model.records import AttemptRow, NewEvent, Row, TimelineEntry


class DraftMode(StrEnum):
    """Who approves: a person, or the mode itself as soon as the draft is saved."""

    MANUAL = "manual"
    AUTO = "auto"


class DraftState(StrEnum):
    """What its reader sees."""

    DRAFT = "draft"
    PENDING = "pending"
    SENT = "sent"
    ERROR = "error"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class NewDraft:
    """A draft to be saved under its key. ``id`` and ``event`` are used if there is none yet: it is one notification."""

    id: UUID
    tenant: str
    channel: str
    key: str
    scenario: str | None
    mode: DraftMode
    event: NewEvent
    content: Content


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft as it stands. ``attempts``: of all its revisions. ``notes``: only where one draft was asked for."""

    key: str
    scenario: str | None
    mode: DraftMode
    created_at: int
    updated_at: int
    row: Row
    content: Content
    attempts: tuple[AttemptRow, ...] = ()
    notes: tuple[TimelineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftQuery:
    """A search, newest first. None, or no state, means any. ``id``, ``ids`` and ``after`` are notifications."""

    tenant: str | None = None
    channel: str | None = None
    key: str | None = None
    scenario: str | None = None
    states: tuple[DraftState, ...] = ()
    id: UUID | None = None
    limit: int = 50
    after: UUID | None = None
    whole: bool = False
    """With the notes."""
    ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """What a PUT led to. ``skipped``: the answer is published already, and the mode ``auto`` leaves it alone."""

    draft: Draft
    created: bool = False
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class DraftModes:
    """Who approves by configuration: the mode of a scenario, else ``mode``. ``channel``: where a new draft goes."""

    mode: DraftMode = DraftMode.MANUAL
    scenarios: Mapping[str, DraftMode] = field(default_factory=dict)
    channel: str | None = None
