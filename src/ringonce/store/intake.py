"""Events in: accept, expand, collapse. A recipient's journal row and all its notifications are one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.journal import recipient_key
from ringonce.model.event import Recipient
from ringonce.model.notification import State, Status
from ringonce.model.policy import DAY, MINUTE, SECOND
from ringonce.model.transition import Cancel
from ringonce.ports import Accepted, Brief, Change, RecipientFacts
from ringonce.store.backend import AgainError
from ringonce.store.ledger import Ledger
from ringonce.store.rows import STATE, Dispatch, state_values
from ringonce.store.schema import (
    cancellations,
    contents,
    dispatch,
    events,
    journal,
    notifications,
    recipients,
)
from ringonce.store.values import PRIORITIES, clean, digest, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from ringonce.model.event import Event
    from ringonce.model.notification import Address
    from ringonce.ports import Decide, NewEvent, NewNotification, Plan, Planner
    from ringonce.store.addresses import Addresses
    from ringonce.store.dialect import Dialect
    from ringonce.store.duties import Duties
    from ringonce.store.settle import Settler

INLINE = 100
"""Events of up to so many recipients are expanded when they are accepted."""

BROKEN_FOR = 5 * SECOND
"""An event that could not be expanded is tried again after so long; doubled by each failure, up to 5 minutes."""
OF_THE_DATA = (sa.exc.DataError, sa.exc.IntegrityError, sa.exc.ProgrammingError)

EVENT = (
    *("key", "tenant", "event_id", "type", "subject", "subject_key", "thread", "priority", "collapse"),
    *("body_hash", "body", "total", "cursor", "expanded", "created_at"),
)
NOTIFICATION = (
    *("id", "tenant", "event_key", "recipient", "channel", "account", "address_id", "address_generation"),
    *("content_id", "created_at", "changed_at", "last_attempt", *STATE),
)


@dataclass(frozen=True, slots=True)
class Target:
    """One recipient of an event: a named one, or an address that stands for its recipient."""

    id: str
    recipient: Recipient | None = None
    channel: str = ""
    value: str = ""


def targets(event: Event) -> list[Target]:
    """The recipients of an event in the order that the cursor counts."""
    named = [Target(recipient.id, recipient) for recipient in event.recipients]
    return named + [
        Target(f"{channel}:{value}", None, channel, value) for channel, value in sorted(event.to.items())
    ]


def cleaned(event: Event) -> Event:
    """The event with names and addresses as the tables will hold them, so that what is stored is found again."""
    people = tuple(
        Recipient(
            clean(who.id),
            who.locale,
            who.timezone,
            {clean(channel): tuple(map(clean, values)) for channel, values in who.addresses.items()},
        )
        for who in event.recipients
    )
    to = {clean(channel): clean(value) for channel, value in event.to.items()}
    return replace(event, tenant=clean(event.tenant), recipients=people, to=to)


def briefs_where(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """What is answered of an event's notifications, the key of their event first."""
    n = notifications.c
    columns = (n.event_key, n.id, n.recipient, n.channel, n.status, n.next_attempt_at)
    return sa.select(*columns).where(condition).order_by(n.created_at, n.id)


def make_brief(id_: UUID, recipient: str, channel: str, status: str, next_attempt_at: int | None) -> Brief:
    """Read the columns of ``briefs_where``, the key apart."""
    state = State(Status(status), next_attempt_at=next_attempt_at)
    return Brief(id_, recipient, channel, state.status, state.final)


