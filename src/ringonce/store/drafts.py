"""Drafts: which notification is the answer to what. One for each (tenant, channel, key), made under the key's lock.

A draft's facts are its notification's, and change by the transition table alone. What this table adds is the key, the
mode and the scenario. The text is replaced only under the lock of the notification, in the transaction of the step
that allowed it: a worker that claimed the row before finds another version when it marks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.model.draft import Draft, DraftMode, DraftQuery, DraftState
from ringonce.model.notification import Status
from ringonce.model.transition import Regenerated
from ringonce.ports import Change, TimelineEntry
from ringonce.store.backend import AgainError
from ringonce.store.rows import (
    CONTENT,
    DISPATCH,
    FACTS,
    FACTS_FROM,
    Dispatch,
    make_attempt,
    make_content,
    make_row,
)
from ringonce.store.schema import WAITING, attempts, contents, dispatch, drafts, notifications, timeline
from ringonce.store.values import clean, dated, digest, dump, load

if TYPE_CHECKING:
    from uuid import UUID

    from ringonce.model.draft import NewDraft
    from ringonce.ports import Decide, Planner, Renew, Settled
    from ringonce.store.backend import Backend
    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties
    from ringonce.store.intake import Intake
    from ringonce.store.settle import Settler

_n, _f, _c, _a, _t = notifications.c, drafts.c, contents.c, attempts.c, timeline.c
_OWN = (_f.name, _f.scenario, _f.mode, _f.created_at, _f.updated_at)
_FROM = (
    FACTS_FROM.join(drafts, _f.notification_id == _n.id)
    .outerjoin(dispatch, dispatch.c.id == _n.id)
    .outerjoin(contents, _c.id == _n.content_id)
)
_WAITS = sa.and_(_n.status == "failed", _n.next_attempt_at.is_not(None))
_OVER = sa.and_(_n.status == "failed", _n.next_attempt_at.is_(None))
STATES: dict[DraftState, sa.ColumnElement[bool]] = {
    DraftState.DRAFT: _n.status == "draft",
    DraftState.PENDING: sa.or_(_n.status.in_(["pending", "in_doubt"]), _WAITS),
    DraftState.SENT: _n.status == "sent",
    DraftState.ERROR: sa.or_(_n.status.in_(["suppressed", "merged", "expired"]), _OVER),
    DraftState.REJECTED: _n.status == "cancelled",
}
"""What its reader sees, by the notification's columns (``core.drafts.state_of``)."""


