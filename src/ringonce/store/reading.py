"""Looking without touching: one life, a search, the once report, what is left, the outbox."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.lane import ACCOUNT, SEPARATOR
from ringonce.model.audit import FailureCount
from ringonce.model.notification import State, Status
from ringonce.model.policy import DAY
from ringonce.ports import REFUSED, Backlog, Life, TimelineEntry
from ringonce.store.remains import PRUNED
from ringonce.store.rows import (
    CONTENT,
    DISPATCH,
    FACTS,
    FACTS_FROM,
    OUTBOX,
    Dispatch,
    make_attempt,
    make_content,
    make_due,
    make_outbox,
    make_row,
)
from ringonce.store.schema import (
    FREE,
    LEASED,
    LOOKUP,
    SEND,
    attempts,
    contents,
    counters,
    dispatch,
    events,
    lanes,
    notifications,
    outbox,
    timeline,
)
from ringonce.store.values import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from ringonce.ports import OutboxRow, Query, Row
    from ringonce.store.dialect import Dialect

_n, _d, _e = notifications.c, dispatch.c, events.c
GROUPS = ("tenant", "channel", "day")
TOTALS = (
    *(
        "accepted",
        "sent",
        "assumed",
        "in_doubt",
        "pending",
        "failed",
        "suppressed",
        "merged",
        "cancelled",
        "expired",
    ),
    *("duplicates_refused", "repeats", "late_answers"),
)


class Reading:
    """Statements that change nothing."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        one = sa.bindparam("b_id", type_=sa.Uuid)
        self._row = sa.select(*FACTS, *DISPATCH).select_from(FACTS_FROM.outerjoin(dispatch, _d.id == _n.id))
        self._life = (
            sa.select(*FACTS, *DISPATCH, *CONTENT)
            .select_from(
                FACTS_FROM.outerjoin(dispatch, _d.id == _n.id).outerjoin(
                    contents, contents.c.id == _n.content_id
                )
            )
            .where(_n.id == one)
        )
        self._attempts = (
            sa.select(attempts).where(attempts.c.notification_id == one).order_by(attempts.c.number)
        )
        t = timeline.c
        self._notes = sa.select(t.at, t.kind, t.detail).where(t.notification_id == one).order_by(t.id)
        self._backlog = self._make_backlog(dialect)
        self._unexpanded = sa.select(sa.func.count()).select_from(events).where(sa.not_(_e.expanded))
        self._outbox = sa.select(outbox.c.id, *OUTBOX).order_by(outbox.c.id)

    # --- one life, many rows -----------------------------------------------------------------------------------

    def get(self, connection: sa.Connection, id_: UUID, tenant: str | None) -> Life | None:
        """Everything about one notification."""
        values = connection.execute(self._life, {"b_id": id_}).first()
        if values is None:
            return None
        row, dispatched = _row(values)
        if tenant is not None and row.tenant != tenant:
            return None
        told = connection.execute(self._attempts, {"b_id": id_})
        notes = connection.execute(self._notes, {"b_id": id_})
        return Life(
            row=row,
            content=make_content(values[len(FACTS) + len(DISPATCH) :]),
            attempts=tuple(make_attempt(attempt) for attempt in told),
            notes=tuple(TimelineEntry(at, kind, load(detail)) for at, kind, detail in notes),
            due=make_due(dispatched),
        )

    def search(self, connection: sa.Connection, query: Query) -> list[Row]:
        """Newest first."""
        statement = self._row.where(*_conditions(query))
        if query.after is not None:
            edge = sa.select(_n.created_at).where(_n.id == query.after).scalar_subquery()
            statement = statement.where(
                sa.or_(_n.created_at < edge, sa.and_(_n.created_at == edge, _n.id < query.after))
            )
        # In the text: for a limit that it does not know, the planner makes ready to read a tenth of the table.
        page = sa.literal_column(str(int(query.limit)), sa.Integer)
        ordered = statement.order_by(_n.created_at.desc(), _n.id.desc()).limit(page)
        return [_row(values)[0] for values in connection.execute(ordered)]

    def failure_counts(self, connection: sa.Connection, query: Query, now: int | None) -> list[FailureCount]:
        """How many terminal failures there are of each kind."""
        code = sa.func.coalesce(_n.error_code, "")
        expired = sa.func.coalesce(_n.expires_at <= self._dialect.now, sa.false())
        kinds = (_n.channel, code, _n.unknown != "", expired)
        found = (
            sa.select(*kinds, sa.func.count())
            .select_from(FACTS_FROM)
            .where(*_conditions(replace(query, terminal_failures=True)))
            .group_by(*(sa.literal_column(str(place)) for place in range(1, len(kinds) + 1)))
            .order_by(*(sa.literal_column(str(place)) for place in range(1, len(kinds) + 1)))
        )
        return [
            FailureCount(channel, code, bool(doubt), bool(over), count)
            for channel, code, doubt, over, count in connection.execute(found, {"now": now})
        ]

    def outbox(
        self, connection: sa.Connection, kind: str | None, after: int, limit: int
    ) -> list[tuple[int, OutboxRow]]:
        """Rows in order of insertion, none of which can be preceded by one that is not yet visible."""
        if self._dialect.lock_outbox is not None:
            connection.exec_driver_sql(self._dialect.lock_outbox)
        page = sa.literal_column(str(int(limit)), sa.Integer)
        statement = self._outbox.where(outbox.c.id > after).limit(page)
        if kind is not None:
            statement = statement.where(outbox.c.kind == kind)
        return [(values[0], make_outbox(values[1:])) for values in connection.execute(statement)]

    # --- the once report ---------------------------------------------------------------------------------------

    def report(
        self,
        connection: sa.Connection,
        tenant: str | None,
        channel: str | None,
        since: int | None,
        until: int | None,
        by: Sequence[str],
    ) -> list[Mapping[str, object]]:
        """The totals, one row per group."""
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        if not by:
            _totals(rows, (), by)
        wanted = _wanted(_n.tenant, _n.channel, _n.created_at, tenant, channel, since, until)
        keys = [
            {"tenant": _n.tenant, "channel": _n.channel, "day": _n.created_at // DAY}[name] for name in by
        ]
        ended = _n.next_attempt_at.is_(None)
        listed = sa.literal(",") + _n.unknown + ","
        assumed = sa.and_(
            _n.status == "sent", listed.like(sa.literal("%,") + sa.cast(_n.rests_on, sa.Text) + ",%")
        )
        facts = [_n.status, ended, sa.func.coalesce(assumed, sa.false()), _n.error_code]
        grouped = sa.select(*keys, *facts, sa.func.count()).where(*wanted).group_by(*keys, *facts)
        for *key, status, over, guessed, code, count in connection.execute(grouped):
            total = _totals(rows, tuple(key), by)
            total["accepted"] += count
            state = State(Status(status), next_attempt_at=None if over else 0)
            if state.status is Status.FAILED and state.final:
                name = code or "unknown"
                total["failed"][name] = total["failed"].get(name, 0) + count
            elif state.status in {Status.FAILED, Status.DRAFT}:
                total["pending"] += count
            else:
                total[state.status.value] += count
            total["assumed"] += count if guessed else 0
        self._calls(connection, rows, keys, wanted, by)
        self._refusals(connection, rows, _span(since, until), (tenant, channel), by)
        self._pruned(connection, rows, _span(since, until), (tenant, channel), by)
        return [rows[key] for key in sorted(rows)]

    @staticmethod
    def _calls(
        connection: sa.Connection,
        rows: dict[tuple[Any, ...], dict[str, Any]],
        keys: Any,
        wanted: Any,
        by: Any,
    ) -> None:
        """Repeats: calls begun after one of the same revision that may have arrived. Late answers."""
        a, earlier = attempts.c, attempts.alias("earlier")
        may_have_arrived = sa.and_(earlier.c.doubt, earlier.c.outcome.in_(["unknown", "accepted"]))
        repeat = sa.exists().where(
            earlier.c.notification_id == a.notification_id,
            earlier.c.revision == a.revision,
            earlier.c.number < a.number,
            may_have_arrived,
        )
        repeats = sa.func.sum(sa.case((repeat, 1), else_=0))
        late = sa.func.sum(sa.case((a.late, 1), else_=0))
        counted = (
            sa.select(*keys, repeats, late)
            .select_from(attempts.join(notifications, _n.id == a.notification_id))
            .where(*wanted)
            .group_by(*keys)
        )
        for *key, again, answers in connection.execute(counted):
            total = _totals(rows, tuple(key), by)
            total["repeats"] += int(again or 0)
            total["late_answers"] += int(answers or 0)

    @staticmethod
    def _refusals(
        connection: sa.Connection,
        rows: dict[tuple[Any, ...], dict[str, Any]],
        days: tuple[int | None, int | None],
        scope: tuple[str | None, str | None],
        by: Sequence[str],
    ) -> None:
        """Refused duplicates: counted per day and event, so they belong to no channel (``''``)."""
        c, (since, until), (tenant, channel) = counters.c, days, scope
        keys = [c[name] for name in by]
        statement = sa.select(*keys, sa.func.sum(c.value)).where(c.name == "duplicates_refused")
        statement = statement.where(*_wanted(c.tenant, c.channel, c.day, tenant, channel, since, until))
        grouped = statement.group_by(*keys) if keys else statement
        for *key, value in connection.execute(grouped):
            if value:
                _totals(rows, tuple(key), by)["duplicates_refused"] += int(value)

    @staticmethod
    def _pruned(
        connection: sa.Connection,
        rows: dict[tuple[Any, ...], dict[str, Any]],
        days: tuple[int | None, int | None],
        scope: tuple[str | None, str | None],
        by: Sequence[str],
    ) -> None:
        """What retention has removed still counts, by whole days."""
        c, (since, until), (tenant, channel) = counters.c, days, scope
        keys = [c[name] for name in by]
        statement = sa.select(*keys, c.name, sa.func.sum(c.value)).where(c.name.startswith(PRUNED))
        statement = statement.where(*_wanted(c.tenant, c.channel, c.day, tenant, channel, since, until))
        for *key, name, value in connection.execute(statement.group_by(*keys, c.name)):
            total, (what, _, code) = _totals(rows, tuple(key), by), name.removeprefix(PRUNED).partition(":")
            if code:
                total["failed"][code] = total["failed"].get(code, 0) + int(value)
            else:
                total[what] += int(value)

    # --- what is left ------------------------------------------------------------------------------------------

    def backlog(self, connection: sa.Connection, now: int | None) -> list[Backlog]:
        """Per channel."""
        # Before the rows: an event that is expanded between the two is then told twice, and not overlooked.
        waiting = connection.execute(self._unexpanded).scalar_one()
        result = [
            Backlog(channel, *[*map(int, counts), oldest, soonest, looking])
            for channel, *counts, oldest, soonest, looking in connection.execute(self._backlog, {"now": now})
        ]
        return ([Backlog("", movable=waiting)] if waiting else []) + result

    @staticmethod
    def _make_backlog(dialect: Dialect) -> Any:
        now, greatest = dialect.now, dialect.greatest
        # What may stop a lane: its account, its channel, its group or scope, and for a tenant with lanes of his own
        # also the scope for everybody. One row each at most, so nothing is counted twice. What lies with another
        # provider of its channel is stopped by that one's name, which the lane begins with.
        way = sa.func.substr(_d.lane, 1, dialect.place(_d.lane.concat(SEPARATOR), SEPARATOR) - 1)
        own = way.concat(SEPARATOR).concat(_n.tenant).concat(SEPARATOR)
        length = sa.func.length(own)
        scoped = sa.and_(_n.tenant != "", sa.func.substr(_d.lane, 1, length) == own)
        names = (
            sa.literal(ACCOUNT) + _n.account,
            way,
            sa.case((_d.lane == way, way.concat(SEPARATOR)), else_=_d.lane),
            sa.case(
                (scoped, way.concat(2 * SEPARATOR).concat(sa.func.substr(_d.lane, length + 1))),
                else_=sa.null(),
            ),
        )
        stops = [lanes.alias(f"stop_{index}") for index in range(len(names))]

        def later_of(due: Any) -> Any:
            """Not before the last pause ends; never (null) where one of them has no end."""
            for stop in stops:
                due = sa.case((stands(stop), greatest(due, stop.c.paused_until)), else_=due)
            return due

        def stands(stop: Any) -> Any:
            over = sa.and_(stop.c.paused_until.is_not(None), stop.c.paused_until <= now)
            return sa.and_(stop.c.paused.is_(True), sa.not_(over))

        def stays(stop: Any) -> Any:
            return sa.and_(stands(stop), sa.or_(stop.c.paused_until.is_(None), stop.c.reason.in_(REFUSED)))

        stopped = sa.or_(*(sa.func.coalesce(stands(s), sa.false()) for s in stops))
        # A lane that is paused for a while resumes by itself; one with a bad credential waits for a person.
        stuck = sa.or_(*(sa.func.coalesce(stays(s), sa.false()) for s in stops))
        ready = sa.and_(SEND, FREE)
        later = sa.and_(ready, _d.due_at > now, _n.status == "pending", _n.next_attempt_at > now)
        looking = sa.and_(LOOKUP, FREE)
        held = sa.and_(sa.not_(SEND), sa.not_(LOOKUP), FREE)
        free = sa.and_(ready, sa.not_(later), sa.not_(stuck))
        movable = sa.or_(
            LEASED, free, sa.and_(held, _d.due_at.is_not(None)), sa.and_(looking, sa.not_(stuck))
        )
        kept = sa.or_(sa.and_(ready, stopped), sa.and_(looking, stuck))
        soonest = sa.case((sa.and_(stopped, FREE), later_of(_d.due_at)), else_=_d.due_at)

        def count(condition: Any) -> Any:
            return sa.func.sum(sa.case((condition, 1), else_=0))

        met: Any = dispatch.join(notifications, _n.id == _d.id)
        for stop, name in zip(stops, names, strict=True):
            met = met.outerjoin(stop, stop.c.lane == name)
        return (
            sa.select(
                _n.channel,
                *(count(condition) for condition in (movable, later, held, kept)),
                *(count(condition) for condition in (sa.and_(ready, _n.status == "failed"), LEASED)),
                sa.func.min(sa.case((sa.and_(ready, _d.due_at <= now), _d.due_at))),
                sa.func.min(sa.case((sa.and_(movable, soonest > now), soonest))),
                count(looking),
            )
            .select_from(met)
            .group_by(_n.channel)
            .order_by(_n.channel)
        )


def _row(values: Sequence[Any]) -> tuple[Row, Dispatch | None]:
    split = len(FACTS)
    desk = values[split : split + len(DISPATCH)]
    dispatched = None if desk[0] is None else Dispatch(*desk)
    return make_row(values[:split], dispatched), dispatched


def _conditions(query: Query) -> list[Any]:
    """What a search looks for, its page apart."""
    equal: dict[Any, Any] = {
        _n.tenant: query.tenant,
        _n.channel: query.channel,
        _n.recipient: query.recipient,
        _e.event_id: query.event_id,
        _e.type: query.event_type,
        _e.subject: query.subject,
        _e.thread: query.thread,
        _n.error_code: query.code,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if query.ids is not None:
        conditions.append(_n.id.in_(query.ids))
    if query.status:
        conditions.append(_n.status.in_(query.status))
    if query.terminal_failures:
        conditions += [_n.status == "failed", _n.next_attempt_at.is_(None)]
    if query.since is not None:
        conditions.append(_n.created_at >= query.since)
    if query.until is not None:
        conditions.append(_n.created_at < query.until)
    return conditions


def _wanted(
    tenant: Any,
    channel: Any,
    at: Any,
    one_tenant: str | None,
    one_channel: str | None,
    since: Any,
    until: Any,
) -> list[Any]:
    conditions = []
    if one_tenant is not None:
        conditions.append(tenant == one_tenant)
    if one_channel is not None:
        conditions.append(channel == one_channel)
    if since is not None:
        conditions.append(at >= since)
    if until is not None:
        conditions.append(at < until)
    return conditions


def _span(since: int | None, until: int | None) -> tuple[int | None, int | None]:
    """Whole days that cover the span."""
    return (None if since is None else since // DAY, None if until is None else -(-until // DAY))


def _totals(
    rows: dict[tuple[Any, ...], dict[str, Any]], key: tuple[Any, ...], by: Sequence[str]
) -> dict[str, Any]:
    if key not in rows:
        named = dict(zip(by, key, strict=True))
        if "day" in named:
            named["day"] = (
                datetime.fromtimestamp(int(named["day"]) * (DAY // 1_000_000), UTC).date().isoformat()
            )
        rows[key] = named | {name: {} if name == "failed" else 0 for name in TOTALS}
    return rows[key]
