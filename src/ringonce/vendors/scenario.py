"""A shop with customers and flaky servers: what ``ringonce demo`` plays.

Every recipient has a mailbox, an endpoint for signed webhooks, a chat, an app, a browser and an inbox in the shop.
Each is told of an order on some of them, then of an invoice on others, and so on until there are as many
notifications as asked for. The servers speak the real protocols and fail by a plan that the seed repeats.
"""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.vendors import flaky, flaky_more
from ringonce.vendors.fcm import FcmApi

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ringonce.vendors.flaky import Way

MOST_RECIPIENTS = 200
CONCURRENCY = 8
ROUNDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("order.shipped", "Your order {n} is on its way", ("email", "hook", "inapp")),
    ("invoice.ready", "The invoice of order {n} is ready", ("push", "telegram", "webpush")),
)
COPIES_EACH = 5
"""How many notifications there are for each recipient: not all are told of both."""
REMINDER = ("parcel.waiting", "A parcel waits for you", ("push", "webpush", "inapp"))
"""What is told when some devices have died, and some of them have come back."""
SETTINGS = (
    ("retry cycle", "100ms", "a minute in many systems"),
    ("lease", "3s", "15s by default"),
    ("timeout", "1s", "15s by default"),
    ("floor of greylisting", "1s", "300s by default"),
)
"""What is set low, so that the demo takes seconds: name, value, what is usual."""


@dataclass(frozen=True, slots=True)
class Device:
    """A recipient's app or browser that is dead from the beginning. ``returns``: it registers again later."""

    who: int
    channel: str
    returns: bool

    @property
    def recipient(self) -> str:
        """Whose it is."""
        return name(self.who)


