"""Leases of single-owner duties, lanes, overrides of channels, durable counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.core.lane import SEPARATOR, parse
from ringonce.model.policy import DAY
from ringonce.model.proposals import MASS_INVALIDATION
from ringonce.ports import PROBED, LaneState
from ringonce.store.compiled import fetch
from ringonce.store.schema import Words, channel_overrides, counters, lanes, leases
from ringonce.store.values import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ringonce.ports import LanePause
    from ringonce.store.dialect import Dialect


class Duties:
    """Statements over the small tables, built once."""

    def __init__(self, dialect: Dialect) -> None:
        insert, given, now = dialect.insert, dialect.given, dialect.now
        self._now = sa.select(now)

        name, holder = sa.bindparam("b_name", type_=Words), sa.bindparam("b_holder", type_=Words)
        ends = now + sa.bindparam("b_ttl", type_=sa.BigInteger)
        new = insert(leases).values(name=name, holder=holder, term=1, expires_at=ends)
        # The term grows with a takeover only: work of the same holder stays valid while it prolongs.
        self._take = new.on_conflict_do_update(
            index_elements=["name"],
            set_={
                "holder": new.excluded.holder,
                "term": leases.c.term + sa.case((leases.c.holder == new.excluded.holder, 0), else_=1),
                "expires_at": new.excluded.expires_at,
            },
            where=sa.or_(leases.c.holder == new.excluded.holder, leases.c.expires_at <= now),
        ).returning(leases.c.term)
        # The row stays, so that terms never repeat.
        self._drop = (
            sa.update(leases)
            .where(leases.c.name == name, leases.c.holder == holder)
            .values(holder="", expires_at=0)
        )
        # Locked until the end of the transaction: a takeover waits for what the old holder does.
        term = leases.c.term == sa.bindparam("b_term", type_=sa.BigInteger)
        self._holds = (
            sa.select(leases.c.term)
            .where(leases.c.name == name, leases.c.holder == holder, term, leases.c.expires_at > now)
            .with_for_update(read=True)
        )

        rows = self._pauses = given("r", lane=sa.Text, until=sa.BigInteger, reason=sa.Text, opened=sa.Integer)
        at = sa.bindparam("b_now", type_=sa.BigInteger)
        stop = insert(lanes).from_select(
            ["lane", "paused", "paused_until", "reason", "changed_at", "opened"],
            sa.select(rows.c.lane, sa.true(), rows.c.until, rows.c.reason, at, rows.c.opened).where(
                sa.true()
            ),
        )
        # A pause never shortens one that stands: a rate limit must not lift what a bad credential stopped.
        stands = sa.and_(lanes.c.paused, sa.or_(lanes.c.paused_until.is_(None), lanes.c.paused_until > at))
        # The circuit of one that is open already opens only by a probe that failed, whoever else counted failures.
        was, is_ = sa.func.coalesce(lanes.c.opened, 0), sa.func.coalesce(stop.excluded.opened, 0)
        circuit = sa.and_(lanes.c.paused, lanes.c.reason == "circuit", stop.excluded.reason == "circuit")
        longer = sa.case(
            (circuit, is_ > was),
            (stop.excluded.paused_until.is_(None), True),
            (lanes.c.paused_until.is_(None), False),
            else_=stop.excluded.paused_until > lanes.c.paused_until,
        )
        # How often in a row for the same reason: 1 is a pause that begins.
        more = sa.and_(lanes.c.paused, lanes.c.reason == stop.excluded.reason)
        opened = sa.case(
            (stop.excluded.reason == "circuit", stop.excluded.opened),
            (more, sa.func.coalesce(lanes.c.opened, 0) + 1),
            else_=1,
        )
        self._pause = stop.on_conflict_do_update(
            index_elements=["lane"],
            set_={
                "paused": True,
                "paused_until": stop.excluded.paused_until,
                "reason": stop.excluded.reason,
                "changed_at": stop.excluded.changed_at,
                "opened": opened,
            },
            where=sa.or_(sa.and_(sa.not_(stands), sa.not_(circuit)), longer),
        ).returning(lanes.c.lane, lanes.c.opened)
        name, below = sa.bindparam("b_lane", type_=Words), sa.bindparam("b_below", type_=Words)
        self._resume = (
            sa.update(lanes)
            .where(
                lanes.c.paused,
                sa.or_(lanes.c.lane == name, sa.func.substr(lanes.c.lane, 1, sa.func.length(below)) == below),
                # A call that works says nothing about addresses: those are for a person, who means all below.
                sa.or_(
                    sa.func.coalesce(lanes.c.reason, "") != sa.literal_column(f"'{MASS_INVALIDATION}'"),
                    below != sa.literal_column(f"'{SEPARATOR}'"),
                ),
            )
            .values(paused=False, paused_until=None, changed_at=now, opened=0)
            .returning(lanes.c.lane)
        )
        paused = sa.and_(lanes.c.paused, sa.or_(lanes.c.paused_until.is_(None), lanes.c.paused_until > now))
        probing = sa.and_(lanes.c.paused, lanes.c.paused_until <= now, lanes.c.reason.in_(PROBED))
        columns = (lanes.c.lane, paused, lanes.c.paused_until, lanes.c.reason, probing, lanes.c.opened)
        self._lanes = sa.select(*columns).order_by(lanes.c.lane)

        self._overrides = sa.select(channel_overrides.c.channel, channel_overrides.c.settings)
        # Scopes come without end (each broken endpoint is one), so their rows do not stay: neither when they are
        # resumed, nor when for a day nobody wanted to send there.
        own = lanes.c.lane.like(f"%{SEPARATOR}%{SEPARATOR}%")
        self._forget = sa.delete(lanes).where(own, sa.not_(lanes.c.paused))
        old = sa.bindparam("b_now", type_=sa.BigInteger) - DAY
        self._forget_old = sa.delete(lanes).where(own, lanes.c.paused_until < old)
        self._override = self._overrides.where(
            channel_overrides.c.channel == sa.bindparam("b_channel", type_=Words)
        ).with_for_update()
        fresh = insert(channel_overrides).values(
            channel=sa.bindparam("b_channel", type_=Words),
            settings=sa.bindparam("b_settings", type_=Words),
            changed_at=now,
        )
        self._place = fresh.on_conflict_do_nothing(index_elements=["channel"])
        # Never twice the same: claims tell by it that something changed.
        later = dialect.greatest(fresh.excluded.changed_at, channel_overrides.c.changed_at + 1)
        self._set = fresh.on_conflict_do_update(
            index_elements=["channel"],
            set_={"settings": fresh.excluded.settings, "changed_at": later},
        )
        self._touch = fresh.on_conflict_do_update(index_elements=["channel"], set_={"changed_at": later})

        sums = self._sums = given(
            "r", day=sa.Integer, tenant=sa.Text, channel=sa.Text, name=sa.Text, value=sa.BigInteger
        )
        add = insert(counters).from_select(
            ["day", "tenant", "channel", "name", "value"],
            sa.select(sums.c.day, sums.c.tenant, sums.c.channel, sums.c.name, sums.c.value).where(sa.true()),
        )
        self._count = add.on_conflict_do_update(
            index_elements=["day", "tenant", "channel", "name"],
            set_={"value": counters.c.value + add.excluded.value},
        )

    def time(self, connection: sa.Connection, now: int | None) -> int:
        """The store's clock, or the time that was given."""
        return now if now is not None else int(connection.execute(self._now, {"now": None}).scalar_one())

    def take_lease(
        self, connection: sa.Connection, name: str, holder: str, ttl: int, now: int | None
    ) -> int | None:
        """Take or prolong a lease; its term."""
        parameters = {"b_name": name, "b_holder": holder, "b_ttl": ttl, "now": now}
        return connection.execute(self._take, parameters).scalar_one_or_none()

    def drop_lease(self, connection: sa.Connection, name: str, holder: str) -> None:
        """Give a lease up."""
        connection.execute(self._drop, {"b_name": name, "b_holder": holder})

    def holds(self, connection: sa.Connection, name: str, holder: str, term: int, now: int | None) -> bool:
        """Is a lease still held under this term? It is until the transaction ends, then."""
        parameters = {"b_name": name, "b_holder": holder, "b_term": term, "now": now}
        return connection.execute(self._holds, parameters).first() is not None

    def pause(
        self, connection: sa.Connection, pauses: Sequence[LanePause], now: int
    ) -> tuple[list[str], set[str]]:
        """Pause lanes; the longest pause of a lane counts. The lanes that it changed, and whose pause began with it."""
        longest: dict[str, LanePause] = {}
        for pause in pauses:
            other = longest.get(pause.lane)
            if other is None or (
                other.until is not None and (pause.until is None or pause.until > other.until)
            ):
                longest[pause.lane] = pause
        values = [(one.lane, one.until, one.reason, one.opened or 1) for _, one in sorted(longest.items())]
        if not values:
            return [], set()
        changed = connection.execute(self._pause, self._pauses.bind(values) | {"b_now": now}).all()
        began = {lane for lane, opened in changed if opened == 1}
        if any(parse(lane).scope for lane in began):
            connection.execute(self._forget_old, {"b_now": now})
            self._tell(connection, began, now)
        return [lane for lane, _ in changed], began

    def resume(self, connection: sa.Connection, lane: str, now: int | None, *, below: bool = True) -> bool:
        """Resume a lane, and all below it. No lane's name begins with what stands for none."""
        parameters = {"b_lane": lane, "b_below": f"{lane}{SEPARATOR}" if below else SEPARATOR, "now": now}
        resumed = list(connection.execute(self._resume, parameters).scalars())
        if any(parse(name).scope for name in resumed):
            connection.execute(self._forget)
            self._tell(connection, resumed, now)
        return bool(resumed)

    def _tell(self, connection: sa.Connection, names: Iterable[str], now: int | None) -> None:
        """Have all workers look anew at the scopes of these channels: claims say that something has changed."""
        self.touch(connection, {parse(name).channel for name in names if parse(name).scope}, now)

    def touch(self, connection: sa.Connection, channels: Iterable[str], now: int | None) -> None:
        """Move the stamp that claims of these channels tell."""
        for channel in sorted(channels):
            connection.execute(self._touch, {"b_channel": channel, "b_settings": "{}", "now": now})

    def lanes(self, connection: sa.Connection, now: int | None) -> list[LaneState]:
        """All lanes that have ever been paused."""
        found = connection.execute(self._lanes, {"now": now})
        return [
            LaneState(
                lane,
                bool(paused),
                until if paused else None,
                reason if paused or probing else None,
                probing=bool(probing),
                opened=opened or 0,
            )
            for lane, paused, until, reason, probing, opened in found
        ]

    def overrides(self, connection: sa.Connection) -> dict[str, Mapping[str, object]]:
        """All settings changed at run time."""
        found = ((channel, load(settings)) for channel, settings in fetch(connection, self._overrides, {}))
        return {channel: settings for channel, settings in found if settings}

    def override(
        self, connection: sa.Connection, channel: str, changes: Mapping[str, object], now: int | None
    ) -> None:
        """Merge changes into a channel's settings, under its row's lock."""
        place = {"b_channel": channel, "b_settings": "{}", "now": now}
        connection.execute(self._place, place)
        _, stored = connection.execute(self._override, {"b_channel": channel}).one()
        settings = load(stored) | dict(changes)
        kept = {key: value for key, value in settings.items() if value is not None}
        connection.execute(self._set, place | {"b_settings": dump(kept)})

    def count(self, connection: sa.Connection, sums: Mapping[tuple[int, str, str, str], int]) -> None:
        """Add to daily counters: (day, tenant, channel, name) -> value."""
        values = [(*key, sums[key]) for key in sorted(sums)]
        if values:
            connection.execute(self._count, self._sums.bind(values))
