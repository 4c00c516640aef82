"""Leases on due rows: claim, mark, undo, release, extend, and arming by the holder of the retry lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.lane import SEPARATOR, of_group
from ringonce.ports import PROBED, RETRY_LEASE, Batch, Claimed, Marked
from ringonce.store.compiled import fetch
from ringonce.store.cursors import change
from ringonce.store.rows import (
    CONTENT,
    DISPATCH,
    FACTS,
    FACTS_FROM,
    OF_EVENT,
    Dispatch,
    make_content,
    make_row,
)
from ringonce.store.schema import (
    ARMED,
    FREE,
    LEASED,
    SEND,
    UNARMED,
    Words,
    addresses,
    cancellations,
    channel_overrides,
    contents,
    dispatch,
    events,
    lanes,
    leases,
    notifications,
    timeline,
)
from ringonce.store.values import PRIORITIES, clean, dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from ringonce.model.transition import Note
    from ringonce.ports import Probe
    from ringonce.store.dialect import Dialect
    from ringonce.store.floor import Floor

_d = dispatch.c
WEIGHTS = (6, 3, 1)
"""Shares of a full batch that high, normal and low priority are sure of: weighted, never strict."""
TURNS = (0, 0, 0, 1, 0, 0, 1, 0, 0, 2)
"""Who is served first, claim by claim: with batches of one, too, nobody starves."""


LOWS = tuple(f"low_{priority}" for priority in PRIORITIES.values())
"""What the floor of each priority is called in a statement."""
PROBING, PAUSED, BRAKED = 1, 2, 3
"""What stops a lane: one call is to try it, a pause, an open circuit."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Who claims, and how: what is the same for all lanes."""

    owner: str
    lease: int
    turn: int
    now: int | None
    begin: bool = False


