"""The parts of providers that are paused: which row belongs to one is known before its call.

A refusal that concerns one template, country or endpoint pauses that part alone. Its key comes from the provider
(``Provider.scope_key``). What is paused is a short list, read anew when a claim says that something has changed; a row
that belongs to it is set aside into its lane without a call, where one call at a time tries whether it works again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.lane import parse
from ringonce.core.redact import clean
from ringonce.core.scope import APART, STOPPING, apart, kind_of, part
from ringonce.engine.holding import fence_of, has_begun
from ringonce.engine.traffic import lane_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from uuid import UUID

    from ringonce.engine.channels import Entry
    from ringonce.model.notification import Address, Content
    from ringonce.model.outcome import Outcome
    from ringonce.ports import Claimed, LaneState, Store

log = logging.getLogger("ringonce")

MOST = 50
"""So many parts of a channel are paused by themselves. What is refused beyond them is learnt by each row's own call."""


class Scopes:
    """What is paused of each channel, as far as is known here."""

    def __init__(self, lanes: Iterable[LaneState] = ()) -> None:
        """``lanes``: see ``told``."""
        self._paused: dict[str, set[str]] = {}
        self.told(lanes)

    def told(self, lanes: Iterable[LaneState]) -> None:
        """What the store says is paused, or waits for a call that tries it. It takes the place of all known before."""
        paused: dict[str, set[str]] = defaultdict(set)
        for lane in lanes:
            if lane.paused or lane.probing:
                name = parse(lane.lane)
                if apart(name.scope):
                    paused[name.channel].add(name.scope)
        self._paused = dict(paused)

    def began(self, lanes: Iterable[str]) -> None:
        """An answer of ours has paused these: known at once, and not only by the next claim."""
        for lane in lanes:
            name = parse(lane)
            if apart(name.scope):
                self._paused.setdefault(name.channel, set()).add(name.scope)

    def of(self, channel: str) -> Collection[str]:
        """The scopes of a channel that are paused."""
        return self._paused.get(channel, ())

    def located(self, entry: Entry, content: Content, address: Address | None, outcome: Outcome) -> Outcome:
        """The outcome with the key of the part that it is about.

        What everything of the channel belongs to is the channel itself. Where nobody knows the key, or too many parts
        are paused already, the kind alone stays.
        """
        kind = outcome.scope
        if kind not in APART or outcome.cls not in STOPPING or address is None:
            return outcome
        key = key_of(entry, kind, content, address)
        if key is None:
            return outcome
        if not key:
            return replace(outcome, scope="channel")
        scope, paused = part(kind, key), self.of(entry.channel.name)
        return replace(outcome, scope=scope) if len(paused) < MOST or scope in paused else outcome

    def stops(self, entry: Entry, content: Content, address: Address | None, lane: str) -> str:
        """The paused part that a row belongs to, but the one in whose ``lane`` it waited; ``''``: none."""
        paused = self.of(entry.channel.name)
        if not paused or address is None:
            return ""
        own = parse(lane).scope
        for kind in sorted({kind_of(scope) for scope in paused}):
            key = key_of(entry, kind, content, address)
            if key and (scope := part(kind, key)) in paused and scope != own:
                return scope
        return ""

    async def set_aside(
        self, store: Store, owner: str, entry: Entry, wave: list[Claimed]
    ) -> list[tuple[UUID, int]]:
        """Take out of the wave what belongs to a paused part, and give it back into that part's lane: (id, fence)."""
        aside: dict[str, list[Claimed]] = defaultdict(list)
        for claimed in wave:
            row = claimed.row
            if scope := self.stops(entry, claimed.content, row.address, claimed.lane):
                aside[lane_of(entry, entry.channel.name, row.tenant, scope)].append(claimed)
        if not aside:
            return []
        gone = [claimed for rows in aside.values() for claimed in rows]
        if begun := [(claimed.row.id, fence_of(claimed.row)) for claimed in gone if has_begun(claimed.row)]:
            await store.undo(owner, begun)
        for lane, rows in aside.items():
            leases = [(claimed.row.id, fence_of(claimed.row)) for claimed in rows]
            await store.release(owner, leases, lane=lane)
        left = {claimed.row.id for claimed in gone}
        wave[:] = [claimed for claimed in wave if claimed.row.id not in left]
        return [(claimed.row.id, fence_of(claimed.row)) for claimed in gone]


def key_of(entry: Entry, kind: str, content: Content, address: Address) -> str | None:
    """Which part a message belongs to, by its provider; a provider that fails to say so knows it not."""
    try:
        key: object = entry.provider.scope_key(kind, content, address)
    except Exception:
        log.exception("provider %s could not tell the %s of a message", entry.channel.provider, kind)
        return None
    return clean(key) if isinstance(key, str) else None