@dataclass(slots=True)
class Chunk:
    """Some recipients of one event, being expanded."""

    key: bytes
    event: Event
    accepted_at: int
    targets: list[Target]
    briefs: list[Brief]


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
        self._addresses = addresses
        self._duties = duties
        self._settler = settler
        self._decode = decode
        given, insert, among = dialect.given, dialect.insert, dialect.among

        def bulk(table: sa.Table, names: Sequence[str]) -> tuple[Any, Any]:
            rows = given("r", **{name: table.c[name].type for name in names})
            select = sa.select(*(rows.c[name] for name in names)).where(sa.true())
            return rows, insert(table).from_select(list(names), select)

        self._events, new = bulk(events, EVENT)
        self._event = new.on_conflict_do_nothing(index_elements=["key"]).returning(events.c.key)
        known = (events.c.key, events.c.body_hash, events.c.expanded, events.c.body == sa.literal(""))
        self._known = sa.select(*known).where(among(events.c.key, "keys"))
        n = notifications.c
        self._briefs = briefs_where(among(n.event_key, "keys"))
        self._journal, new = bulk(journal, ("key", "event_key", "recipient", "created_at"))
        self._enter = new.on_conflict_do_nothing(index_elements=["key"]).returning(journal.c.key)

        columns = ("key", "tenant", "id", "locale", "timezone", "created_at", "updated_at")
        self._recipients, new = bulk(recipients, columns)
        r, x = recipients.c, new.excluded
        locale, zone = sa.func.coalesce(x.locale, r.locale), sa.func.coalesce(x.timezone, r.timezone)
        self._recipient = new.on_conflict_do_update(
            index_elements=["key"],
            set_={"locale": locale, "timezone": zone, "updated_at": x.updated_at},
            where=sa.or_(r.locale.is_distinct_from(locale), r.timezone.is_distinct_from(zone)),
        )
        self._facts = sa.select(r.key, r.locale, r.timezone).where(among(r.key, "keys"))
        self._cancelled = sa.select(cancellations.c.key).where(among(cancellations.c.key, "keys"))

        self._contents, new = bulk(contents, ("id", "title", "text", "html", "data", "created_at"))
        self._content = new.on_conflict_do_nothing(index_elements=["id"])
        self._notifications, self._notification = bulk(notifications, NOTIFICATION)

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
        fresh = set(connection.execute(self._event, self._events.bind(values)).scalars())
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
        for key, *values in connection.execute(self._briefs, listed):
            briefs.setdefault(key, []).append(make_brief(*values))
        return {
            key: (stored, not expanded, bool(pruned), tuple(briefs.get(key, ())))
            for key, stored, expanded, pruned in connection.execute(self._known, listed)
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
            if not isinstance(error, sa.exc.DBAPIError) or isinstance(error, OF_THE_DATA):
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
        entries = {
            recipient_key(chunk.key, target.id, direct=target.recipient is None): (chunk, target)
            for chunk in chunks
            for target in chunk.targets
        }
        if not entries:
            return
        rows = [
            (key, chunk.key, target.id, time) for key, (chunk, target) in sorted(entries.items(), key=_first)
        ]
        entered = set(connection.execute(self._enter, self._journal.bind(rows)).scalars())
        # Named twice in one event: one journal row, one set of notifications, all addresses.
        ours: dict[int, dict[str, list[Target]]] = {}
        for chunk in chunks:
            for target in chunk.targets:
                if recipient_key(chunk.key, target.id, direct=target.recipient is None) in entered:
                    ours.setdefault(id(chunk), {}).setdefault(target.id, []).append(target)
        facts, generations = self._facts_of(
            connection, [(chunk, ours.get(id(chunk), {})) for chunk in chunks], time
        )
        stopped = self._stopped(connection, chunks)
        planned: list[tuple[Chunk, Plan]] = []
        for chunk in chunks:
            known = facts.get(id(chunk))
            if known:
                cancelled = chunk.event.subject is not None and _subject_key(chunk.event) in stopped
                planned.append((chunk, plan(chunk.event, known, cancelled, time)))
        self._insert(connection, planned, generations, time)
        self._collapse(connection, chunks, decide, time)

    def _facts_of(
        self, connection: sa.Connection, wanted: list[tuple[Chunk, dict[str, list[Target]]]], time: int
    ) -> tuple[dict[int, list[RecipientFacts]], dict[int, int]]:
        """Upsert recipients and addresses of chunks; what is known of each, and the addresses' generations."""
        people: dict[bytes, tuple[Any, ...]] = {}
        inline: list[tuple[str, str, str, str]] = []
        direct: list[tuple[str, str, str, str]] = []
        for chunk, named in wanted:
            tenant = chunk.event.tenant
            for target in (target for same in named.values() for target in same):
                who = target.recipient
                if who is None:
                    direct.append((tenant, target.id, target.channel, target.value))
                    continue
                key = digest(tenant, who.id)
                _, _, _, locale, zone, *_ = people.get(key, (None,) * 7)
                people[key] = (key, tenant, who.id, who.locale or locale, who.timezone or zone, time, time)
                inline.extend(
                    (tenant, who.id, channel, value)
                    for channel, values in who.addresses.items()
                    for value in values
                )
        profile: dict[bytes, tuple[str | None, str | None]] = {}
        if people:
            connection.execute(
                self._recipient, self._recipients.bind([people[key] for key in sorted(people)])
            )
            found = connection.execute(self._facts, {"keys": self._dialect.listed(sorted(people))})
            profile = {key: (locale, zone) for key, locale, zone in found}
        self._addresses.register_many(connection, inline, time)
        named_addresses = self._addresses.name_many(connection, direct, time)
        live = self._addresses.live(connection, [(row[1], row[2]) for row in people.values()])
        known_as = self._addresses.identify
        by_value = {(a.tenant, a.channel, known_as(a.channel, a.value)): a for a, _ in named_addresses}
        generations = {a.id: generation for a, generation in named_addresses}
        generations |= {a.id: generation for owned in live.values() for a, generation in owned}
        facts: dict[int, list[RecipientFacts]] = {}
        for chunk, named in wanted:
            tenant = chunk.event.tenant
            for name, same in named.items():
                target = same[0]
                if target.recipient is None:
                    one = by_value[tenant, target.channel, known_as(target.channel, target.value)]
                    known = RecipientFacts(name, None, None, (one,), direct=True)
                else:
                    owned: tuple[Address, ...] = tuple(a for a, _ in live.get((tenant, name), ()))
                    known = RecipientFacts(name, *profile[digest(tenant, name)], owned)
                facts.setdefault(id(chunk), []).append(known)
        return facts, generations

    def _stopped(self, connection: sa.Connection, chunks: list[Chunk]) -> set[bytes]:
        keys = {_subject_key(chunk.event) for chunk in chunks if chunk.event.subject is not None}
        if not keys:
            return set()
        return set(
            connection.execute(self._cancelled, {"keys": self._dialect.listed(sorted(keys))}).scalars()
        )

    def _insert(
        self,
        connection: sa.Connection,
        planned: list[tuple[Chunk, Plan]],
        generations: dict[int, int],
        time: int,
    ) -> None:
        said: dict[bytes, tuple[Any, ...]] = {}
        rows, desks = [], []
        ledger = Ledger(time)
        for chunk, plan in planned:
            for item in plan.contents:
                key, c = digest(chunk.key.hex(), item.key), item.content
                said[key] = (key, c.title, c.text, c.html, dump(c.data), time)
            for new in plan.notifications:
                rows.append(_notification_values(chunk, new, generations, time))
                desk = _desk(chunk, new, time)
                if desk is not None:
                    desks.append(desk.tuple())
                ledger.collect(new.id, chunk.event.tenant, new.recipient, new.channel, new.write)
                state = new.write.state
                chunk.briefs.append(Brief(new.id, new.recipient, new.channel, state.status, state.final))
        if said:
            connection.execute(self._content, self._contents.bind([said[key] for key in sorted(said)]))
        if rows:
            connection.execute(self._notification, self._notifications.bind(rows))
        if desks:
            self._settler.create(connection, desks)
        self._settler.note(connection, ledger.notes, time)
        self._settler.publish(connection, ledger.outbox, time)
        self._settler.inboxes.file(connection, ledger.stored)
        self._duties.count(connection, ledger.counters)

    def _collapse(self, connection: sa.Connection, chunks: list[Chunk], decide: Decide, time: int) -> None:
        """Of the notifications that share a collapse key, cancel all but those of the newest event."""
        turn = {chunk.key: position for position, chunk in enumerate(chunks)}
        keys = {
            _collapse_key(chunk.event, brief.recipient, brief.channel)
            for chunk in chunks
            if chunk.event.collapse is not None
            for brief in chunk.briefs
            if not brief.final
        }
        if not keys:
            return
        found = connection.execute(self._same, {"keys": self._dialect.listed(sorted(keys))}).all()
        newest: dict[bytes, tuple[int, int, bytes]] = {}
        for _, key, event_key, accepted_at in found:
            rank = (accepted_at, turn.get(event_key, -1), event_key)
            newest[key] = max(newest.get(key, rank), rank)
        old = sorted(id_ for id_, key, event_key, _ in found if newest[key][2] != event_key)
        if old:
            locked, at = self._settler.lock(connection, old, time)
            changes = [Change(id_, Cancel("collapse")) for id_ in old]
            self._settler.apply(connection, locked, changes, decide, at)


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]


