"""What no worker reports: lost leases, rows past their end, holds that are over, withdrawn subjects.

Each finds its candidates without a lock; they are locked in the order of settle (notifications first, by id) and
looked at again, so that two sweepers and a worker wait for each other at most, never in a circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.core.lane import parse
from ringonce.model.transition import Cancel, Expire, LeaseLost, Resolve, Verdict
from ringonce.ports import Change, Settled
from ringonce.store.rows import unanswered
from ringonce.store.schema import (
    APART,
    FREE,
    HOLD,
    LEASED,
    Words,
    cancellations,
    dispatch,
    events,
    notifications,
)
from ringonce.store.values import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from ringonce.ports import Decide
    from ringonce.store.dialect import Dialect
    from ringonce.store.lots import Lots
    from ringonce.store.settle import Locked, Settler

CRASHES = 5
"""So many lost leases in a row and the notification itself is suspected."""


class Sweeps:
    """Statements that look for candidates, built once."""

    def __init__(self, dialect: Dialect, settler: Settler, lots: Lots) -> None:
        self._settler = settler
        self._lots = lots
        now, insert = dialect.now, dialect.insert
        d, n, e = dispatch.c, notifications.c, events.c
        limit = sa.bindparam("b_limit", type_=sa.BigInteger)
        self._listed = dialect.listed
        # Rows that could not be moved on a moment ago are the oldest: they would hold up all behind them.
        fresh = sa.not_(dialect.among(d.id, "stuck"))
        self._lost = sa.select(d.id).where(LEASED, d.due_at <= now, fresh).order_by(d.due_at).limit(limit)
        self._expired = (
            sa.select(d.id)
            .where(FREE, d.expires_at.is_not(None), d.expires_at <= now, fresh)
            .order_by(d.expires_at)
            .limit(limit)
        )
        held = sa.and_(APART, FREE, HOLD, d.due_at <= now, fresh)
        self._held = sa.select(d.id).where(held).order_by(d.due_at).limit(limit)
        # One lane at a time: over a join with all of them the planner hopes to find old rows soon, and reads
        # the whole table (2,011 pages, where the ordered index needs 3).
        lane, age = sa.bindparam("b_lane", type_=Words), sa.bindparam("b_age", type_=sa.BigInteger)
        self._old = (
            sa.select(d.id)
            .where(d.lane == lane, FREE, d.created_at <= now - age, fresh)
            .order_by(d.created_at)
            .limit(limit)
        )
        key = sa.bindparam("b_key", type_=cancellations.c.key.type)
        new = insert(cancellations).values(
            key=key,
            tenant=sa.bindparam("b_tenant", type_=Words),
            subject=sa.bindparam("b_subject", type_=Words),
            by=sa.bindparam("b_by", type_=Words),
            at=now,
        )
        self._bury = new.on_conflict_do_update(
            index_elements=["key"], set_={"by": new.excluded.by, "at": new.excluded.at}
        )
        # Still open: there is something due. What has no dispatch row and is not final is a draft.
        self._of_subject = (
            sa.select(n.id)
            .select_from(events.join(notifications, n.event_key == e.key))
            .where(
                e.subject_key == key,
                sa.or_(
                    sa.exists().where(d.id == n.id),
                    n.status == "draft",
                ),
            )
            .order_by(n.id)
        )

    # --- lost leases -------------------------------------------------------------------------------------------

    def lost(
        self, connection: sa.Connection, stuck: Sequence[UUID], limit: int, now: int | None
    ) -> list[UUID]:
        """Rows whose lease is over, but those that are ``stuck``."""
        bound = {"stuck": self._listed(stuck), "b_limit": limit, "now": now}
        return list(connection.execute(self._lost, bound).scalars())

    def rescue(
        self, connection: sa.Connection, ids: Sequence[UUID], decide: Decide, now: int | None
    ) -> list[Settled]:
        """Not begun: due again. Begun: nobody knows, and ``decide`` says what follows."""
        locked, time = self._settler.lock(connection, ids, now, skip=True)
        changes = []
        lost: dict[UUID, Locked] = {}
        for id_, item in locked.items():
            desk = item.dispatched
            if desk is None or not desk.leased or (desk.due_at or 0) > time:
                continue
            lost[id_] = item
            too_often = desk.rescued >= CRASHES
            desk.rescued += 1
            if desk.started_at is None:
                desk.free(desk.purpose, time)
                item.moved = True
                continue
            attempt = unanswered(item.row, desk, "lease lost")
            guard = (desk.owner or "", desk.fence)
            changes.append(Change(id_, LeaseLost(desk.attempt, crashed_too_often=too_often), guard, attempt))
        return self._settler.apply(connection, lost, changes, decide, time)

    # --- ends --------------------------------------------------------------------------------------------------

    def overdue(
        self,
        connection: sa.Connection,
        max_age: Mapping[str, int | None],
        stuck: Sequence[UUID],
        limit: int,
        now: int | None,
    ) -> list[UUID]:
        """Rows past ``expires_at``, holds that are over, rows older than their channel's ``max_age``."""
        bound = {"stuck": self._listed(stuck), "b_limit": limit, "now": now}
        ids = dict.fromkeys(connection.execute(self._expired, bound).scalars())
        ids |= dict.fromkeys(connection.execute(self._held, bound).scalars())
        for lane in self._lots.waiting(connection):
            age = max_age.get(parse(lane).channel)
            if age is not None:
                ids |= dict.fromkeys(
                    connection.execute(self._old, bound | {"b_lane": lane, "b_age": age}).scalars()
                )
        return list(ids)[:limit]

    def sweep(
        self,
        connection: sa.Connection,
        ids: Sequence[UUID],
        max_age: Mapping[str, int | None],
        decide: Decide,
        now: int | None,
    ) -> list[Settled]:
        """End them, if under the lock they still are what they seemed."""
        locked, time = self._settler.lock(connection, ids, now, skip=True)
        changes = []
        for id_, item in locked.items():
            desk = item.dispatched
            if desk is None or desk.leased:
                continue
            age = max_age.get(item.row.channel)
            if desk.expires_at is not None and desk.expires_at <= time:
                changes.append(Change(id_, Expire("expires_at")))
            elif desk.purpose == "hold" and desk.due_at is not None and desk.due_at <= time:
                changes.append(Change(id_, Resolve(Verdict.ASSUMED, by="hold_for")))
            elif age is not None and desk.created_at <= time - age:
                changes.append(Change(id_, Expire("max_age")))
        return self._settler.apply(connection, locked, changes, decide, time)

    # --- withdrawn subjects --------------------------------------------------------------------------------------

    def bury(self, connection: sa.Connection, tenant: str, subject: str, by: str, now: int | None) -> None:
        """Write the tombstone."""
        key = digest(tenant, subject)
        parameters = {"b_key": key, "b_tenant": tenant, "b_subject": subject, "b_by": by, "now": now}
        connection.execute(self._bury, parameters)

    def of_subject(self, connection: sa.Connection, tenant: str, subject: str) -> list[UUID]:
        """What is not over of a subject."""
        return list(connection.execute(self._of_subject, {"b_key": digest(tenant, subject)}).scalars())

    def cancel(
        self, connection: sa.Connection, ids: Sequence[UUID], by: str, decide: Decide, now: int | None
    ) -> list[Settled]:
        """Cancel them."""
        locked, time = self._settler.lock(connection, ids, now)
        changes = [Change(id_, Cancel(by or "subject", "subject withdrawn")) for id_ in locked]
        return self._settler.apply(connection, locked, changes, decide, time)
