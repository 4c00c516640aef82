"""Which notifications an event becomes: recipients x channels x addresses, decided by the rules of acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ringonce.model.quick import quick
from ringonce.model.transition import Enqueued

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ringonce.model.event import Event
    from ringonce.model.notification import Address
    from ringonce.model.policy import Channel
    from ringonce.model.records import RecipientFacts

NO_ADDRESS: Final = "no_address"
UNKNOWN_CHANNEL: Final = "unknown_channel"


@quick
@dataclass(frozen=True, slots=True)
class Planned:
    """One notification to create.

    ``address`` None: there is none, and ``enqueued`` says so (suppressed); or its channel needs none (stored).
    ``content_key``: which of the event's texts it gets; the channel's, where no template makes several of it.
    """

    recipient: str
    channel: str
    account: str
    address: Address | None
    content_key: str
    enqueued: Enqueued


@quick
@dataclass(frozen=True, slots=True)
class Skipped:
    """Somebody for whom no notification exists, and why. Nobody asked for a certain channel, and none fits."""

    recipient: str
    reason: str


@quick
@dataclass(frozen=True, slots=True)
class Outline:
    """What the rules made of some recipients of an event."""

    planned: tuple[Planned, ...]
    skipped: tuple[Skipped, ...]


def outline(
    event: Event,
    recipients: Sequence[RecipientFacts],
    channels: Mapping[str, Channel],
    now: int,
    *,
    cancelled: bool = False,
    stored: Collection[str] = (),
) -> Outline:
    """Decide what an event becomes for some of its recipients.

    A channel that the event names exists for the recipient whatever its state: disabled, the row waits; without an
    address, it is suppressed and says so; no longer configured, likewise. Without names it is every enabled channel
    that has a live address. Each address of a channel gets a notification of its own. A channel whose copies are
    only stored needs no address: the recipient is it, and there is one copy.

    Args:
        event: What happened.
        recipients: What is known of the recipients.
        channels: The configured channels by name.
        now: Microseconds UTC.
        cancelled: The event's subject has been withdrawn already.
        stored: The channels whose copies are only stored.
    """
    planned: list[Planned] = []
    skipped: list[Skipped] = []
    for one in recipients:
        count = len(planned)
        for name, addresses in _ways(event, one, channels, stored):
            way = channels.get(name)
            account = "" if way is None else way.account
            if way is not None and name in stored:
                planned.append(_kept(event, one, way, now, cancelled=cancelled))
                continue
            reason = UNKNOWN_CHANNEL if way is None else NO_ADDRESS if not addresses else None
            enqueued = _enqueued(max(now, event.send_at or now), reason, event.expires_at, cancelled)
            planned.extend([Planned(one.id, name, account, a, name, enqueued) for a in addresses or (None,)])
        if len(planned) == count:
            skipped.append(Skipped(one.id, NO_ADDRESS))
    return Outline(tuple(planned), tuple(skipped))


# In a batch most are equal: one object says so to whoever compares them.
_enqueued = lru_cache(maxsize=256)(Enqueued)


def _kept(event: Event, one: RecipientFacts, way: Channel, now: int, *, cancelled: bool) -> Planned:
    """The copy of a channel that only stores. Off, it waits like any other until the channel is on again."""
    # Named by ``to``, the address is the recipient's id.
    recipient = one.addresses[0].value if one.direct else one.id
    due = max(now, event.send_at or now)
    enqueued = Enqueued(due, None, event.expires_at, cancelled, stored=way.enabled)
    return Planned(recipient, way.name, way.account, None, way.name, enqueued)


def _ways(
    event: Event, one: RecipientFacts, channels: Mapping[str, Channel], stored: Collection[str]
) -> Iterator[tuple[str, tuple[Address, ...]]]:
    """(channel, live addresses), in the order of the event or of the configuration."""
    if one.direct:
        # ``to`` names the channel together with the address.
        for address in one.addresses:
            yield address.channel, (address,)
        return
    live = tuple(a for a in one.addresses if a.invalidated_at is None)
    asked = event.channels
    for name in dict.fromkeys(channels if asked is None else asked):
        addresses = tuple(a for a in live if a.channel == name)
        if asked is not None or ((addresses or name in stored) and channels[name].enabled):
            yield name, addresses