class Drafts:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, duties: Duties, intake: Intake, settler: Settler) -> None:
        self._duties = duties
        self._intake = intake
        self._settler = settler
        self._listed = dialect.listed
        self._among = dialect.among(_f.notification_id, "b_ids")
        key = _f.key == sa.bindparam("b_key", type_=_f.key.type)
        columns = ("key", "tenant", "channel", "name", "notification_id", "scenario", "mode")
        at = sa.bindparam("b_at", type_=sa.BigInteger)
        values = {name: sa.bindparam(f"b_{name}", type_=_f[name].type) for name in columns}
        waiting = sa.bindparam("b_waiting", type_=sa.Boolean)
        new = dialect.insert(drafts).values(
            values | {"created_at": at, "updated_at": at, "waiting": sa.true()}
        )
        self._new = new.on_conflict_do_nothing(index_elements=["key"]).returning(_f.key)
        self._lock = sa.select(_f.notification_id).where(key).with_for_update()
        self._change = (
            sa.update(drafts)
            .where(key)
            .values(
                {name: values[name] for name in ("notification_id", "scenario", "mode")}
                | {"updated_at": at, "waiting": waiting}
            )
        )
        self._decided = (
            sa.update(drafts)
            .where(_f.notification_id == sa.bindparam("b_id", type_=sa.Uuid))
            .values(waiting=waiting)
        )
        self._one = sa.select(*FACTS, *DISPATCH, *CONTENT, *_OWN).select_from(_FROM)
        self._attempts = (
            sa.select(attempts)
            .where(dialect.among(_a.notification_id, "ids"))
            .order_by(_a.notification_id, _a.number)
        )
        self._notes = (
            sa.select(_t.notification_id, _t.at, _t.kind, _t.detail)
            .where(dialect.among(_t.notification_id, "ids"))
            .order_by(_t.id)
        )
        id_ = sa.bindparam("b_id", type_=sa.Uuid)
        self._said = sa.select(_n.content_id).where(_n.id == id_)
        said = {
            name: sa.bindparam(f"b_{name}", type_=_c[name].type) for name in ("title", "text", "html", "data")
        }
        content = sa.bindparam("b_content", type_=_c.id.type)
        self._content = sa.insert(contents).values(said | {"id": content, "created_at": at})
        self._say = sa.update(notifications).where(_n.id == id_).values(content_id=content)
        self._unsay = sa.delete(contents).where(_c.id == content)

    # --- saving ---------------------------------------------------------------------------------------------------

    def put(
        self, c: sa.Connection, new: NewDraft, plan: Planner, decide: Decide, renew: Renew, now: int | None
    ) -> tuple[Draft, list[Settled]]:
        """Make the draft of a key, or renew the one that there is; what ``renew`` asks for, and what came of it."""
        time = self._duties.time(c, now)
        key = digest(clean(new.tenant), clean(new.channel), clean(new.key))
        own = {
            "b_key": key,
            "b_tenant": new.tenant,
            "b_channel": new.channel,
            "b_name": new.key,
            "b_notification_id": new.id,
            "b_scenario": new.scenario,
            "b_mode": new.mode.value,
            "b_at": time,
        }
        id_ = new.id
        if c.execute(self._new, own).first() is None:
            known: UUID | None = c.execute(self._lock, {"b_key": key}).scalar_one_or_none()
            if known is None:
                raise AgainError(f"draft {new.key} was pruned while it was looked for")
            id_ = known
        else:
            self._intake.accept(c, [new.event], plan, decide, now)
        locked, at = self._settler.lock(c, [id_], now)
        if id_ not in locked:
            raise AgainError(f"draft {new.key} was pruned while it was looked for")
        (draft,) = self.find(c, DraftQuery(id=id_))
        changes = [Change(id_, event) for event in renew(draft, at)]
        settled = self._settler.apply(c, locked, changes, decide, at)
        done = [one for one in settled if one.write is not None and one.write.changed]
        for one in done:
            if isinstance(one.change.event, Regenerated) and one.write is not None:
                self._replace(c, id_, one.write.state.version, new, at)
        if done:
            waits = locked[id_].state.status is Status.DRAFT
            c.execute(self._change, own | {"b_notification_id": id_, "b_at": at, "b_waiting": waits})
        return self.find(c, DraftQuery(id=id_, whole=True))[0], settled

    def change(
        self, c: sa.Connection, change: Change, decide: Decide, now: int | None
    ) -> tuple[Settled, ...]:
        """A person's decision, and whether the draft still waits for one."""
        locked, at = self._settler.lock(c, [change.id], now)
        settled = self._settler.apply(c, locked, [change], decide, at)
        for id_, item in locked.items():
            waits = item.state.status is Status.DRAFT
            c.execute(self._decided, {"b_id": id_, "b_waiting": waits})
        return tuple(settled)

    def _replace(self, c: sa.Connection, id_: UUID, version: int, new: NewDraft, at: int) -> None:
        """Another text. Contents never change, so it is another row; the old one is nobody else's."""
        before = c.execute(self._said, {"b_id": id_}).scalar_one()
        content = dated(at, digest(str(id_), str(version)))
        said = new.content
        text = {"b_title": said.title, "b_text": said.text, "b_html": said.html, "b_data": dump(said.data)}
        c.execute(self._content, text | {"b_content": content, "b_at": at})
        c.execute(self._say, {"b_id": id_, "b_content": content})
        c.execute(self._unsay, {"b_content": before})

    # --- reading --------------------------------------------------------------------------------------------------

    def find(self, c: sa.Connection, query: DraftQuery) -> list[Draft]:
        """Newest first."""
        statement = self._one
        equal: dict[Any, Any] = {
            _f.tenant: query.tenant,
            _f.channel: query.channel,
            _f.name: query.key,
            _f.scenario: query.scenario,
            _f.notification_id: query.id,
        }
        for column, value in equal.items():
            if value is not None:
                statement = statement.where(column == value)
        if query.ids:
            statement = statement.where(self._among)
        if query.states == (DraftState.DRAFT,):
            statement = statement.where(WAITING)  # few among many that are published
        if query.states:
            statement = statement.where(sa.or_(*(STATES[state] for state in query.states)))
        if query.after is not None:
            edge = sa.select(_f.created_at).where(_f.notification_id == query.after).scalar_subquery()
            older = sa.and_(_f.created_at == edge, _f.notification_id < query.after)
            statement = statement.where(sa.or_(_f.created_at < edge, older))
        page = sa.literal_column(str(int(query.limit)), sa.Integer)
        ordered = statement.order_by(_f.created_at.desc(), _f.notification_id.desc()).limit(page)
        found = c.execute(ordered, {"b_ids": self._listed(query.ids)} if query.ids else {}).all()
        listed = {"ids": self._listed([values[0] for values in found])}
        calls, notes = defaultdict(list), defaultdict(list)
        if found:
            for values in c.execute(self._attempts, listed):
                calls[values[0]].append(make_attempt(values))
            for id_, at, kind, detail in c.execute(self._notes, listed) if query.whole else ():
                notes[id_].append(TimelineEntry(at, kind, load(detail)))
        return [_draft(values, tuple(calls[values[0]]), tuple(notes[values[0]])) for values in found]


def _draft(values: Any, calls: tuple[Any, ...], notes: tuple[TimelineEntry, ...]) -> Draft:
    facts, rest = values[: len(FACTS)], values[len(FACTS) :]
    desk, rest = rest[: len(DISPATCH)], rest[len(DISPATCH) :]
    said, own = rest[: len(CONTENT)], rest[len(CONTENT) :]
    name, scenario, mode, created_at, updated_at = own
    row = make_row(facts, None if desk[0] is None else Dispatch(*desk))
    content = make_content(said if said[-1] is not None else (None, None, None, "{}"))
    return Draft(name, scenario, DraftMode(mode), created_at, updated_at, row, content, calls, notes)


class DraftTable:
    """A part of ``SqlStore``."""

    backend: Backend
    _drafts: Drafts

    async def put_draft(
        self, new: NewDraft, plan: Planner, decide: Decide, renew: Renew, *, now: int | None = None
    ) -> tuple[Draft, list[Settled]]:
        """Save a draft under its key."""
        at = self.backend.clock(now)
        return await self.backend.run(lambda c: self._drafts.put(c, new, plan, decide, renew, at))

    async def change_draft(self, change: Change, decide: Decide, *, now: int | None = None) -> Settled:
        """Apply a person's decision."""
        at = self.backend.clock(now)
        (settled,) = await self.backend.run(lambda c: self._drafts.change(c, change, decide, at))
        return settled

    async def drafts(self, query: DraftQuery) -> list[Draft]:
        """Newest first."""
        return await self.backend.run(lambda c: self._drafts.find(c, query), write=False)
