"""Reports of providers: kept first, each once, then carried out through the same table as everything else.

Two transactions: a report is committed before anybody looks for what it names. The other side writes the provider's id
with the verdict that brought it, and wakes reports that wait for it; what comes in between the two is found when the
report is looked at again. So whichever commits last sees the other, and a report that was answered is never lost.

Locks: reports before notifications. The other side holds notifications, so it passes by reports that are locked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from ringonce.core.journal import message_key, read_reference
from ringonce.core.lane import WAY
from ringonce.core.receipts import attempt_of
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import DAY, SECOND
from ringonce.model.receipt import ARRIVALS, Fate, Received, ReportKind
from ringonce.model.transition import Receipt
from ringonce.ports import Change
from ringonce.store.rows import make_attempt, unanswered
from ringonce.store.schema import OPEN, attempts, provider_refs, receipts, timeline
from ringonce.store.values import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from ringonce.model.receipt import Arrival
    from ringonce.ports import AttemptRow, Decide
    from ringonce.store.dialect import Dialect
    from ringonce.store.settle import Locked, Settler

_r, _p, _a, _t = receipts.c, provider_refs.c, attempts.c, timeline.c
KEPT = ("key", "channel", "account", "kind", "reference", "message_id", "ref", "at", "outcome")
KEEP = 30 * DAY
"""How long reports, and the ids that they may name, are kept at least."""
LOOK_FIRST = SECOND
LOOK_LONGEST = DAY
"""A report that names nothing is looked at again after as long as it has waited, for a day."""
_ENCODE = msgspec.json.encode
_DECODE = msgspec.json.Decoder(Outcome).decode


@dataclass(frozen=True, slots=True)
class Kept:
    """A row of ``receipts``, as far as it is read."""

    key: bytes
    channel: str
    account: str
    kind: str
    reference: str | None
    message_id: str | None
    ref: bytes | None
    at: int | None
    outcome: str
    created_at: int


class Receipts:
    """The statements, built once."""

    def __init__(self, dialect: Dialect, settler: Settler) -> None:
        self._dialect = dialect
        self._settler = settler
        among, given, insert = dialect.among, dialect.given, dialect.insert
        types = {name: _r[name].type for name in KEPT}
        self._new = given("r", **types)
        rows = sa.select(
            *(self._new.c[name] for name in KEPT),
            dialect.now,
            dialect.now + sa.literal_column(str(LOOK_FIRST)),
        ).where(sa.true())
        self._keep = (
            insert(receipts)
            .from_select([*KEPT, "created_at", "look_at"], rows)
            .on_conflict_do_nothing(index_elements=["key"])
            .returning(_r.key)
        )
        self._due = (
            sa.select(_r.key)
            .where(OPEN, _r.look_at <= dialect.now)
            .order_by(_r.look_at)
            .limit(sa.bindparam("b_limit", type_=sa.BigInteger))
        )
        self._take = dialect.lock(
            sa.select(*(_r[name] for name in KEPT), _r.created_at)
            .where(OPEN, among(_r.key, "keys"))
            .order_by(_r.key)
        )
        self._refs = sa.select(_p.key, _p.notification_id, _p.attempt).where(among(_p.key, "keys"))
        self._attempts = sa.select(attempts).where(among(_a.notification_id, "ids"))
        self._told = sa.select(_t.notification_id, _t.detail).where(
            among(_t.notification_id, "ids"), _t.kind == "receipt"
        )
        self._seen = given("r", key=_r.key.type, look_at=sa.BigInteger, id=sa.Uuid, attempt=sa.Integer)
        s = self._seen.c
        self._done = (
            sa.update(receipts)
            .where(_r.key == s.key)
            .values(
                look_at=s.look_at,
                notification_id=s.id,
                attempt=s.attempt,
                # What is over is only known by its key: words and ids of a provider may name a person.
                outcome=sa.case((s.look_at.is_(None), ""), else_=_r.outcome),
                message_id=sa.case((s.look_at.is_(None), None), else_=_r.message_id),
            )
        )
        self._later = (
            sa.update(receipts)
            .where(among(_r.key, "keys"), OPEN)
            .values(look_at=dialect.now + sa.literal_column(str(60 * SECOND)))
        )
        self._old = {
            table: sa.delete(table).where(
                dialect.within(
                    table.c.key,
                    sa.select(table.c.key)
                    .where(table.c.created_at <= dialect.now - sa.literal_column(str(KEEP)))
                    .order_by(table.c.created_at, table.c.key)
                    .limit(sa.literal_column("500")),
                )
            )
            for table in (receipts, provider_refs)
        }

    def keep(self, connection: sa.Connection, arrivals: Sequence[Arrival], now: int | None) -> set[bytes]:
        """Store what has come in; the keys of those that are new."""
        rows = {one.key: one for one in arrivals}
        values = []
        for key in sorted(rows):
            one, report = rows[key], rows[key].report
            named = report.message_id
            ref = None if named is None else message_key(one.account, named)
            said = "" if report.outcome is None else _ENCODE(report.outcome).decode()
            values.append(
                (
                    key,
                    one.channel,
                    one.account,
                    report.kind.value,
                    report.reference,
                    named,
                    ref,
                    report.at,
                    said,
                )
            )
        return set(connection.execute(self._keep, self._new.bind(values) | {"now": now}).scalars())

    def due(self, connection: sa.Connection, limit: int, now: int | None) -> list[bytes]:
        """Reports that are to be looked at again."""
        return list(connection.execute(self._due, {"b_limit": limit, "now": now}).scalars())

    def postpone(self, connection: sa.Connection, keys: Sequence[bytes], now: int | None) -> None:
        """Let reports that can not be carried out wait a while."""
        connection.execute(self._later, {"keys": self._dialect.listed(keys), "now": now})

    def prune(self, connection: sa.Connection, now: int | None) -> dict[str, int]:
        """Remove some of what is older than 30 days; how many rows of each table went."""
        return {
            table.name.removeprefix("ringonce_"): connection.execute(statement, {"now": now}).rowcount
            for table, statement in self._old.items()
        }

    # --- carrying out -----------------------------------------------------------------------------------------

    def look(
        self,
        connection: sa.Connection,
        keys: Collection[bytes],
        decide: Decide,
        accounts: Mapping[str, str],
        now: int | None,
    ) -> list[Received]:
        """Find what reports mean and carry it out; what nobody else is at work on, and what is not done yet."""
        found = connection.execute(self._take, {"keys": self._dialect.listed(sorted(keys))})
        kept = [Kept(*values) for values in found]
        if not kept:
            return []
        # Arrivals first: what failed besides is then known to be overtaken.
        kept.sort(key=lambda one: (one.kind not in ARRIVALS, one.at or 0))
        meant = self._meant(connection, kept)
        locked, time = self._settler.lock(connection, (id_ for id_, _, _ in meant.values()), now)
        facts = _Facts(self, connection, locked, kept, meant, accounts, time)
        changes: list[tuple[Kept, Change]] = []
        result: list[Received] = []
        seen: list[tuple[bytes, int | None, UUID | None, int | None]] = []
        for one in kept:
            change = facts.change(one)
            if isinstance(change, Change):
                changes.append((one, change))
                seen.append((one.key, None, change.id, facts.number(change)))
                continue
            later = _later(one, time)
            fate = Fate.UNMATCHED if later is None else change
            result.append(Received(one.key, one.channel, one.kind, fate))
            seen.append((one.key, later, None, None))
        settled = self._settler.apply(connection, locked, [change for _, change in changes], decide, time)
        for (one, _), made in zip(changes, settled, strict=True):
            result.append(Received(one.key, one.channel, one.kind, Fate.TAKEN, made))
        connection.execute(self._done, self._seen.bind(sorted(seen, key=lambda row: row[0])))
        return result

    def _meant(
        self, connection: sa.Connection, kept: Sequence[Kept]
    ) -> dict[bytes, tuple[UUID, int | None, int | None]]:
        """Key of a report -> (notification, revision, attempt): by our reference, else by the provider's id."""
        meant: dict[bytes, tuple[UUID, int | None, int | None]] = {}
        asked: dict[bytes, list[bytes]] = defaultdict(list)
        for one in kept:
            read = read_reference(one.reference)
            if read is not None:
                meant[one.key] = (*read, None)
            elif one.ref is not None:
                asked[one.ref].append(one.key)
        if asked:
            listed = {"keys": self._dialect.listed(sorted(asked))}
            for ref, id_, number in connection.execute(self._refs, listed):
                meant |= dict.fromkeys(asked[ref], (id_, None, number))
        return meant

    def attempts_of(self, connection: sa.Connection, ids: Collection[UUID]) -> dict[UUID, list[AttemptRow]]:
        """All stored attempts of notifications."""
        result: dict[UUID, list[AttemptRow]] = defaultdict(list)
        if ids:
            for values in connection.execute(self._attempts, {"ids": self._dialect.listed(sorted(ids))}):
                result[values[0]].append(make_attempt(values))
        return result

    def arrived(self, connection: sa.Connection, ids: Collection[UUID]) -> set[tuple[UUID, int]]:
        """The attempts of notifications that were reported as arrived before."""
        if not ids:
            return set()
        told = connection.execute(self._told, {"ids": self._dialect.listed(sorted(ids))})
        notes = [(id_, load(detail)) for id_, detail in told]
        return {(id_, note["attempt"]) for id_, note in notes if note.get("kind") in ARRIVALS}


