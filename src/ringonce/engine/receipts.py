"""Reports of providers, from wherever they come, to the one table that decides what they mean."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.core.journal import receipt_key
from ringonce.engine.settle import report as tell
from ringonce.errors import ForgedError, NotFoundError
from ringonce.model.receipt import OF_ADDRESSES, AddressReport, Arrival, Fate, Report
from ringonce.provider import Context

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.engine import Engine
    from ringonce.model.receipt import Callback, Received

log = logging.getLogger("ringonce")

BATCH = 200
LOOK_EVERY = 1.0
IDLE = 5.0
"""Seconds between looks while no channel's provider reports about messages."""
FORGED = "forged"
COUNTED_AGAIN = frozenset({Fate.TAKEN, Fate.UNMATCHED})
"""What a second look may tell that the first has not."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller is told. ``text``: what a handshake asks for; else how many ``reports`` there were of each fate."""

    status: int
    text: str | None
    reports: Mapping[str, int]


class Receipts:
    """What providers report later. ``take`` is the way in for all; ``callback`` that of vendors that call a URL."""

    def __init__(self, engine: Engine) -> None:
        """Nothing happens before it is called."""
        self._engine = engine

    async def callback(self, channel: str, callback: Callback) -> Reply:
        """A vendor's call: verified, read, and committed when this returns.

        Raises:
            ForgedError: its signature is missing, wrong or too old; nothing was done.
            NotFoundError: no such channel, or its provider reports nothing.
            InputError: it was signed, and can not be read all the same.
            StoreError: nothing may have been kept; let the vendor call again.
        """
        entry = self._entry(channel)
        if not entry.provider.receipts_by:
            raise NotFoundError(f"channel {channel} takes no receipts", field="channel")
        context = Context(self._engine.clock.now())
        try:
            text = entry.provider.handshake(callback, context)
            reports = () if text is not None else entry.provider.receipts(callback, context)
        except ForgedError:
            # Many of them say that the secret is not the vendor's.
            self._count(channel, "unknown", FORGED)
            raise
        if text is not None:
            return Reply(200, text, {})
        fates = await self.take(channel, reports)
        return Reply(entry.provider.receipts_status, None, fates)

    async def take(self, channel: str, reports: Sequence[Report]) -> dict[str, int]:
        """Commit reports of a channel's provider and carry them out; how many came to which fate.

        For whoever has verified them: a callback's signature, or a connection of the channel's own. Reports may be
        repeated, early, late and unordered, see ``model.receipt``. Raises NotFoundError; StoreError: bring them again.
        """
        entry = self._entry(channel)
        engine, account = self._engine, _account(entry)
        blocks = [one for one in reports if one.kind in OF_ADDRESSES and one.address is not None]
        if blocks:
            told = [AddressReport(one.address or "", one.kind == "blocked", one.at) for one in blocks]
            changed = await engine.store.block(self._sharing(account), told, tell=engine.telemetry.tell)
            log.info("%d addresses of %s were blocked or live again", changed, channel)
            for one in blocks:
                self._count(channel, one.kind.value, Fate.TAKEN)
        arrivals = [
            Arrival(_key(account, one), channel, account, one)
            for one in reports
            if one.kind not in OF_ADDRESSES
        ]
        received = await engine.store.receive(arrivals, engine.decide, self._accounts())
        self._carried_out(received, frozenset(Fate))
        return dict(Counter([Fate.TAKEN.value] * len(blocks) + [one.fate.value for one in received]))

    async def turn(self) -> float:
        """Look again for what early reports name. A duty of each worker; returns the seconds until the next turn."""
        engine = self._engine
        if not any(entry.provider.receipts_by in _OF_MESSAGES for entry in engine.channels.ways().values()):
            return IDLE
        received = await engine.store.look_again(engine.decide, self._accounts(), limit=BATCH)
        self._carried_out(received, COUNTED_AGAIN)
        return 0.0 if len(received) >= BATCH else LOOK_EVERY

    def _carried_out(self, received: Sequence[Received], counted: Collection[Fate]) -> None:
        engine = self._engine
        settled = [one.settled for one in received if one.settled is not None]
        tell(engine.telemetry, *settled)
        again = {one.row.channel for one in settled if one.row and one.write and not one.write.state.final}
        if again:
            engine.notify_workers(again)
        for one in received:
            if one.fate in counted:
                self._count(one.channel, one.kind, one.fate)

    def _count(self, channel: str, kind: str, fate: str) -> None:
        self._engine.telemetry.count("ringonce_receipts_total", channel=channel, kind=kind, fate=str(fate))

    def _accounts(self) -> dict[str, str]:
        return {name: _account(entry) for name, entry in self._engine.channels.ways().items()}

    def _sharing(self, account: str) -> list[str]:
        """The channels that reach the same people by the same account: to block one of them is to block all."""
        return [name for name, own in self._accounts().items() if own == account]

    def _entry(self, channel: str) -> Entry:
        entry = self._engine.channels.way(channel)
        if entry is None:
            raise NotFoundError(f"no channel {channel!r}", field="channel")
        return entry


_OF_MESSAGES = frozenset({"reference", "message_id"})


def _account(entry: Entry) -> str:
    return entry.channel.account or entry.provider.account


def _key(account: str, one: Report) -> bytes:
    """What makes it this report: the vendor's name for it, or all that it says."""
    if one.id:
        return receipt_key(account, one.id)
    code = None if one.outcome is None else f"{one.outcome.cls.value} {one.outcome.provider_code}"
    at = None if one.at is None else str(one.at)
    return receipt_key(account, one.kind.value, one.reference, one.message_id, at, code)
