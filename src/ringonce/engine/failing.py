"""What failed for good, and what a person decides about it: this part of the library's face."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ringonce.engine.drafts import TYPE, keyed
from ringonce.engine.settle import report
from ringonce.errors import InputError, NotFoundError
from ringonce.model.audit import AuditQuery
from ringonce.model.draft import DraftQuery
from ringonce.model.notification import Status
from ringonce.model.transition import Discard, Refusal, Retry
from ringonce.ports import Change, Query, Write

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.engine import Engine
    from ringonce.model.audit import AuditRow
    from ringonce.ports import Decide, Row

MOST = 500
"""Notifications that are decided in one transaction."""
UNKNOWN = Refusal(NotFoundError.code, "no such notification")
MOVED_ON = Refusal("conflict", "it is no terminal failure any more")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Terminal failures that are alike, and what would become of them; ``refused`` None: as asked."""

    channel: str
    code: str
    count: int
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class Decided:
    """One of them. ``refused`` None: what was asked is done, or with ``dry_run`` would be."""

    id: UUID
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One batch. ``next``: where the following one begins (``after``); None: that was the last."""

    results: tuple[Decided, ...]
    next: UUID | None = None


class Failing:
    """Mixed into ``ringonce.Ringonce``. Every method raises StoreError when the database can not be used."""

    engine: Engine

    async def failure_audit(self, /, **terms: Any) -> list[AuditRow]:
        """Rows of the failure audit, newest first; the terms are the fields of ``model.audit.AuditQuery``."""
        return await self.engine.store.failure_audit(AuditQuery(**terms))

    async def failure_outlook(
        self, /, *, discard: bool = False, force: bool = False, **terms: Any
    ) -> list[Outlook]:
        """What a retry (or ``discard``) of all terminal failures that the terms of ``Query`` select would do.

        Counted by channel, code and why it would be refused; nothing is changed.
        """
        event = Discard("") if discard else Retry("", force=force)
        now = await self.engine.store.now()
        counts = await self.engine.store.failure_counts(Query(**terms))
        return [
            Outlook(one.channel, one.code, one.count, self.engine.decide.foresee(one, event, now))
            for one in counts
        ]

    async def retry_failures(
        self,
        /,
        ids: Sequence[UUID] | None = None,
        *,
        by: str = "library",
        force: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        limit: int = 100,
        after: UUID | None = None,
        **terms: Any,
    ) -> Verdicts:
        """Send terminal failures again in one transaction: these, or the next ``limit`` that the terms select.

        Go on with ``after=verdicts.next`` while that is not None. What is sent again is a terminal failure no more, so
        a walk that was broken off may also begin anew. Of ids, those in doubt may be meant too. Raises InputError.
        """
        event = Retry(by, force=force)
        return await self._decide(event, ids, tenant, limit, after, dry_run=dry_run, **terms)

    async def discard_failures(
        self,
        /,
        ids: Sequence[UUID] | None = None,
        *,
        by: str = "library",
        reason: str = "",
        dry_run: bool = False,
        tenant: str | None = None,
        limit: int = 100,
        after: UUID | None = None,
        **terms: Any,
    ) -> Verdicts:
        """Let terminal failures be: they become cancelled, and their timeline says by whom. See ``retry_failures``."""
        event = Discard(by, reason)
        return await self._decide(event, ids, tenant, limit, after, dry_run=dry_run, **terms)

    async def _decide(
        self,
        event: Retry | Discard,
        ids: Sequence[UUID] | None,
        tenant: str | None,
        limit: int,
        after: UUID | None,
        *,
        dry_run: bool,
        **terms: Any,
    ) -> Verdicts:
        if not 0 < limit <= MOST or (ids is not None and not 0 < len(ids) <= MOST):
            raise InputError(f"1 to {MOST} at a time", field="limit" if ids is None else "ids")
        store, decide = self.engine.store, self.engine.decide
        if ids is None:
            query = Query(terminal_failures=True, tenant=tenant, limit=limit, after=after, **terms)
            rows = await store.search(query)
            wanted, following = [row.id for row in rows], rows[-1].id if len(rows) == limit else None
        else:
            wanted, following = list(dict.fromkeys(ids)), None
            rows = await store.search(Query(ids=tuple(wanted), tenant=tenant, limit=len(wanted)))
        if dry_run:
            now, keys = await store.now(), await self._keys(rows)
            said = {row.id: decide.step(row, _meant(event, row, keys), now).refused for row in rows}
        else:
            said = await self._carry_out(event, rows, only_failures=ids is None)
        return Verdicts(tuple(Decided(id_, said.get(id_, UNKNOWN)) for id_ in wanted), following)

    async def _carry_out(
        self, event: Retry | Discard, rows: Sequence[Row], *, only_failures: bool
    ) -> dict[UUID, Refusal | None]:
        """One transaction; then workers wake up. Who was selected as a failure must still be one."""
        if not rows:
            return {}
        decide: Decide = _of_failures(self.engine.decide) if only_failures else self.engine.decide
        if keys := await self._keys(rows):
            decide = _of_drafts(decide, keys)
        changes = [Change(row.id, _meant(event, row, keys)) for row in rows]
        settled = await self.engine.store.settle(changes, decide)
        report(self.engine.telemetry, *settled)
        said = {
            one.change.id: UNKNOWN if one.row is None or one.write is None else one.write.refused
            for one in settled
        }
        if channels := {row.channel for row in rows if said[row.id] is None}:
            self.engine.notify_workers(channels)
        return said

    async def _keys(self, rows: Sequence[Row]) -> dict[UUID, str]:
        """Those of them that are drafts, and their keys."""
        ids = tuple(row.id for row in rows if row.event_type == TYPE)
        found = await self.engine.store.drafts(DraftQuery(ids=ids, limit=len(ids))) if ids else []
        return {draft.row.id: draft.key for draft in found}


def _meant(event: Retry | Discard, row: Row, drafts: Container[UUID]) -> Retry | Discard:
    """What it means for one of them: a draft that is sent is never sent again, and one that is let be is rejected."""
    if row.id not in drafts:
        return event
    return replace(event, draft=True) if isinstance(event, Discard) else replace(event, reply=True)


def _of_drafts(decide: Decide, keys: Mapping[UUID, str]) -> Decide:
    """``decide``, and our events of a draft tell its key."""

    def told(row: Row, change: Change, lease_held: bool, now: int) -> Write:  # noqa: FBT001 - ports.Decide
        key = keys.get(row.id)
        return (decide if key is None else keyed(decide, key))(row, change, lease_held, now)

    return told


def _of_failures(decide: Decide) -> Decide:
    """``ports.Decide`` that touches terminal failures only, whatever happened since they were looked for."""

    def only(row: Row, change: Change, lease_held: bool, now: int) -> Write:  # noqa: FBT001 - ports.Decide
        if row.state.status is not Status.FAILED or not row.state.final:
            return Write(row.state, changed=False, refused=MOVED_ON)
        return decide(row, change, lease_held, now)

    return only
