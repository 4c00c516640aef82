"""Rows of the tables as the dataclasses of ``ports``, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.journal import client_reference
from ringonce.core.lane import WAY, parse
from ringonce.model.notification import Address, Content, LastError, Spent, State, Status
from ringonce.ports import AttemptRow, Due, Lease, OutboxRow, Row
from ringonce.store.schema import addresses, attempts, contents, dispatch, events, notifications, outbox
from ringonce.store.values import PRIORITIES, dump_numbers, load, load_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

_n, _e, _a, _d = notifications.c, events.c, addresses.c, dispatch.c

FACTS: tuple[sa.Column[Any], ...] = (
    *(_n.id, _n.tenant, _e.event_id, _e.type, _n.recipient, _n.channel, _n.account),
    *(_e.subject, _e.thread, _e.priority, _e.collapse, _n.created_at, _n.read_at),
    *(_a.id, _a.recipient, _a.value, _a.registered_at, _a.invalidated_at, _a.reason),
    *(_n.status, _n.version, _n.revision, _n.attempts),
    *(_n.spent_base, _n.spent_transient, _n.spent_rate_limited, _n.spent_unknown),
    *(_n.unknown, _n.next_attempt_at, _n.error_code, _n.error_provider_code, _n.error_text),
    *(_n.message_id, _n.rests_on, _n.expires_at),
)
"""What a Row is made of, the dispatch row apart."""

OF_EVENT = sa.and_(_e.created_at == _n.event_at, _e.key == _n.event_key)
"""The event of a notification. By its key alone it may be anywhere in an index; with the time, among its neighbours."""

FACTS_FROM = notifications.outerjoin(events, OF_EVENT).outerjoin(addresses, _a.id == _n.address_id)
"""Outer joins, although each has an event: PostgreSQL takes two conditions together for rarer than they are."""

DISPATCH: tuple[sa.Column[Any], ...] = (
    *(_d.id, _d.lane, _d.priority, _d.due_at, _d.purpose, _d.armed, _d.leased, _d.started_at, _d.owner),
    *(_d.fence, _d.attempt, _d.version, _d.rescued, _d.expires_at, _d.created_at, _d.subject_key),
    _d.collapse_key,
)

STATE = tuple(column.name for column in FACTS[19:])
"""The columns that a step writes."""

ATTEMPT = tuple(column.name for column in attempts.c)


@dataclass(slots=True)
class Dispatch:
    """One row of ``dispatch``, changed in memory while a batch is decided. The order is that of DISPATCH."""

    id: UUID
    lane: str
    priority: int
    due_at: int | None
    purpose: str
    armed: bool
    leased: bool
    started_at: int | None
    owner: str | None
    fence: int
    attempt: int
    version: int
    rescued: int
    expires_at: int | None
    created_at: int
    """Since when its age counts: when its revision was due first, not when it was accepted."""
    subject_key: bytes | None
    collapse_key: bytes | None

    def held_by(self, guard: tuple[str, int] | None) -> bool:
        """Is this (owner, fence) the lease that stands?"""
        return self.leased and guard is not None and (self.owner, self.fence) == guard

    def free(self, purpose: str, at: int | None, *, armed: bool = True) -> None:
        """End the lease, if any; due again at ``at``."""
        self.purpose, self.due_at, self.armed = purpose, at, armed
        self.leased, self.started_at, self.owner, self.fence = False, None, None, 0

    def tuple(self) -> tuple[Any, ...]:
        """The values in the order of DISPATCH."""
        return (
            *(self.id, self.lane, self.priority, self.due_at, self.purpose, self.armed, self.leased),
            *(self.started_at, self.owner, self.fence, self.attempt, self.version, self.rescued),
            *(self.expires_at, self.created_at, self.subject_key, self.collapse_key),
        )


def make_row(facts: Sequence[Any], dispatched: Dispatch | None) -> Row:
    """A Row of the values of FACTS and its dispatch row."""
    # fmt: off
    (id_, tenant, event_id, type_, recipient, channel, account, subject, thread, priority, collapse, created_at,
     read_at, a_id, a_recipient, a_value, a_registered, a_invalidated, a_reason,
     status, version, revision, attempts_, base, transient, rate_limited, spent_unknown,
     unknown, next_attempt_at, error, provider_code, text, message_id, rests_on, expires_at) = facts
    # fmt: on
    started = dispatched is not None and dispatched.started_at is not None
    lease = None
    if dispatched is not None and dispatched.leased:
        number = dispatched.attempt
        lease = Lease(
            dispatched.owner or "", dispatched.fence, dispatched.due_at or 0, number, dispatched.started_at
        )
    address = None
    if a_id is not None:
        address = Address(a_id, tenant, a_recipient, channel, a_value, a_registered, a_invalidated, a_reason)
    state = State(
        status=Status(status),
        version=version,
        revision=revision,
        attempts=attempts_,
        spent=Spent(base, transient, rate_limited, spent_unknown),
        unknown=load_numbers(unknown),
        open=started,
        next_attempt_at=next_attempt_at,
        last_error=None if error is None else LastError(error, provider_code, text or ""),
        message_id=message_id,
        rests_on=rests_on,
        expires_at=expires_at,
    )
    return Row(
        id=id_,
        tenant=tenant,
        event_id=event_id,
        event_type=type_,
        recipient=recipient,
        channel=channel,
        account=account,
        address=address,
        subject=subject,
        thread=thread,
        priority=priority,
        collapse=collapse,
        created_at=created_at,
        state=state,
        lease=lease,
        rescued=dispatched.rescued if dispatched else 0,
        read_at=read_at,
    )


def state_values(state: State) -> tuple[Any, ...]:
    """The values of STATE."""
    error = state.last_error
    return (
        *(state.status.value, state.version, state.revision, state.attempts),
        *(state.spent.base, state.spent.transient, state.spent.rate_limited, state.spent.unknown),
        *(dump_numbers(state.unknown), state.next_attempt_at),
        *((error.code, error.provider_code, error.text) if error else (None, None, None)),
        *(state.message_id, state.rests_on, state.expires_at),
    )


def attempt_values(id_: UUID, row: AttemptRow) -> tuple[Any, ...]:
    """The values of ATTEMPT."""
    return (
        *(id_, row.number, row.revision, row.fence, row.account, row.started_at, row.ended_at, row.outcome),
        *(row.code, row.provider_code, row.reference, row.message_id, row.answer, row.rule, row.late),
        row.outcome == "unknown",
    )


def make_attempt(values: Sequence[Any]) -> AttemptRow:
    """Read the columns ATTEMPT."""
    return AttemptRow(*values[1:-1])


def unanswered(row: Row, desk: Dispatch, rule: str) -> AttemptRow:
    """The attempt that stands open in ``desk``, as one whose end nobody knows; ``rule`` says why."""
    return AttemptRow(
        number=desk.attempt,
        revision=row.state.revision,
        fence=desk.fence,
        account=row.account if WAY not in desk.lane else parse(desk.lane).channel,
        started_at=desk.started_at or 0,
        ended_at=None,
        outcome="unknown",
        reference=client_reference(row.id, row.state.revision),
        rule=rule,
    )


def make_desk(
    row: Row, state: State, last_attempt: int, since: int, keys: tuple[bytes | None, bytes | None]
) -> Dispatch:
    """A dispatch row of a notification that has none. ``keys``: of its subject, and of its collapse."""
    return Dispatch(
        id=row.id,
        lane=row.channel,
        priority=PRIORITIES.get(row.priority, 1),
        due_at=None,
        purpose="send",
        armed=True,
        leased=False,
        started_at=None,
        owner=None,
        fence=0,
        attempt=last_attempt,
        version=state.version,
        rescued=0,
        expires_at=state.expires_at,
        created_at=since,
        subject_key=keys[0],
        collapse_key=keys[1],
    )


def make_due(dispatched: Dispatch | None) -> Due | None:
    """What is due and when. A running lease hides it."""
    if dispatched is None:
        return None
    at = None if dispatched.leased else dispatched.due_at
    return Due(dispatched.purpose, at, dispatched.armed, dispatched.lane)


CONTENT = (contents.c.title, contents.c.text, contents.c.html, contents.c.data)


def make_content(values: Sequence[Any]) -> Content:
    """Read the columns CONTENT."""
    title, text, html, data = values
    return Content(title, text, html, load(data))


OUTBOX = (outbox.c.event_id, outbox.c.kind, outbox.c.key, outbox.c.payload)


def make_outbox(values: Sequence[Any]) -> OutboxRow:
    """Read the columns OUTBOX."""
    event_id, kind, key, payload = values
    return OutboxRow(event_id, kind, key, load(payload))
