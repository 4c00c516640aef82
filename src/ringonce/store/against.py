"""Verdicts against addresses inside a settle: weighed before anything is decided, carried out with the rest.

An address is dropped, set apart, or replaced by the one that the provider names. The row of the old one remembers its
successor, so that whoever comes to it later, with a notification that was accepted or claimed meanwhile, follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.core.journal import event_key
from ringonce.model.outcome import OutcomeClass
from ringonce.model.proposals import MOVED
from ringonce.model.transition import Alert, Answered, Receipt
from ringonce.store.schema import attempts, notifications

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.model.notification import Address
    from ringonce.model.outcome import Outcome
    from ringonce.ports import Change, Decide, Invalidation, Write
    from ringonce.store.addresses import Addresses
    from ringonce.store.breakers import Breakers
    from ringonce.store.dialect import Dialect
    from ringonce.store.ledger import Ledger
    from ringonce.store.settle import Locked

_n = notifications.c
UNTOLD = ("suppressed", "cancelled", "expired")
"""What stands there and told nobody."""
TOLD_THERE = "the address has moved to one that has a notification of this event already"
LONGEST_CHAIN = 5
"""So often an address may have moved on."""


class AgainstAddresses:
    """What a batch of changes means for addresses."""

    def __init__(self, dialect: Dialect, addresses: Addresses, breakers: Breakers) -> None:
        self._addresses = addresses
        self._breakers = breakers
        self._other = sa.select(_n.id).where(
            _n.event_key == sa.bindparam("b_key", type_=_n.event_key.type),
            _n.address_id == sa.bindparam("b_address", type_=sa.BigInteger),
            _n.id != sa.bindparam("b_id", type_=sa.Uuid),
            _n.status.not_in([sa.literal_column(f"'{status}'") for status in UNTOLD]),
        )
        rows = self._calls = dialect.given("r", id=sa.Uuid, number=sa.Integer)
        c = attempts.c
        self._begun = sa.select(c.notification_id, c.number, c.started_at).where(
            c.notification_id == rows.c.id, c.number == rows.c.number
        )

    # --- before anything is decided ---------------------------------------------------------------------------

    def weigh(
        self,
        connection: sa.Connection,
        locked: dict[UUID, Locked],
        changes: Sequence[Change],
        decide: Decide,
        now: int,
    ) -> tuple[Sequence[Change], dict[str, str]]:
        """The changes as they are to be decided, and the credentials that have tripped by them, with the reason."""
        places = [place for place, change in enumerate(changes) if _concerns(change.event)]
        if not places:
            return changes, {}
        made = list(changes)
        self._date(connection, made, places)
        told: dict[str, list[tuple[int, Locked, Invalidation]]] = {}
        for place in places:
            change, item = made[place], locked.get(made[place].id)
            if item is None:
                continue
            if isinstance(change.event, Answered) and not change.event.begun:
                change = self._followed(connection, change, item)
            change = made[place] = self._told_there(connection, change, item)
            held = item.dispatched is not None and item.dispatched.held_by(change.guard)
            for verdict in decide(item.now(), change, held, now).invalidate:
                if verdict.by is not None and verdict.proposal is not None:
                    told.setdefault(verdict.by, []).append((place, item, verdict))
        tripped: dict[str, str] = {}
        for name in sorted(told):
            doubted, why = self._weighed(connection, name, told[name], now)
            if doubted:
                for place, _, _ in told[name]:
                    made[place] = _doubted(made[place])
            if why is not None:
                tripped[name] = why
        return made, tripped

    def _weighed(
        self,
        connection: sa.Connection,
        name: str,
        told: Sequence[tuple[int, Locked, Invalidation]],
        now: int,
    ) -> tuple[bool, str | None]:
        """Whether verdicts of one credential are doubted. Each address that would go counts once."""
        asked = {
            verdict.address_id: (verdict.address_id, item.row.tenant, item.row.recipient, item.row.id)
            for _, item, verdict in told
            if _would_go(item.row.address, verdict)
        }
        good = self._breakers.good(connection, list(asked.values()), now)
        proposal = max(
            (verdict.proposal for _, _, verdict in told if verdict.proposal is not None),
            key=lambda one: one.accepted,
        )
        return self._breakers.weigh(connection, name, proposal, len(good), len(asked) - len(good), now)

    def _date(self, connection: sa.Connection, changes: list[Change], places: Sequence[int]) -> None:
        """A receipt that does not say when speaks of the time at which its call began."""
        undated = {
            (change.id, change.event.attempt): place
            for place in places
            if isinstance((change := changes[place]).event, Receipt)
            and change.event.outcome is not None
            and change.event.outcome.proof_at is None
        }
        if not undated:
            return
        for id_, number, started_at in connection.execute(self._begun, self._calls.bind(sorted(undated))):
            place = undated[id_, number]
            change = changes[place]
            event: Any = change.event
            dated = replace(event.outcome, proof_at=started_at)
            changes[place] = replace(change, event=replace(event, outcome=dated))

    def _followed(self, connection: sa.Connection, change: Change, item: Locked) -> Change:
        """No call was made, for the address is not in use any more; where it has moved, the notification follows."""
        address, event = item.row.address, change.event
        if address is None or address.invalidated_at is None or address.reason != MOVED:
            return change
        assert isinstance(event, Answered)
        last: int | None = address.id
        for _ in range(LONGEST_CHAIN):
            found = None if last is None else self._addresses.one(connection, last)
            if found is None:
                break
            successor, _, last = found
            if successor.invalidated_at is None:
                followed = replace(event.outcome, re_address=successor.value, drop_address=False)
                return replace(change, event=replace(event, outcome=followed))
            if successor.reason != MOVED:
                break
        return change

    def _told_there(self, connection: sa.Connection, change: Change, item: Locked) -> Change:
        """Where the successor has a notification of this event already, this one has nobody left to tell."""
        event: Any = change.event
        value = event.outcome.re_address
        if value is None:
            return change
        row = item.row
        new = self._addresses.known(connection, row.tenant, row.channel, value)
        if new is None or (row.address is not None and new[0].id == row.address.id):
            return change
        other = {"b_key": event_key(row.tenant, row.event_id), "b_address": new[0].id, "b_id": row.id}
        if connection.execute(self._other, other).first() is None:
            return change
        ended = replace(event.outcome, re_address=None, drop_address=True, text=TOLD_THERE)
        return replace(change, event=replace(event, outcome=ended))

    def told(self, write: Write, tripped: dict[str, str]) -> Write:
        """The first change that is doubted tells people of what has tripped; ``tripped`` is emptied."""
        alerts = write.alerts
        for verdict in write.invalidate:
            if verdict.doubted and verdict.by in tripped:
                why = tripped.pop(verdict.by)
                told = Alert("mass_invalidation", f"{why}: nothing is dropped any more, and it is paused")
                alerts = (*alerts, (told.kind, told.text))
        return replace(write, alerts=alerts)

    # --- with the rest ----------------------------------------------------------------------------------------

    def carry_out(
        self, connection: sa.Connection, items: Sequence[Locked], ledger: Ledger
    ) -> dict[UUID, tuple[int, int]]:
        """Drop, set apart and replace; where notifications go now: (address, generation)."""
        ledger.invalidations.sort(key=lambda item: item.address_id)
        gone = self._addresses.drop(connection, ledger.invalidations, None, ledger.now)
        ledger.dropped |= gone
        here = {item.row.id: item.row.address for item in items}
        found: dict[UUID, tuple[int, int]] = {}
        successors: dict[tuple[int, str], tuple[int, int] | None] = {}
        for id_, verdict in ledger.moves:
            key = (verdict.address_id, verdict.replace_with or "")
            if key not in successors:
                successors[key] = self._successor(connection, verdict, ledger.now, new=key[0] in gone)
            successor, address = successors[key], here.get(id_)
            if successor is not None and address is not None and address.id == verdict.address_id:
                found[id_] = successor
        return found

    def _successor(
        self, connection: sa.Connection, verdict: Invalidation, now: int, *, new: bool
    ) -> tuple[int, int] | None:
        """The address that takes the place of one; None: it was registered again meanwhile, and stays."""
        known = self._addresses.one(connection, verdict.address_id)
        if known is None or verdict.replace_with is None:
            return None
        old, _, _ = known
        if old.invalidated_at is None:
            return None
        named = (old.tenant, old.channel, verdict.replace_with)
        # Somebody may have registered it himself: then it stays his. Only news brings a dead one back to life.
        found = None if new else self._addresses.known(connection, *named)
        if found is None:
            owned = (old.tenant, old.recipient, old.channel, verdict.replace_with)
            found = self._addresses.name_many(connection, [owned], now)[named]
        if new and found[0].id != old.id:
            self._addresses.move(connection, old.id, found[0].id)
        return found[0].id, found[1]


def _concerns(event: Any) -> bool:
    """It says something about an address, or met one that is not in use any more."""
    outcome: Outcome | None = getattr(event, "outcome", None)
    if outcome is None:
        return False
    unbegun = isinstance(event, Answered) and not event.begun
    return (
        outcome.drop_address
        or outcome.re_address is not None
        or (unbegun and outcome.cls is OutcomeClass.INVALID_RECIPIENT)
    )


def _would_go(address: Address | None, verdict: Invalidation) -> bool:
    """The verdict would drop it: it is the one that was called, live, and older than the proof."""
    if address is None or address.id != verdict.address_id or address.invalidated_at is not None:
        return False
    return verdict.proof_at is None or address.registered_at < verdict.proof_at


def _doubted(change: Change) -> Change:
    """The same verdict, not believed."""
    event: Any = change.event
    outcome = replace(event.outcome, doubted=True)
    call = change.attempt
    if call is not None:
        call = replace(call, rule=f"{call.rule}; the verdict is doubted".removeprefix("; "))
    return replace(change, event=replace(event, outcome=outcome), attempt=call)