class Scenario:
    """``with Scenario(…) as scenario:`` runs the servers.

    Args:
        notifications: how many.
        seed: chooses who is unknown or has blocked the bot, whose devices are dead, when which server fails, and
            ``kill_at``, the number of the request in which the worker is to be killed.
        folder: where each server writes its ledger; None: nowhere.
        everything: with the ways of ``flaky_more``, and without the bound on what is told of each person.
    """

    def __init__(
        self, notifications: int, seed: int, folder: Path | None = None, *, everything: bool = False
    ) -> None:
        chosen = random.Random(seed)
        self.notifications = notifications
        self.everything = everything
        self.left_out = flaky_more.missing() if everything else {}
        self._rounds = ROUNDS + self._further() if everything else ROUNDS
        if everything:  # everybody is told of everything once
            self.recipients = notifications // sum(len(channels) for _, _, channels in self._rounds)
        else:
            self.recipients = min(MOST_RECIPIENTS, -(-notifications // COPIES_EACH))
        self.events: list[dict[str, object]] = []
        self.counts: dict[str, int] = {}
        self._who: dict[str, int] = {}
        self._plan_events()
        self.repeated = chosen.sample(self.events, max(1, len(self.events) // 10))
        self.kill_at = int((notifications - self.counts["inapp"]) * chosen.uniform(0.35, 0.6))
        told = min(self.counts.values(), default=0)  # the first so many are told on every channel
        people = chosen.sample(range(min(told, self.recipients)), min(told, self.recipients))
        few = max(1, self.recipients // 50)
        apps, browsers = people[: 2 * few], people[-2 * few :]
        self.devices = tuple(
            Device(who, channel, returns=number < few)
            for channel, owners in (("push", apps), ("webpush", browsers))
            for number, who in enumerate(owners)
        )
        counts = self.counts
        self.ways: tuple[Way, ...] = (
            flaky.email(
                chosen,
                counts["email"],
                folder,
                unknown=people[:few],
                grey=people[few : few + max(1, self.recipients // 10)],
            ),
            flaky.hook(chosen, counts["hook"], folder),
            flaky.telegram(chosen, counts["telegram"], folder, blocked=people[-few:]),
            flaky.push(chosen, counts["push"], folder, dead=apps),
            flaky.webpush(chosen, counts["webpush"], folder, dead=browsers),
            flaky.inapp(self.recipients),
        )
        if everything:
            self.ways += tuple(
                make(chosen, counts[name], folder, people[:few])
                for name, make in flaky_more.MAKERS.items()
                if name in counts
            )
        self._running = ExitStack()

    def __enter__(self) -> Self:
        """Start the servers. Raises OSError."""
        with ExitStack() as stack:
            for way in self.ways:
                stack.enter_context(way.ledger)
                if way.server is not None:
                    stack.enter_context(way.server)
            self._running = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop them."""
        self._running.close()

    @property
    def people(self) -> list[str]:
        """The recipients' ids."""
        return [name(who) for who in range(self.recipients)]

    def way(self, channel: str) -> Way:
        """The way of a channel."""
        return next(way for way in self.ways if way.channel == channel)

    def bodies(self, events: Sequence[dict[str, object]]) -> list[bytes]:
        """Events in the structure that ringonce accepts; the servers must be running, for they are addresses."""
        return [
            json.dumps({**event, "recipients": [self._recipient(event)]}, ensure_ascii=False).encode()
            for event in events
        ]

    def come_back(self, device: Device) -> object:
        """The address that a device registers: an app the token that it had, a browser a new subscription."""
        way = self.way(device.channel)
        assert way.address is not None
        if isinstance(way.server, FcmApi):
            way.server.dead.discard(str(way.address(device.who)))
            return way.address(device.who)
        return way.address(-1 - device.who)

    def reminders(self) -> list[dict[str, object]]:
        """An event for each owner of a device that died, on the channels of ``REMINDER``."""
        kind, title, channels = REMINDER
        return [
            {
                "event_id": f"{kind}-{number}",
                "type": kind,
                "recipients": [name(who)],
                "channels": list(channels),
                "content": {"title": title, "text": f"Hello {name(who)}! ({kind}-{number})"},
            }
            for number, who in enumerate(dict.fromkeys(device.who for device in self.devices), 1)
        ]

    def config(self, database: Path) -> str:
        """``ringonce.toml`` for the running servers."""
        values = {name: value for name, value, _ in SETTINGS}
        head = (
            "# Written by ringonce demo; its servers are gone, its database tells what happened.\n"
            f"[store]\nurl = {json.dumps(f'sqlite:///{database}')}\n\n"
            f'[retry]\ncycle = "{values["retry cycle"]}"\n\n'
            '[security]\nallow_private_networks = ["127.0.0.0/8"]  # the servers are on this machine\n'
        )
        return head + "".join(self._channel(way, values) for way in self.ways)

    def _channel(self, way: Way, values: dict[str, str]) -> str:
        # Even where nothing is called: a worker prolongs all that it holds by the longest lease of its channels.
        head = f'\n[channels.{way.channel}]\n{way.provider}lease = "{values["lease"]}"\n'
        if way.server is None:
            return head
        return (
            head.replace("{port}", str(way.server.port))
            + f'in_doubt = "{way.in_doubt}"\nconcurrency = {CONCURRENCY}\n'
            + f'timeout = "{way.timeout or values["timeout"]}"\n'
            + 'backoff = { kind = "exponential", base = "200ms", factor = 2, cap = "1s", jitter = "100ms" }\n'
            + "budgets = { transient = 5, rate_limited = 5, unknown = 3 }\n"
            + f'floors = {{ greylist = "{values["floor of greylisting"]}", rate_limited = "0s" }}\n'
        )

    # --- what is said, to whom ---

    def _recipient(self, event: dict[str, object]) -> dict[str, object]:
        who = self._who[str(event["event_id"])]
        addresses = {
            way.channel: way.address(who)
            for way in self.ways
            if way.address is not None and way.channel in event["channels"]  # type: ignore[operator]
        }
        return {"id": name(who), "addresses": addresses}

    def _further(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """The other rounds, without what can not be shown here."""
        told = [
            (kind, title, tuple(name for name in channels if name not in self.left_out))
            for kind, title, channels in flaky_more.ROUNDS
        ]
        return tuple(one for one in told if one[2])

    def _plan_events(self) -> None:
        left, number = self.notifications, 0
        while left:
            kind, title, channels = self._rounds[(number // self.recipients) % len(self._rounds)]
            channels = channels[:left]
            who, left = number % self.recipients, left - len(channels)
            number += 1
            for channel in channels:
                self.counts[channel] = self.counts.get(channel, 0) + 1
            event_id = f"{kind}-{number}"
            self._who[event_id] = who
            self.events.append(
                {
                    "event_id": event_id,
                    "type": kind,
                    "channels": list(channels),
                    "content": ({"title": title.format(n=1_000 + number)} if title else {})
                    | {"text": f"Hello {name(who)}! ({event_id})"},
                    "subject": f"order:{1_000 + number}",
                }
            )


def name(who: int) -> str:
    """A recipient's id."""
    return f"customer-{who + 1}"