class Claims:
    """Statements over ``dispatch``, built once."""

    def __init__(self, dialect: Dialect, floor: Floor) -> None:
        self._dialect = dialect
        self.floor = floor
        size = sa.bindparam("b_limit", type_=sa.BigInteger)
        now, given, among = dialect.now, dialect.given, dialect.among
        owner, until = (
            sa.bindparam("b_owner", type_=Words),
            now + sa.bindparam("b_lease", type_=sa.BigInteger),
        )

        lane = sa.bindparam("b_lane", type_=Words)
        self._claim, self._begin = (self._claims(lane, begin=begin) for begin in (False, True))
        self._claim_lots, self._begin_lots = (self._claims_of_lots(begin=begin) for begin in (False, True))
        self._stamp = sa.select(now, self._changed(), self._pause(lane))

        # Owner and fence name one lease, and an owner is set exactly while a row is leased: a further
        # "leased" would tempt the planner into the lease index (11 -> 176 ms per 500 rows).
        rows = given("r", id=sa.Uuid, fence=sa.BigInteger, version=sa.Integer)
        ours = sa.and_(_d.id == rows.c.id, _d.fence == rows.c.fence, _d.owner == owner)
        unwanted = sa.exists().where(cancellations.c.key == _d.subject_key)
        self._rows = rows
        self._mark = (
            sa.update(dispatch)
            .where(
                ours,
                _d.version == rows.c.version,
                _d.started_at.is_(None),
                _d.due_at > now,
                sa.not_(unwanted),
            )
            .values(started_at=now, attempt=_d.attempt + 1)
            .returning(_d.id, _d.attempt, _d.started_at)
        )
        self._stopped = (
            sa.select(_d.id, cancellations.c.subject)
            .join(cancellations, cancellations.c.key == _d.subject_key)
            .where(among(_d.id, "ids"), _d.owner == owner, _d.started_at.is_(None))
        )
        self._now = sa.select(now)

        leases_ = given("r", id=sa.Uuid, fence=sa.BigInteger)
        self._leases = leases_
        held = sa.and_(_d.id == leases_.c.id, _d.fence == leases_.c.fence, _d.owner == owner)
        self._undo = (
            sa.update(dispatch)
            .where(held, _d.started_at.is_not(None))
            .values(started_at=None)
            .returning(_d.id)
        )
        at = sa.func.coalesce(sa.bindparam("b_due", type_=sa.BigInteger), now)
        into = sa.func.coalesce(sa.bindparam("b_lane", type_=Words), _d.lane)
        self._release = (
            sa.update(dispatch)
            .where(held, _d.started_at.is_(None))
            .values(leased=False, owner=None, fence=0, due_at=at, armed=True, rescued=0, lane=into)
            .returning(_d.id)
        )
        known = sa.bindparam("b_lane", type_=Words)
        below = known.concat(SEPARATOR)
        self._give_up = (
            sa.update(dispatch)
            .where(
                *(LEASED, _d.owner == owner, sa.not_(among(_d.id, "ids"))),
                sa.or_(_d.lane == known, sa.func.substr(_d.lane, 1, sa.func.length(below)) == below),
            )
            .values(leased=False, owner=None, fence=0, started_at=None, due_at=now, armed=True)
            .returning(_d.id)
        )
        notes = given("t", id=sa.Uuid)
        self._notes = notes
        self._note = sa.insert(timeline).from_select(
            ["notification_id", "at", "kind", "detail"],
            sa.select(
                notes.c.id,
                now,
                sa.bindparam("b_kind", type_=Words),
                sa.bindparam("b_detail", type_=Words),
            ).where(sa.true()),
        )
        # Also a lease whose time is over: as long as nobody rescued the row, its owner is still the only one.
        self._extend = (
            sa.update(dispatch).where(LEASED, _d.owner == owner).values(due_at=until).returning(_d.id)
        )
        self._extend_some = sa.update(dispatch).where(held).values(due_at=until).returning(_d.id)

        # The lease row is locked until the end of the transaction: a takeover waits for what the old holder does.
        self._term = (
            sa.select(leases.c.term)
            .where(
                leases.c.name == RETRY_LEASE,
                leases.c.holder == sa.bindparam("b_holder", type_=Words),
                leases.c.term == sa.bindparam("b_term", type_=sa.BigInteger),
                leases.c.expires_at > now,
            )
            .with_for_update(read=True)
        )
        ripe = sa.select(_d.id).where(SEND, UNARMED, FREE, _d.due_at <= now).order_by(_d.due_at).limit(size)
        self._arm = (
            sa.update(dispatch)
            .where(dialect.within(_d.id, dialect.lock(ripe)), FREE, UNARMED)
            .values(armed=True)
            .returning(_d.id)
        )

    def _claims(self, lane: Any, *, begin: bool) -> tuple[sa.Executable, ...]:
        """The statements of a claim: one where the database can fuse them, else the update, then the reading."""
        size = sa.bindparam("b_limit", type_=sa.BigInteger)
        chosen = self._chosen(lane, size, self._pause(lane) == 0)
        return self._leasing(chosen, self._pause(lane), begin=begin, fused=self._dialect.fused)

    def _claims_of_lots(self, *, begin: bool) -> tuple[sa.Executable, ...]:
        """The same for several lanes with a quota each, which somebody has looked at before."""
        if not self._dialect.fused:  # one by one: a statement is no round trip there
            lane, size = sa.bindparam("b_lane", type_=Words), sa.bindparam("b_limit", type_=sa.BigInteger)
            return self._leasing(
                self._chosen(lane, size, sa.true()), sa.literal_column("0"), begin=begin, fused=False
            )
        lows = dict.fromkeys(LOWS, sa.BigInteger)
        lots = self._lots = self._dialect.given("lots", lane=sa.Text, quota=sa.BigInteger, **lows)
        name, quota = sa.literal_column("lots.lane", Words), sa.literal_column("lots.quota", sa.BigInteger)
        floors = [sa.literal_column(f"lots.{low}", sa.BigInteger) for low in LOWS]
        each = self._chosen(name, quota, sa.true(), floors).lateral("each")
        chosen = sa.select(each.c.id).select_from(lots.table.join(each, sa.true()))
        return self._leasing(chosen, sa.literal_column("0"), begin=begin, fused=True)

    def _pause(self, lane: Any) -> Any:
        """What stops the lane of a whole channel: a level of PAUSED; 0: nothing."""
        stops, now = lanes.c, self._dialect.now
        over = sa.and_(stops.paused_until.is_not(None), stops.paused_until <= now)
        # Not as a list: that would be another text for each length.
        names = sa.or_(stops.lane == lane, stops.lane == lane.concat(SEPARATOR))
        probed = sa.or_(*(stops.reason == reason for reason in PROBED))
        level = sa.case(
            (sa.and_(over, probed), PROBING),
            (over, 0),
            (stops.reason == "circuit", BRAKED),
            else_=PAUSED,
        )
        highest = sa.select(sa.func.max(level)).where(names, stops.paused).scalar_subquery()
        return sa.select(sa.func.coalesce(highest, 0)).scalar_subquery()

    def _chosen(self, lane: Any, size: Any, open_: Any, floors: Sequence[Any] = ()) -> Any:
        """The ids of the rows that are to be leased: ``size`` of a lane, every priority with its share."""
        dialect, now = self._dialect, self._dialect.now
        live = sa.or_(_d.expires_at.is_(None), _d.expires_at > now)
        places = []
        floors = floors or [sa.bindparam(f"b_{low}", type_=sa.BigInteger) for low in LOWS]
        for priority, weight, floor in zip(PRIORITIES.values(), WEIGHTS, floors, strict=True):
            # The floor is the bottom, but while somebody holds a snapshot.
            low = _d.due_at >= floor
            mine = sa.and_(_d.lane == lane, SEND, ARMED, FREE, _d.priority == priority)
            due = dialect.lock(
                sa.select(_d.id)
                .where(mine, low, _d.due_at <= now, live, open_)
                .order_by(_d.due_at, _d.id)
                .limit(size)
            ).subquery()
            # The n-th of a priority stands at n / weight: so each has its share of any batch that is full, and what
            # one leaves the others take.
            first = sa.case((sa.bindparam("b_first", type_=sa.Integer) == priority, 1), else_=0)
            place = (sa.func.row_number().over() - first) * (60 // weight)
            places.append(
                sa.select(due.c.id, place.label("place"), sa.literal_column(str(priority)).label("rank"))
            )
        among = sa.union_all(*places).subquery()
        return sa.select(among.c.id).order_by(among.c.place, among.c.rank.desc()).limit(size)

    def _leasing(self, chosen: Any, level: Any, *, begin: bool, fused: bool) -> tuple[sa.Executable, ...]:
        """Lease the chosen rows and read them. ``level``: what stops the lane, told beside them."""
        dialect, now = self._dialect, self._dialect.now
        values: dict[str, Any] = {
            "leased": True,
            "owner": sa.bindparam("b_owner", type_=Words),
            "fence": sa.bindparam("b_fence", type_=sa.BigInteger),
            "due_at": now + sa.bindparam("b_lease", type_=sa.BigInteger),
        }
        if fused:
            values["fence"] = dialect.draw.scalar_subquery()
        if begin:
            # What a tombstone stops is only leased: the mark tells why it does not begin.
            wanted = sa.not_(sa.exists().where(cancellations.c.key == _d.subject_key))
            values["started_at"] = sa.case((wanted, now))
            values["attempt"] = _d.attempt + sa.case((wanted, 1), else_=0)
        # NOT leased twice: the inner one takes rows that nobody holds, the outer one is evaluated again on the
        # row as locked.
        claim = sa.update(dispatch).where(dialect.within(_d.id, chosen), FREE).values(values)
        n, a = notifications.c, addresses.c
        more = (n.address_generation, a.generation)
        if not fused:
            # What was leased is known by the lease: to name the rows again would cost more than to find them.
            leased = (LEASED, _d.due_at == values["due_at"], _d.fence == values["fence"])
            read = sa.select(now, self._changed(), level, *FACTS, *DISPATCH, *CONTENT, *more).select_from(
                FACTS_FROM.join(dispatch, _d.id == n.id).outerjoin(contents, contents.c.id == n.content_id)
            )
            return claim, read.where(*leased)
        picked = claim.returning(*DISPATCH).cte("picked")
        one = sa.select(now.label("at"), self._changed().label("stamp"), level.label("level")).subquery("one")
        # One after the other: an inner join among them would have to be made first, over whole tables.
        joined = (
            one.outerjoin(picked, sa.true())
            .outerjoin(notifications, n.id == picked.c.id)
            .outerjoin(events, OF_EVENT)
            .outerjoin(addresses, a.id == n.address_id)
            .outerjoin(contents, contents.c.id == n.content_id)
        )
        return (sa.select(*one.c, *FACTS, *picked.c, *CONTENT, *more).select_from(joined),)

    @staticmethod
    def _changed() -> Any:
        """A number that is another one after each change of a channel's settings."""
        total = sa.func.coalesce(sa.func.sum(channel_overrides.c.changed_at), 0)
        return sa.select(sa.cast(total, sa.BigInteger)).scalar_subquery()

    def claim(
        self,
        connection: sa.Connection,
        lane: str,
        owner: str,
        limit: int,
        lease: int,
        turn: int,
        now: int | None,
        *,
        begin: bool = False,
    ) -> Batch:
        """Lease what is due; with ``begin`` its attempts begin in the same breath."""
        statement, *reading = self._begin if begin else self._claim
        parameters: dict[str, Any] = {"b_lane": clean(lane), "b_owner": clean(owner)}
        parameters |= {"b_limit": limit, "b_lease": lease}
        lows = self.floor.below(lane, len(LOWS))
        parameters |= _bound(lows)
        parameters |= {"b_first": TURNS[turn % len(TURNS)], "now": now}
        if reading:
            ((parameters["b_fence"],),) = fetch(connection, self._dialect.draw, {"now": now})
            if change(connection, statement, parameters):
                batch = _batch(fetch(connection, reading[0], parameters), lane)
            else:
                batch = self.nothing(connection, now, lane)
        else:
            batch = _batch(fetch(connection, statement, parameters), lane)
        self._found(batch, {lane: (limit, lows)}, batch.rows)
        return batch

    def _found(
        self, batch: Batch, asked: Mapping[str, tuple[int, Sequence[int]]], rows: Sequence[Claimed]
    ) -> None:
        """Tell the floor what was asked of each lane, from where, and what came of it."""
        if not self.floor.on:
            return
        only = next(iter(asked)) if len(asked) == 1 else None
        took: dict[str, list[tuple[int, int]]] = {lane: [] for lane in asked}
        for claimed in rows:
            row = claimed.row
            took[only or claimed.lane].append((PRIORITIES[row.priority], row.state.next_attempt_at or 0))
        for lane, (limit, lows) in asked.items():
            self.floor.found(lane, lows, limit, took[lane], batch.now)

    def nothing(self, connection: sa.Connection, now: int | None, lane: str = "") -> Batch:
        """An empty batch."""
        return _batch(connection.execute(self._stamp, {"b_lane": lane, "now": now}).all(), lane)

    def claim_lots(
        self,
        connection: sa.Connection,
        ask: Ask,
        quotas: Mapping[str, int],
        probes: Mapping[str, tuple[Probe, ...]],
    ) -> Batch:
        """Lease so many rows of each lane, whatever may stop it."""
        statement, *reading = self._begin_lots if ask.begin else self._claim_lots
        parameters: dict[str, Any] = {"b_owner": ask.owner, "b_lease": ask.lease, "now": ask.now}
        parameters["b_first"] = TURNS[ask.turn % len(TURNS)]
        asked = {lane: (quota, self.floor.below(lane, len(LOWS))) for lane, quota in sorted(quotas.items())}
        if not reading:
            lots = self._lots.bind([(lane, quota, *lows) for lane, (quota, lows) in asked.items()])
            batch = _batch(connection.execute(statement, parameters | lots).all(), "", probes)
        else:
            ((parameters["b_fence"],),) = fetch(connection, self._dialect.draw, {"now": ask.now})
            leased = 0
            for lane, (quota, lows) in asked.items():
                lot = {"b_lane": lane, "b_limit": quota} | _bound(lows)
                leased += change(connection, statement, parameters | lot)
            if leased:
                batch = _batch(fetch(connection, reading[0], parameters | {"b_lane": ""}), "", probes)
            else:
                batch = self.nothing(connection, ask.now)
        self._found(batch, asked, batch.rows)
        return batch

    def mark(
        self, connection: sa.Connection, owner: str, rows: Sequence[tuple[UUID, int, int]], now: int | None
    ) -> Marked:
        """Durably begin attempts."""
        begun: dict[UUID, int] = {}
        time = now
        if rows:
            parameters = self._rows.bind(sorted(rows)) | {"b_owner": owner, "now": now}
            for id_, number, time in connection.execute(self._mark, parameters):  # noqa: B007 - one time for all
                begun[id_] = number
        if time is None:
            time = connection.execute(self._now, {"now": None}).scalar_one()
        left = [row[0] for row in rows if row[0] not in begun]
        cancelled: dict[UUID, str] = {}
        if left:
            found = connection.execute(self._stopped, {"ids": self._dialect.listed(left), "b_owner": owner})
            cancelled = {row[0]: row[1] for row in found}
        return Marked(time, begun, cancelled)

    def undo(self, connection: sa.Connection, owner: str, rows: Sequence[tuple[UUID, int]]) -> int:
        """Take marks back."""
        if not rows:
            return 0
        return len(connection.execute(self._undo, self._leases.bind(rows) | {"b_owner": owner}).all())

    def release(
        self,
        connection: sa.Connection,
        owner: str,
        rows: Sequence[tuple[UUID, int]],
        due_at: int | None,
        note: Note | None,
        now: int | None,
        lane: str | None = None,
    ) -> int:
        """Give unmarked rows back, into another lane where one is named."""
        if not rows:
            return 0
        parameters = self._leases.bind(rows) | {"b_owner": owner, "b_due": due_at, "b_lane": lane, "now": now}
        ids = connection.execute(self._release, parameters).scalars().all()
        if note is not None and ids:
            detail = {"b_kind": note.kind, "b_detail": dump(note.detail), "now": now}
            connection.execute(self._note, self._notes.bind([(id_,) for id_ in ids]) | detail)
        return len(ids)

    def give_up(
        self, connection: sa.Connection, owner: str, lane: str, known: Sequence[UUID], now: int | None
    ) -> int:
        """Give back what an owner holds of a lane without knowing it."""
        parameters = {"b_owner": owner, "b_lane": lane, "ids": self._dialect.listed(known), "now": now}
        return len(connection.execute(self._give_up, parameters).all())

    def extend(
        self,
        connection: sa.Connection,
        owner: str,
        lease: int,
        rows: Sequence[tuple[UUID, int]] | None,
        now: int | None,
    ) -> set[UUID]:
        """Prolong the leases of an owner, all or some."""
        parameters = {"b_owner": owner, "b_lease": lease, "now": now}
        if rows is not None:
            if not rows:
                return set()
            some = self._leases.bind(sorted(rows)) | parameters
            return set(connection.execute(self._extend_some, some).scalars())
        return set(connection.execute(self._extend, parameters).scalars())

    def arm(self, connection: sa.Connection, term: int, holder: str, limit: int, now: int | None) -> int:
        """Release due failed rows to the workers."""
        ours = {"b_holder": holder, "b_term": term, "now": now}
        if connection.execute(self._term, ours).first() is None:
            return 0
        return len(connection.execute(self._arm, {"b_limit": limit, "now": now}).all())


def _bound(lows: Sequence[int]) -> dict[str, int]:
    return {f"b_{name}": low for name, low in zip(LOWS, lows, strict=True)}


def _batch(found: Sequence[Any], lane: str, probes: Mapping[str, tuple[Probe, ...]] | None = None) -> Batch:
    """Rows of a claim's statement as a Batch. ``lane``: what it was about, when it was one."""
    time, stamp, level = found[0][:3]
    begins = 3 + len(FACTS)
    split = begins + len(DISPATCH)
    claimed = []
    for values in found:
        if len(values) < split or values[3] is None:
            break
        dispatched = Dispatch(*values[begins:split])
        row = make_row(values[3:begins], dispatched)
        *content, generation, current = values[split:]
        dead = row.address is None or row.address.invalidated_at is not None
        changed = dead or generation != current
        claimed.append(
            (
                dispatched,
                Claimed(
                    row,
                    make_content(content),
                    changed,
                    dispatched.purpose,
                    dispatched.lane,
                    probes.get(dispatched.lane, ()) if probes else (),
                ),
            )
        )
    # The order of the claim is that of urgency; the join did not keep it.
    claimed.sort(key=lambda pair: (pair[0].priority, pair[1].row.state.next_attempt_at or 0, pair[0].id.int))
    braked = (of_group(lane, ""),) if level == BRAKED else ()
    rows = tuple(item for _, item in claimed)
    return Batch(time, stamp, rows, braked, probing=level == PROBING)
