"""What a batch of changes writes beside the notifications, collected row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.journal import message_key
from ringonce.model.policy import DAY

if TYPE_CHECKING:
    from uuid import UUID

    from ringonce.model.audit import Failure
    from ringonce.model.transition import Note
    from ringonce.ports import AttemptRow, Invalidation, LanePause, OutboxRow, Settled, Write


class Ledger:
    """What a batch writes, collected row by row."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.attempts: dict[tuple[UUID, int], tuple[AttemptRow, bool]] = {}
        self.notes: list[tuple[UUID, Note]] = []
        self.outbox: list[OutboxRow] = []
        self.invalidations: list[Invalidation] = []
        self.dropped: dict[int, OutboxRow] = {}
        self.moves: list[tuple[UUID, Invalidation]] = []
        self.pauses: list[LanePause] = []
        self.began: set[str] = set()
        self.counters: dict[tuple[int, str, str, str], int] = {}
        self.stored: list[tuple[str, str, UUID]] = []
        self.read: list[tuple[str, str, UUID]] = []
        self.failures: list[tuple[UUID, Failure]] = []
        self.named: list[tuple[bytes, UUID, int]] = []

    def attempt(self, id_: UUID, row: AttemptRow) -> None:
        """Insert or update one; the last word of a batch counts, a doubt is remembered."""
        _, doubt = self.attempts.get((id_, row.number), (row, False))
        self.attempts[id_, row.number] = (row, doubt or row.outcome == "unknown")

    def collect(self, id_: UUID, tenant: str, recipient: str, channel: str, write: Write) -> None:
        """Keep what goes beside the notification."""
        if write.stored:
            self.stored.append((tenant, recipient, id_))
        if write.read:
            self.read.append((tenant, recipient, id_))
        if write.failure is not None:
            self.failures.append((id_, write.failure))
        if write.named is not None:
            account, message_id, number = write.named
            self.named.append((message_key(account, message_id), id_, number))
        self.notes.extend((id_, note) for note in write.notes)
        self.outbox.extend(write.outbox)
        if write.invalidate:
            self.invalidations.extend(write.invalidate)
            self.moves.extend((id_, told) for told in write.invalidate if told.replace_with is not None)
        self.pauses.extend(write.pauses)
        for name in write.counters:
            key = (self.now // DAY, tenant, channel, name)
            self.counters[key] = self.counters.get(key, 0) + 1

    def told(self, settled: list[Settled]) -> list[Settled]:
        """Which of them began a pause or dropped an address: the first that named it, so that people are told once."""
        for index, one in enumerate(settled if self.dropped else ()):
            write = one.write
            if write is not None and write.invalidate:
                gone = (self.dropped.pop(verdict.address_id, None) for verdict in write.invalidate)
                outbox = (*write.outbox, *(row for row in gone if row is not None))
                settled[index] = replace(one, write=replace(write, outbox=outbox))
        for index, one in enumerate(settled if self.began else ()):
            pauses = () if one.write is None else one.write.pauses
            if began := tuple(sorted(self.began.intersection(pause.lane for pause in pauses))):
                settled[index] = replace(one, began=began)
                self.began.difference_update(began)
        return settled