def _subject_key(event: Event) -> bytes:
    return digest(event.tenant, event.subject)


def _collapse_key(event: Event, recipient: str, channel: str) -> bytes:
    return digest(event.tenant, event.collapse, recipient, channel)


def event_values(item: NewEvent, total: int, time: int | None, *, expanded: bool) -> tuple[Any, ...]:
    """The values of EVENT: of an event that is expanded at once, or that a worker will expand."""
    event = item.event
    subject = None if event.subject is None else _subject_key(event)
    return (
        *(item.key, event.tenant, event.event_id, event.type, event.subject, subject, event.thread),
        *(event.priority, event.collapse, item.body_hash, item.body.decode("utf-8", "replace")),
        *(total, total if expanded else 0, expanded, time),
    )


def _notification_values(
    chunk: Chunk, new: NewNotification, generations: dict[int, int], time: int
) -> tuple[Any, ...]:
    address = new.address
    return (
        *(new.id, chunk.event.tenant, chunk.key, new.recipient, new.channel, new.account),
        *((None, 0) if address is None else (address.id, generations[address.id])),
        *(digest(chunk.key.hex(), new.content_key), time, time, 0, *state_values(new.write.state)),
    )


def _desk(chunk: Chunk, new: NewNotification, time: int) -> Dispatch | None:
    event, state, due = chunk.event, new.write.state, new.write.due
    if due is None:
        return None
    return Dispatch(
        id=new.id,
        lane=due.lane or new.channel,
        priority=PRIORITIES.get(event.priority, 1),
        due_at=due.at,
        purpose=due.purpose,
        armed=due.armed,
        leased=False,
        started_at=None,
        owner=None,
        fence=0,
        attempt=0,
        version=state.version,
        rescued=0,
        expires_at=state.expires_at,
        created_at=max(time, due.at or time),
        subject_key=None if event.subject is None else _subject_key(event),
        collapse_key=None if event.collapse is None else _collapse_key(event, new.recipient, new.channel),
    )
