"""A claim by terms: from several lanes by weight, with probes, within rates. Few statements, however many lanes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core import bucket
from ringonce.core.fair import divide
from ringonce.ports import PROBED, Batch, Probe
from ringonce.store.claims import LOWS
from ringonce.store.rates import Rates
from ringonce.store.schema import ARMED, FREE, SEND, Words, dispatch, lanes
from ringonce.store.values import PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.model.policy import Rate
    from ringonce.ports import Lot, Terms
    from ringonce.store.claims import Ask, Claims
    from ringonce.store.dialect import Dialect

_d = dispatch.c


@dataclass(slots=True)
class _Looked:
    """What a look over the lanes has found, and what is made of it."""

    now: int
    waiting: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    """What must be probed now."""
    full_at: dict[str, int] = field(default_factory=dict)
    lacking: dict[str, Rate] = field(default_factory=dict)
    """The buckets that had too few tokens."""

    def wait(self) -> int | None:
        """When it is worth to come again: half of a burst is there, at least one token."""
        waits = [
            bucket.wait(rate, self.full_at[name], self.now, max(1, rate.burst // 2))
            for name, rate in self.lacking.items()
        ]
        return min(waits, default=None)


class Lots:
    """Statements over several lanes, built once."""

    def __init__(self, dialect: Dialect, claims: Claims) -> None:
        self._dialect = dialect
        self._claims = claims
        self._rates = Rates(dialect)
        self._credit: dict[str, dict[str, float]] = {}
        now = dialect.now
        size = sa.bindparam("b_limit", type_=sa.BigInteger)
        lows = dict.fromkeys(LOWS, sa.BigInteger)
        rows = self._names = dialect.given("r", name=sa.Text, queue=sa.Boolean, **lows)
        # One look over all lanes of a channel and all that could stop them, without a lock.
        counts = [
            sa.select(sa.func.count())
            .select_from(
                sa.select(_d.id)
                .where(
                    *(_d.lane == sa.literal_column("r.name", Words), SEND, ARMED, FREE),
                    *(_d.priority == priority, _d.due_at <= now),
                    _d.due_at >= sa.literal_column(f"r.{low}", sa.BigInteger),
                    sa.or_(_d.expires_at.is_(None), _d.expires_at > now),
                )
                .order_by(_d.due_at, _d.id)  # or the planner hopes to find so many soon, and reads the table
                .limit(size)
                .subquery()
            )
            .scalar_subquery()
            for priority, low in zip(PRIORITIES.values(), LOWS, strict=True)
        ]
        waiting: Any = counts[0]
        for count in counts[1:]:
            waiting = waiting + count
        over = sa.and_(lanes.c.paused_until.is_not(None), lanes.c.paused_until <= now)
        self._look = sa.select(
            now, rows.c.name, sa.case((rows.c.queue, waiting), else_=0), lanes.c.reason, over
        ).select_from(
            rows.table.outerjoin(lanes, sa.and_(lanes.c.lane == rows.c.name, lanes.c.paused)),
        )
        # Who gets the row probes; whoever comes second finds the time not over.
        self._probe = (
            sa.update(lanes)
            .where(
                dialect.among(lanes.c.lane, "names"),
                lanes.c.paused,
                lanes.c.reason.in_(PROBED),
                lanes.c.paused_until <= now,
            )
            .values(paused_until=now + sa.bindparam("b_hold", type_=sa.BigInteger))
            .returning(lanes.c.lane, lanes.c.reason, sa.func.coalesce(lanes.c.opened, 0))
        )
        self._again = (
            sa.update(lanes)
            .where(dialect.among(lanes.c.lane, "names"), lanes.c.paused, lanes.c.reason.in_(PROBED))
            .values(paused_until=now)
        )
        # The lanes in which something lies: from one to the next in the index, not over all rows.
        first = sa.select(sa.func.min(_d.lane).label("lane")).where(FREE).cte("found", recursive=True)
        further = dispatch.alias("further")
        after = (
            sa.select(sa.func.min(further.c.lane))
            .where(sa.not_(further.c.leased), further.c.lane > first.c.lane)
            .correlate(first)
            .scalar_subquery()
        )
        found = first.union_all(sa.select(after).where(first.c.lane.is_not(None)))
        self._waiting = sa.select(found.c.lane).where(found.c.lane.is_not(None))

    def waiting(self, connection: sa.Connection) -> list[str]:
        """The lanes in which rows lie that nobody holds."""
        return list(connection.execute(self._waiting).scalars())

    def again(self, connection: sa.Connection, names: Sequence[str], now: int | None) -> None:
        """A probe led to no call: the next claim may probe."""
        connection.execute(self._again, {"names": self._dialect.listed(sorted(set(names))), "now": now})

    def claim(self, connection: sa.Connection, channel: str, ask: Ask, limit: int, terms: Terms) -> Batch:
        """Lease what is due by the terms."""
        looked = self._see(connection, limit, terms, ask.now)
        braked = tuple(name for name, reason in looked.stopped.items() if reason == "circuit")
        lots = {
            lot.lane: lot
            for lot in terms.lots
            if looked.waiting.get(lot.lane) and not any(name in looked.stopped for name in lot.stops)
        }
        places, left = self._within_rates(connection, lots, limit, terms, looked)
        probing = {lane: [n for n in lots[lane].stops if n in looked.due] for lane in places}
        for lane, names in probing.items():
            if names:
                places[lane] = min(places[lane], 1)
        weights = {lane: lots[lane].weight for lane in places}
        quotas = divide(left, places, weights, self._credit.setdefault(channel, {}))
        probes = self._probes(connection, quotas, probing, terms.hold, ask.now)
        quotas = {lane: quota for lane, quota in quotas.items() if quota}
        if not quotas:
            return replace(self._claims.nothing(connection, ask.now), braked=braked, wait=looked.wait())
        batch = self._claims.claim_lots(connection, ask, quotas, probes)
        taken = Counter(claimed.lane for claimed in batch.rows)
        if idle := [probe.name for lane in probes.keys() - taken.keys() for probe in probes[lane]]:
            self.again(connection, idle, ask.now)
        self._pay(connection, terms, lots, taken, looked)
        return Batch(batch.now, batch.stamp, batch.rows, braked, looked.wait())

    def _see(self, connection: sa.Connection, limit: int, terms: Terms, now: int | None) -> _Looked:
        queues = {lot.lane for lot in terms.lots}
        names = queues.union(*(lot.stops for lot in terms.lots))
        floor = self._claims.floor
        lows = {name: floor.below(name, len(LOWS)) for name in names}
        rows = self._names.bind([(name, name in queues, *lows[name]) for name in sorted(names)])
        looked = _Looked(now or 0)
        for time, name, count, reason, over in connection.execute(
            self._look, rows | {"b_limit": limit, "now": now}
        ):
            looked.now = time
            if name in queues:
                looked.waiting[name] = int(count)
                if not count:  # as good as a claim that finds nothing, and none is made
                    floor.found(name, lows[name], limit, (), time)
            if reason is not None and (not over or reason in PROBED):
                if over:
                    looked.due.add(name)
                else:
                    looked.stopped[name] = reason
        return looked

    def _within_rates(
        self,
        connection: sa.Connection,
        lots: Mapping[str, Lot],
        limit: int,
        terms: Terms,
        looked: _Looked,
    ) -> tuple[dict[str, int], int]:
        """(rows that each lane may give, rows in all): what waits, where there is room and tokens are."""
        places = {
            lane: looked.waiting[lane] if lot.room is None else min(looked.waiting[lane], max(0, lot.room))
            for lane, lot in lots.items()
        }
        places = {lane: count for lane, count in places.items() if count}
        names = [lots[lane].bucket for lane in places if lots[lane].rate is not None]
        if terms.rate is not None and places:
            names.append(terms.bucket)
        if not names:
            return places, limit
        full_at = looked.full_at = self._rates.lock(connection, names)
        for lane in places:
            lot = lots[lane]
            if lot.rate is not None:
                there = bucket.tokens(lot.rate, full_at[lot.bucket], looked.now)
                if there < places[lane]:
                    looked.lacking[lot.bucket] = lot.rate
                places[lane] = min(places[lane], there)
        if terms.rate is not None:
            there = bucket.tokens(terms.rate, full_at[terms.bucket], looked.now)
            if there < min(limit, sum(places.values())):
                looked.lacking[terms.bucket] = terms.rate
            limit = min(limit, there)
        return {lane: count for lane, count in places.items() if count}, limit

    def _probes(
        self,
        connection: sa.Connection,
        quotas: dict[str, int],
        probing: Mapping[str, Sequence[str]],
        hold: int,
        now: int | None,
    ) -> dict[str, tuple[Probe, ...]]:
        """Take the right to probe for lanes that need it; the quota of those that do not get it becomes 0."""
        asked: dict[str, Sequence[str]] = {}
        for lane, quota in quotas.items():
            names = probing[lane]
            if not quota or not names:
                continue
            if any(name in others for name in names for others in asked.values()):
                quotas[lane] = 0  # one call at a time
            else:
                asked[lane] = names
        if not asked:
            return {}
        every = sorted(name for names in asked.values() for name in names)
        parameters = {"names": self._dialect.listed(every), "b_hold": hold, "now": now}
        won = {
            name: Probe(name, reason, opened)
            for name, reason, opened in connection.execute(self._probe, parameters)
        }
        for lane, names in asked.items():
            if not all(name in won for name in names):
                quotas[lane] = 0
        return {lane: tuple(won[name] for name in names) for lane, names in asked.items() if quotas[lane]}

    def _pay(
        self,
        connection: sa.Connection,
        terms: Terms,
        lots: Mapping[str, Lot],
        taken: Mapping[str, int],
        looked: _Looked,
    ) -> None:
        """A token for each row that came."""
        paid: dict[str, int] = {}
        bills = [(lots[lane].rate, lots[lane].bucket, count) for lane, count in taken.items()]
        for rate, name, count in [*bills, (terms.rate, terms.bucket, sum(taken.values()))]:
            if rate is not None and count:
                paid[name] = bucket.taken(rate, paid.get(name, looked.full_at[name]), looked.now, count)
        self._rates.put(connection, paid)
        looked.full_at |= paid
