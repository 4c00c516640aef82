"""The channels as they are configured right now: read anew for each claim, never cached in a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.model.policy import Channel
    from ringonce.ports import Clock, Store
    from ringonce.provider import Provider

    Override = Callable[[Channel, Mapping[str, object]], Channel]


REFRESH = 0.05
"""Seconds for which a look at the overrides is good."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A channel with its provider; ``ways``: with the others, in their order."""

    channel: Channel
    provider: Provider
    ways: tuple[Entry, ...] = ()

    @property
    def account(self) -> str:
        """Whose calls these are."""
        return self.channel.account or self.provider.account


class Channels:
    """Name -> effective entry: the configured one under the overrides that were made at run time."""

    def __init__(self, entries: Mapping[str, Entry], override: Override) -> None:
        """``override`` parses and applies one channel's overrides (it belongs to the configuration)."""
        self._configured = dict(entries)
        self._overrides: dict[str, dict[str, object]] = {}
        self._override = override
        self._refreshed = -1.0
        self._rebuild()

    def configure(self, entries: Mapping[str, Entry]) -> None:
        """Take a changed configuration over."""
        self._configured = dict(entries)
        self._rebuild()

    def apply(self, overrides: Mapping[str, Mapping[str, object]]) -> None:
        """Take the overrides from the store over; cheap when nothing changed."""
        if overrides != self._overrides:
            self._overrides = {name: dict(changes) for name, changes in overrides.items()}
            self._rebuild()

    async def refresh(self, store: Store, clock: Clock) -> None:
        """Read the overrides anew; all who ask within the same 50 ms share one look."""
        now = clock.monotonic()
        if now - self._refreshed >= REFRESH:
            self._refreshed = now
            self.apply(await store.overrides())

    def _rebuild(self) -> None:
        self._effective = {
            name: replace(entry, channel=self._override(entry.channel, self._overrides[name]))
            if name in self._overrides
            else entry
            for name, entry in self._configured.items()
        }
        self._effective = {name: _followed(entry) for name, entry in self._effective.items()}
        self._ways = {one.channel.name: one for entry in self._effective.values() for one in entry.ways}
        self.several = bool(self._ways)
        """Some channel has more than one provider."""
        self._policies = {name: entry.channel for name, entry in self._effective.items()}
        self._stored = frozenset(name for name, entry in self._effective.items() if entry.provider.stored)

    def get(self, name: str) -> Entry | None:
        """The entry, or None: no such channel is configured (any more)."""
        return self._effective.get(name)

    def way(self, name: str) -> Entry | None:
        """The entry of a channel, or of another provider of one."""
        return self._effective.get(name) or self._ways.get(name)

    def ways(self) -> dict[str, Entry]:
        """All channels, and all other providers of each."""
        return {**self._effective, **self._ways}

    def sharing(self, entry: Entry) -> list[str]:
        """The channels that call the same provider with the same credentials."""
        account = entry.channel.provider, entry.provider.account
        known = self.ways().items()
        return [name for name, one in known if (one.channel.provider, one.provider.account) == account]

    def stored(self) -> frozenset[str]:
        """The channels whose copies are only stored."""
        return self._stored

    def policies(self) -> Mapping[str, Channel]:
        """The channels themselves, in the order of the configuration."""
        return self._policies

    def all(self) -> dict[str, Entry]:
        """All of them, in the order of the configuration."""
        return self._effective


def _followed(entry: Entry) -> Entry:
    """The entry, with ways that have the settings of their channel as they are now."""
    if not entry.ways:
        return entry
    channel = entry.channel
    ways = tuple(
        replace(
            one,
            channel=replace(
                channel,
                name=one.channel.name,
                provider=one.channel.provider,
                settings=one.channel.settings,
                ways=(),
                way_of=channel.name,
            ),
        )
        for one in entry.ways
    )
    return replace(entry, ways=ways)
