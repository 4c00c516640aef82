"""Forgetting a person.

What is counted stays: notifications with their status, attempts and times, under the name ``(erased)``. What is said,
who was meant and where they were reached goes. The digests of the journal stay too, so that an event that is told
again still reaches nobody twice. Events of ours in the outbox name nobody and need no erasing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.journal import recipient_key
from ringonce.model.transition import Cancel, Note
from ringonce.ports import Change
from ringonce.store.schema import (
    addresses,
    attempts,
    contents,
    drafts,
    events,
    journal,
    notifications,
    recipients,
    timeline,
)
from ringonce.store.values import clean, digest, dump, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.ports import Decide, Write
    from ringonce.store.dialect import Dialect
    from ringonce.store.settle import Settler

ERASED = "(erased)"
AT_ONCE = 200
"""Notifications of one person that are erased in one transaction."""

_r, _a, _n, _e = recipients.c, addresses.c, notifications.c, events.c


@dataclass(frozen=True, slots=True)
class Names:
    """What points to a person: their id, and (channel, value) of each of their addresses."""

    id: str
    places: tuple[tuple[str, str], ...]

    @property
    def recipients(self) -> list[str]:
        """Under which names their notifications stand: an address that was named by ``to`` stands for them."""
        return [self.id, *(f"{channel}:{value}" for channel, value in self.places)]

    def scrub(self, value: Any) -> Any:
        """The same JSON without them."""
        if isinstance(value, str):
            if value in {self.id, *self.recipients}:
                return ERASED
            for _, place in self.places:
                value = value.replace(place, ERASED)
            return value
        if isinstance(value, dict):
            return {key: self.scrub(item) for key, item in value.items()}
        return [self.scrub(item) for item in value] if isinstance(value, list) else value


def wordless(write: Write, change: Change) -> Write:
    """What follows from ``change`` for an erased person: it may answer a call that began before the erasure.

    Attempt, status and codes are stored; the provider's words and its name for the message may name the person.
    """
    attempt, state = write.attempt or change.attempt, write.state
    if attempt is not None:
        attempt = replace(attempt, answer="", message_id=None)
    error = replace(state.last_error, text="") if state.last_error else None
    notes = tuple(
        replace(note, detail={key: value for key, value in note.detail.items() if key != "text"})
        for note in write.notes
    )
    return replace(
        write,
        attempt=attempt,
        state=replace(state, last_error=error, message_id=None),
        notes=notes,
        named=None,
    )


class Erasure:
    """Statements that forget a person, built once."""

    def __init__(self, dialect: Dialect, settler: Settler) -> None:
        self._dialect = dialect
        self._settler = settler
        among, insert = dialect.among, dialect.insert
        key = _r.key == sa.bindparam("b_key", type_=_r.key.type)
        self._remove = sa.delete(recipients).where(key)

        tenant = sa.bindparam("b_tenant", type_=sa.Text)
        owned = sa.and_(_a.tenant == tenant, _a.recipient == sa.bindparam("b_recipient", type_=sa.Text))
        self._places = sa.select(_a.channel, _a.value).where(owned).order_by(_a.id)
        self._leave = (
            sa.update(addresses)
            .where(owned, _a.invalidated_at.is_(None))
            .values(
                invalidated_at=_a.registered_at,
                reason=sa.literal("erased"),
                quarantined_at=None,
                refused_by=None,
            )
        )
        # The address of an in-app copy that was named by ``to`` is the person's id.
        meant = sa.and_(
            _a.value == sa.bindparam("b_recipient", type_=sa.Text),
            _a.recipient == _a.channel + ":" + _a.value,
        )
        self._forget = sa.delete(addresses).where(
            _a.tenant == tenant, sa.or_(among(_a.recipient, "names"), meant)
        )
        self._open = (
            sa.select(_e.key, _e.body)
            .where(_e.tenant == tenant, sa.not_(_e.expanded))
            .order_by(_e.key)
            .with_for_update()
        )
        self._of = (
            sa.select(_n.id)
            .where(_n.tenant == tenant, among(_n.recipient, "names"))
            .order_by(_n.id)
            .limit(AT_ONCE)
        )
        ids = among(_n.id, "ids")
        self._told = sa.select(_n.event_key, _n.content_id).where(ids).distinct()
        self._shared = (
            sa.select(_n.event_key, _n.content_id)
            .where(among(_n.event_key, "keys"), sa.not_(among(_n.recipient, "names")))
            .distinct()
        )
        self._blank = (
            sa.update(notifications)
            .where(ids)
            .values(recipient=sa.literal(ERASED), address_id=None, error_text=None, message_id=None)
        )
        self._unsay = (
            sa.update(contents)
            .where(among(contents.c.id, "ids"))
            .values(title=None, text=None, html=None, data=sa.literal("{}"))
        )
        # Its digest stays, like those of the journal: what was answered once is not answered again.
        self._unname = (
            sa.update(drafts)
            .where(among(drafts.c.notification_id, "ids"))
            .values(name=sa.literal(ERASED), scenario=None)
        )
        told = among(attempts.c.notification_id, "ids")
        self._unanswer = sa.update(attempts).where(told).values(answer=sa.literal(""), message_id=None)
        self._notes = sa.select(timeline.c.id, timeline.c.detail).where(
            among(timeline.c.notification_id, "ids")
        )
        note = timeline.c.id == sa.bindparam("b_id", type_=timeline.c.id.type)
        self._renote = sa.update(timeline).where(note).values(detail=sa.bindparam("b_detail", type_=sa.Text))
        self._bodies = (
            sa.select(_e.key, _e.body).where(among(_e.key, "keys")).order_by(_e.key).with_for_update()
        )
        self._rebody = (
            sa.update(events)
            .where(_e.key == sa.bindparam("b_key", type_=_e.key.type))
            .values(body=sa.bindparam("b_body", type_=sa.Text))
        )
        self._entries = (
            sa.update(journal).where(among(journal.c.key, "keys")).values(recipient=sa.literal(ERASED))
        )
        columns = ("key", "event_key", "recipient", "created_at")
        self._rows = dialect.given("r", **{name: journal.c[name].type for name in columns})
        entered = insert(journal).from_select(
            list(columns), sa.select(*(self._rows.c[name] for name in columns)).where(sa.true())
        )
        self._enter = entered.on_conflict_do_nothing(index_elements=["key"])

    def leave(self, connection: sa.Connection, tenant: str, recipient: str) -> Names:
        """End what leads to new notifications: the record, the addresses, the place in events being expanded."""
        owner = {"b_tenant": clean(tenant), "b_recipient": clean(recipient)}
        places = tuple((channel, value) for channel, value in connection.execute(self._places, owner))
        names = Names(clean(recipient), places)
        connection.execute(self._leave, owner)
        connection.execute(self._remove, {"b_key": digest(clean(tenant), clean(recipient))})
        self._rewrite(connection, names, connection.execute(self._open, owner).all(), set(), enter=True)
        return names

    def of(self, connection: sa.Connection, tenant: str, names: Names) -> list[UUID]:
        """The next of their notifications."""
        bound = {"b_tenant": clean(tenant), "names": self._dialect.listed(names.recipients)}
        return list(connection.execute(self._of, bound).scalars())

    def erase(
        self,
        connection: sa.Connection,
        names: Names,
        ids: Sequence[UUID],
        by: str,
        decide: Decide,
        now: int | None,
    ) -> None:
        """Stop these notifications and take out whom they were for and what they said."""
        locked, time = self._settler.lock(connection, ids, now)
        stopped = [
            Change(id_, Cancel(by, "erased")) for id_, item in locked.items() if not item.row.state.final
        ]
        self._settler.apply(connection, locked, stopped, decide, time)
        listed = {"ids": self._dialect.listed(ids)}
        told = connection.execute(self._told, listed).all()
        keys = sorted({key for key, _ in told})
        others = connection.execute(
            self._shared,
            {"keys": self._dialect.listed(keys), "names": self._dialect.listed([*names.recipients, ERASED])},
        ).all()
        kept = {content for _, content in others}
        alone = set(keys) - {key for key, _ in others}
        gone = sorted({content for _, content in told} - kept)
        connection.execute(self._unsay, {"ids": self._dialect.listed(gone)})
        bodies = connection.execute(self._bodies, {"keys": self._dialect.listed(keys)}).all()
        self._rewrite(connection, names, bodies, alone, enter=False)
        connection.execute(self._blank, listed)
        connection.execute(self._unname, listed)
        connection.execute(self._unanswer, listed)
        for id_, detail in connection.execute(self._notes, listed).all():
            scrubbed = dump(names.scrub(load(detail)))
            if scrubbed != detail:
                connection.execute(self._renote, {"b_id": id_, "b_detail": scrubbed})
        self._settler.note(connection, [(id_, Note("erased", {"by": by})) for id_ in ids], time)

    def forget(self, connection: sa.Connection, tenant: str, names: Names) -> None:
        """Forget where they were reached, and their inbox."""
        bound = {"b_tenant": clean(tenant), "names": self._dialect.listed(names.recipients)}
        connection.execute(self._forget, bound | {"b_recipient": names.id})
        self._settler.outbox.forget(connection, clean(tenant), names.id)
        self._settler.failures.forget(connection, clean(tenant), names.recipients)
        self._settler.inboxes.forget(connection, tenant, names.id)

    def _rewrite(
        self,
        connection: sa.Connection,
        names: Names,
        bodies: Sequence[Any],
        alone: set[bytes],
        *,
        enter: bool,
    ) -> None:
        """Take them out of events. Their place stays, for the cursor counts places; the journal lets nobody in."""
        for key, body in bodies:
            event = json.loads(body)
            before = json.dumps(event)
            people, to = event.get("recipients") or [], event.get("to") or {}
            mine = [place for place, who in enumerate(people) if who["id"] == names.id]
            for place in mine:
                people[place] = {"id": ERASED, "locale": None, "timezone": None, "addresses": {}}
            ways = [way for way, value in to.items() if (way, value) in names.places or value == names.id]
            meant = [f"{way}:{names.id}" for way in ways]
            for way in ways:
                to[way] = ERASED
            event["mentions"] = [ERASED if who == names.id else who for who in event.get("mentions") or []]
            if key in alone:
                event |= {"content": None, "data": {}}
            if json.dumps(event) == before:
                continue
            connection.execute(
                self._rebody, {"b_key": key, "b_body": json.dumps(event, separators=(",", ":"))}
            )
            entries = [recipient_key(key, name, direct=True) for name in (*names.recipients, *meant)]
            entries.append(recipient_key(key, names.id, direct=False))
            connection.execute(self._entries, {"keys": self._dialect.listed(entries)})
            if enter:
                rows = [(recipient_key(key, ERASED, direct=False), key, ERASED, 0)] if mine else []
                rows += [(recipient_key(key, f"{way}:{ERASED}", direct=True), key, ERASED, 0) for way in ways]
                connection.execute(self._enter, self._rows.bind(rows))
