"""Events in: accept, expand, collapse. A recipient's journal row and all its notifications are one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.errors import SchemaError, StoreUnavailable
from ringonce.model.policy import DAY, MINUTE, SECOND
from ringonce.model.transition import Cancel
from ringonce.ports import Accepted, Change
from ringonce.store.arrivals import EVENT, Chunk, briefs_where, cleaned, event_values, make_brief, targets
from ringonce.store.backend import AgainError, LostReplyError, translate
from ringonce.store.compiled import fetch
from ringonce.store.entries import Entries
from ringonce.store.profiles import Profiles
from ringonce.store.schema import cancellations, dispatch, events, journal, notifications

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ringonce.model.event import Event
    from ringonce.ports import Brief, Decide, NewEvent, Planner
    from ringonce.store.addresses import Addresses
    from ringonce.store.arrivals import Target
    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties
    from ringonce.store.settle import Settler

INLINE = 100
"""Events of up to so many recipients are expanded when they are accepted."""

BROKEN_FOR = 5 * SECOND
"""An event that could not be expanded is tried again after so long; doubled by each failure, up to 5 minutes."""
NOBODYS_FAULT = (AgainError, LostReplyError, StoreUnavailable, SchemaError)
"""What says nothing about the event that was being expanded."""


class Intake:
    """Statements over events, journal and what they become; built once."""

    def __init__(
        self,
        dialect: Dialect,
        addresses: Addresses,
        duties: Duties,
        settler: Settler,
        decode: Callable[[bytes], Event],
    ) -> None:
        self._dialect = dialect
        self._profiles = Profiles(dialect, addresses)
        self._duties = duties
        self._settler = settler
        self._decode = decode
        insert, among = dialect.insert, dialect.among

        def bulk(table: sa.Table, names: Sequence[str]) -> tuple[Any, Any]:
            rows = dialect.inserted(table, names)
            select = sa.select(*(getattr(rows.c, name) for name in names)).where(sa.true())
            return rows, insert(table).from_select(list(names), select)

        self._events, new = bulk(events, EVENT)
        self._event = new.on_conflict_do_nothing(index_elements=["key"]).returning(events.c.key)
        known = (events.c.key, events.c.body_hash, events.c.expanded, events.c.body == sa.literal(""))
        self._known = sa.select(*known).where(among(events.c.key, "keys"))
        n = notifications.c
        self._briefs = briefs_where(among(n.event_key, "keys"))
        self._journal, new = bulk(journal, ("key", "event_key", "recipient", "created_at"))
        self._enter = new.on_conflict_do_nothing(index_elements=["key"]).returning(journal.c.key)

        self._cancelled = sa.select(cancellations.c.key).where(among(cancellations.c.key, "keys"))

        self._entries = Entries(dialect)

        self._broken: dict[bytes, tuple[int, int]] = {}
        e, d = events.c, dispatch.c
        self._open = (
            sa.select(e.key, e.body, e.cursor, e.total, e.created_at)
            .where(sa.not_(e.expanded), e.key.not_in(sa.bindparam("broken", expanding=True)))
            .order_by(e.created_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        self._advance = (
            sa.update(events)
            .where(e.key == sa.bindparam("b_key", type_=e.key.type))
            .values(
                cursor=sa.bindparam("b_cursor", type_=sa.Integer),
                expanded=sa.bindparam("b_done", type_=sa.Boolean),
            )
        )
        self._same = (
            sa.select(d.id, d.collapse_key, n.event_key, e.created_at)
            .select_from(dispatch.join(notifications, n.id == d.id).join(events, e.key == n.event_key))
            .where(among(d.collapse_key, "keys"), d.collapse_key.is_not(None), d.started_at.is_(None))
        )

    # --- accept -----------------------------------------------------------------------------------------------

    def accept(
        self,
        connection: sa.Connection,
        batch: Sequence[NewEvent],
        plan: Planner,
        decide: Decide,
        now: int | None,
    ) -> list[Accepted]:
        """Store events, expand the small ones."""
        if not batch:
            return []
        time = self._duties.time(connection, now)
        first: dict[bytes, NewEvent] = {}
        for item in batch:
            first.setdefault(item.key, item)
        safe = {key: cleaned(item.event) for key, item in first.items()}
        wanted = {key: targets(event) for key, event in safe.items()}
        # In the order of their keys: two batches with the same events wait for each other, never in a circle.
        values = [
            event_values(first[key], len(wanted[key]), time, expanded=len(wanted[key]) <= INLINE)
            for key in sorted(first)
        ]
        fresh = {key for (key,) in fetch(connection, self._event, self._events.bind(values))}
        chunks = {
            key: Chunk(key, safe[key], time, wanted[key], [])
            for key in first
            if key in fresh and len(wanted[key]) <= INLINE
        }
        self._expand(connection, list(chunks.values()), plan, decide, time)
        known = self._answers(connection, [key for key in first if key not in fresh])
        answers = []
        sums: dict[tuple[int, str, str, str], int] = {}
        told: set[bytes] = set()
        for item in batch:
            key, event = item.key, item.event
            again = key not in fresh or key in told
            told.add(key)
            if key in fresh:
                stored, expanding, pruned = first[key].body_hash, key not in chunks, False
                briefs = tuple(chunks[key].briefs) if key in chunks else ()
            elif key in known:
                stored, expanding, pruned, briefs = known[key]
            else:
                raise AgainError(f"event {event.event_id} was pruned while it was looked for")
            if stored != item.body_hash:
                answers.append(Accepted(event.event_id, conflict=True))
                continue
            if again:
                counter = (time // DAY, event.tenant, "", "duplicates_refused")
                sums[counter] = sums.get(counter, 0) + 1
            answers.append(Accepted(event.event_id, again, False, pruned, expanding, briefs))  # noqa: FBT003
        self._duties.count(connection, sums)
        return answers

    def _answers(
        self, connection: sa.Connection, keys: list[bytes]
    ) -> dict[bytes, tuple[bytes, bool, bool, tuple[Brief, ...]]]:
        """What was answered for known events: hash, still expanding, pruned, notifications as they stand now."""
        if not keys:
            return {}
        listed = {"keys": self._dialect.listed(keys)}
        briefs: dict[bytes, list[Brief]] = {}
        for key, *values in fetch(connection, self._briefs, listed):
            briefs.setdefault(key, []).append(make_brief(*values))
        return {
            key: (stored, not expanded, bool(pruned), tuple(briefs.get(key, ())))
            for key, stored, expanded, pruned in fetch(connection, self._known, listed)
        }

    # --- expand -----------------------------------------------------------------------------------------------

    def expand(
        self, connection: sa.Connection, plan: Planner, decide: Decide, limit: int, now: int | None
    ) -> int:
        """Expand the next chunk of the oldest event that nobody is at work on.

        One that can not be decoded, planned or stored is left alone for a while, so that it holds up no other.
        """
        time = self._duties.time(connection, now) if self._broken else 0
        broken = [key for key, (until, _) in self._broken.items() if until > time]
        found = connection.execute(self._open, {"broken": broken}).first()
        if found is None:
            return 0
        key, body, cursor, total, created_at = found
        time = self._duties.time(connection, now)
        try:
            event = cleaned(self._decode(body.encode()))
            chunk = targets(event)[cursor : cursor + limit]
            self._expand(connection, [Chunk(key, event, created_at, chunk, [])], plan, decide, time)
        except Exception as error:
            if not isinstance(translate(error, self._dialect, "the database"), NOBODYS_FAULT):
                wait = min(2 * self._broken.get(key, (0, BROKEN_FOR // 2))[1], 5 * MINUTE)
                self._broken[key] = (time + wait, wait)
            raise
        self._broken.pop(key, None)
        end = cursor + len(chunk)
        connection.execute(
            self._advance, {"b_key": key, "b_cursor": end, "b_done": end >= total or not chunk}
        )
        return len(chunk)

    def _expand(
        self,
        connection: sa.Connection,
        chunks: list[Chunk],
        plan: Planner,
        decide: Decide,
        time: int,
    ) -> None:
        entries: dict[bytes, tuple[Chunk, str]] = {}
        places: list[tuple[int, bytes, Target]] = []
        for place, chunk in enumerate(chunks):
            for key, target in chunk.entries():
                entries[key] = chunk, target.id
                places.append((place, key, target))
        if not entries:
            return
        rows = [(key, entries[key][0].key, entries[key][1], time) for key in sorted(entries)]
        entered = {key for (key,) in fetch(connection, self._enter, self._journal.bind(rows))}
        # Named twice in one event: one journal row, one set of notifications, all addresses.
        ours: list[dict[str, list[Target]]] = [{} for _ in chunks]
        for place, key, target in places:
            if key in entered:
                ours[place].setdefault(target.id, []).append(target)
        wanted = [(chunk.event.tenant, named) for chunk, named in zip(chunks, ours, strict=True)]
        facts, generations = self._profiles.facts(connection, wanted, time)
        stopped = self._stopped(connection, chunks)
        planned = [
            (chunk, plan(chunk.event, known, chunk.subject_key in stopped, time))
            for chunk, known in zip(chunks, facts, strict=True)
            if known
        ]
        ledger = self._entries.insert(connection, planned, generations, time)
        self._settler.note(connection, ledger.notes, time)
        self._settler.publish(connection, ledger.outbox, time)
        self._settler.inboxes.write(connection, ledger.stored)
        self._duties.count(connection, ledger.counters)
        self._settler.failures.write(connection, ledger.failures, time)
        self._collapse(connection, chunks, decide, time)

    def _stopped(self, connection: sa.Connection, chunks: list[Chunk]) -> set[bytes | None]:
        keys = {chunk.subject_key for chunk in chunks if chunk.subject_key is not None}
        if not keys:
            return set()
        listed = {"keys": self._dialect.listed(sorted(keys))}
        return {key for (key,) in fetch(connection, self._cancelled, listed)}

    def _collapse(self, connection: sa.Connection, chunks: list[Chunk], decide: Decide, time: int) -> None:
        """Of the notifications that share a collapse key, cancel all but those of the newest event."""
        turn = {chunk.key: position for position, chunk in enumerate(chunks)}
        keys = {
            key
            for chunk in chunks
            if chunk.event.collapse is not None
            for brief in chunk.briefs
            if not brief.final and (key := chunk.collapse_key(brief.recipient, brief.channel)) is not None
        }
        if not keys:
            return
        found = fetch(connection, self._same, {"keys": self._dialect.listed(sorted(keys))})
        newest: dict[bytes, tuple[int, int, bytes]] = {}
        for _, key, event_key, accepted_at in found:
            rank = (accepted_at, turn.get(event_key, -1), event_key)
            newest[key] = max(newest.get(key, rank), rank)
        old = sorted(id_ for id_, key, event_key, _ in found if newest[key][2] != event_key)
        if old:
            locked, at = self._settler.lock(connection, old, time)
            changes = [Change(id_, Cancel("collapse")) for id_ in old]
            self._settler.apply(connection, locked, changes, decide, at)