class _Facts:
    """What is known about the notifications that a batch of reports names."""

    def __init__(
        self,
        statements: Receipts,
        connection: sa.Connection,
        locked: dict[UUID, Locked],
        kept: Sequence[Kept],
        meant: dict[bytes, tuple[UUID, int | None, int | None]],
        accounts: Mapping[str, str],
        now: int,
    ) -> None:
        self._accounts = accounts
        self._now = now
        self._locked = locked
        self._meant = meant
        self._attempts = statements.attempts_of(connection, locked.keys())
        failed = {meant[one.key][0] for one in kept if one.kind == ReportKind.FAILED and one.key in meant}
        self._arrived = statements.arrived(connection, failed & locked.keys())

    def change(self, one: Kept) -> Change | Fate:
        """What the report means, or why it means nothing yet."""
        if one.key not in self._meant:
            return Fate.UNKNOWN
        id_, revision, number = self._meant[one.key]
        item = self._locked.get(id_)
        if item is None:
            return Fate.UNKNOWN
        known = self._attempts.get(id_, [])
        desk, state = item.dispatched, item.state
        running = desk.attempt if desk is not None and desk.started_at is not None else None
        if number is None:
            if one.channel != item.row.channel and not self._carries(item.row.channel, one.account):
                return (
                    Fate.UNKNOWN
                )  # nobody reports about what others sent; of the provider's own id the key says it
            number = attempt_of(
                # Of several providers of a channel each knows its own calls only.
                [call for call in known if call.account == one.account] or known,
                revision=revision or 1,
                message_id=one.message_id,
                running=running if revision == state.revision else None,
                rests_on=state.rests_on,
            )
        told = next((attempt for attempt in known if attempt.number == number), None)
        if number is None:
            return Fate.UNKNOWN
        arrived = one.kind in ARRIVALS
        if told is None or (running is not None and not arrived):
            # Its answer is not committed: an arrival is good news at any time, all else waits for the verdict.
            if not (arrived and running == number and desk is not None):
                return Fate.EARLY
            told = replace(unanswered(item.row, desk, "receipt"), ended_at=self._now)
        outcome = _outcome(one, told)
        event = Receipt(number, one.kind, outcome, one.at, confirmed=(id_, number) in self._arrived)
        if arrived:
            self._arrived.add((id_, number))
        decided = _verdict(told, outcome) if told.outcome == "unknown" else None
        return Change(id_, event, attempt=decided)

    def _carries(self, channel: str, account: str) -> bool:
        """One of the channel's providers is called with this account."""
        return any(
            own == account and (name == channel or name.startswith(channel + WAY))
            for name, own in self._accounts.items()
        )

    @staticmethod
    def number(change: Change) -> int:
        """The attempt that a change is about."""
        return change.event.attempt if isinstance(change.event, Receipt) else 0


def _outcome(one: Kept, told: AttemptRow) -> Outcome | None:
    """What is reported, about the address as it was when the call began."""
    if one.kind != ReportKind.FAILED:
        return Outcome(OutcomeClass.ACCEPTED, message_id=one.message_id or told.message_id)
    if not one.outcome:
        return None
    outcome = _DECODE(one.outcome)
    return outcome if outcome.proof_at is not None else replace(outcome, proof_at=told.started_at)


def _verdict(told: AttemptRow, outcome: Outcome | None) -> AttemptRow | None:
    """The attempt whose end nobody knew, as the report has it; None: it knows no more."""
    if outcome is None or (outcome.ambiguous and outcome.cls is OutcomeClass.TRANSIENT):
        return None
    return replace(
        told,
        outcome=outcome.cls.value,
        code=None if outcome.code is None else outcome.code.value,
        provider_code=outcome.provider_code,
        message_id=outcome.message_id or told.message_id,
        answer=outcome.text,
        rule=outcome.rule or "receipt",
    )


def _later(one: Kept, now: int) -> int | None:
    """When it is looked at again; None: never."""
    waited = now - one.created_at
    return None if waited >= LOOK_LONGEST else now + max(LOOK_FIRST, waited)
