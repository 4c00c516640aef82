"""Reports that come over connections of ours, not by callbacks: from the wire to where all receipts go."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ringonce.ports import Hearing
from ringonce.provider import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.engine import Engine
    from ringonce.model.exchange import SmsCenter, SmsDelivered
    from ringonce.model.receipt import Report

log = logging.getLogger("ringonce")


def listen(engine: Engine) -> None:
    """Keep in touch with all that channels hear reports from. The wire has been started.

    Several channels may share a connection: what comes over it is told to one of each account.
    """
    if not isinstance(engine.wire, Hearing):
        return
    channels: dict[SmsCenter, dict[str, str]] = {}
    for name, entry in engine.channels.ways().items():
        center = entry.provider.hears()
        if center is not None:
            account = entry.channel.account or entry.provider.account
            channels.setdefault(center, {}).setdefault(account, name)
    for center, named in channels.items():
        engine.wire.listen(center, _Ear(engine, tuple(named.values())))


class _Ear:
    """Takes what is delivered, and returns when it is committed. Raises StoreError: deliver it again."""

    def __init__(self, engine: Engine, channels: tuple[str, ...]) -> None:
        self._engine = engine
        self._channels = channels

    async def __call__(self, delivered: Sequence[SmsDelivered]) -> None:
        context = Context(self._engine.clock.now())
        for channel in self._channels:
            entry = self._engine.channels.way(channel)
            reports = (
                [] if entry is None else [one for told in delivered for one in _read(entry, told, context)]
            )
            if reports:
                await self._engine.receipts.take(channel, reports)


def _read(entry: Entry, delivered: SmsDelivered, context: Context) -> Sequence[Report]:
    """What is reported. What a provider can not read would come again and again."""
    try:
        return entry.provider.heard(delivered, context)
    except Exception:
        log.exception("provider %s could not read a report", entry.channel.provider)
        return ()
