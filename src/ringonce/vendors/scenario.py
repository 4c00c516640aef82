"""A shop with customers and three flaky servers: what ``ringonce demo`` plays.

Every recipient has a mailbox, an endpoint for signed webhooks and a chat. Each is told of an order on all three,
then of an invoice by mail and webhook, and so on until there are as many notifications as asked for. The servers
speak the real protocols and fail by a plan that the seed repeats.
"""

from __future__ import annotations

import base64
import json
import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ringonce.vendors.ledger import Ledger
from ringonce.vendors.script import Fault, Plan, Rule
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ringonce.ports import Row
    from ringonce.vendors.standin import StandIn

MOST_RECIPIENTS = 200
CONCURRENCY = 8
LATENCY = 0.02
"""Seconds that each server takes for a request."""
DOMAIN = "shop.example"
TOKEN = "4815162342:demo"  # noqa: S105 - nobody but the stand-in knows it
FIRST_CHAT = 4_800_000
ROUNDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("order.shipped", "Your order {n} is on its way", ("email", "hook", "telegram")),
    ("invoice.ready", "The invoice of order {n} is ready", ("email", "hook")),
)
SETTINGS = (
    ("retry cycle", "100ms", "a minute in many systems"),
    ("lease", "3s", "15s by default"),
    ("timeout", "1s", "15s by default"),
    ("floor of greylisting", "1s", "300s by default"),
)
"""What is set low, so that the demo takes seconds: name, value, what is usual."""


@dataclass(frozen=True, slots=True)
class Way:
    """A channel and the server behind it.

    ``provider``: its settings in the configuration, as TOML, where ``{port}`` is the server's. ``refused``:
    addresses that the server will never take. ``repeat``: what the receiver makes of a second copy.
    """

    channel: str
    title: str
    server: StandIn
    provider: str
    in_doubt: str
    repeat: str
    refusal: str
    refused: frozenset[str]
    reference: Callable[[Row], str]
    faults: tuple[str, ...]


class Scenario:
    """``with Scenario(…) as scenario:`` runs the servers.

    Args:
        notifications: how many.
        seed: chooses who is unknown or has blocked the bot, when which server fails, and ``kill_at``, the number
            of the request in which the worker is to be killed.
        folder: where each server writes its ledger; None: nowhere.
    """

    def __init__(self, notifications: int, seed: int, folder: Path | None = None) -> None:
        chosen = random.Random(seed)
        each = sum(len(channels) for *_, channels in ROUNDS)
        self.notifications = notifications
        self.recipients = min(MOST_RECIPIENTS, -(-notifications // each))
        self.events: list[dict[str, object]] = []
        self.counts: dict[str, int] = {}
        self._hooks = ""
        self._plan_events()
        self.repeated = chosen.sample(self.events, max(1, len(self.events) // 10))
        self.kill_at = int(notifications * chosen.uniform(0.35, 0.6))
        people = chosen.sample(range(self.recipients), self.recipients)
        few = max(1, self.recipients // 50)
        self.ways = (
            self._mail(chosen, people[:few], people[few : few + max(1, self.recipients // 10)], folder),
            self._hook(chosen, folder),
            self._chat(chosen, people[-few:], folder),
        )
        self._running = ExitStack()

    def __enter__(self) -> Self:
        """Start the servers. Raises OSError."""
        with ExitStack() as stack:
            for way in self.ways:
                stack.enter_context(way.server.ledger)
                stack.enter_context(way.server)
            self._running = stack.pop_all()
        self._hooks = f"http://127.0.0.1:{self.way('hook').server.port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop them."""
        self._running.close()

    def way(self, channel: str) -> Way:
        """The way of a channel."""
        return next(way for way in self.ways if way.channel == channel)

    def bodies(self, events: Sequence[dict[str, object]]) -> list[bytes]:
        """Events in the structure that ringonce accepts; the servers must be running, for they are addresses."""
        return [
            json.dumps(event, ensure_ascii=False).replace("{hooks}", self._hooks).encode() for event in events
        ]

    def config(self, database: Path) -> str:
        """``ringonce.toml`` for the running servers."""
        values = {name: value for name, value, _ in SETTINGS}
        head = (
            "# Written by ringonce demo; its servers are gone, its database tells what happened.\n"
            f"[store]\nurl = {json.dumps(f'sqlite:///{database}')}\n\n"
            f'[retry]\ncycle = "{values["retry cycle"]}"\n\n'
            '[security]\nallow_private_networks = ["127.0.0.0/8"]  # the webhook receiver is on this machine\n'
        )
        return head + "".join(
            f"\n[channels.{way.channel}]\n"
            + way.provider.replace("{port}", str(way.server.port))
            + f'in_doubt = "{way.in_doubt}"\nconcurrency = {CONCURRENCY}\n'
            + f'timeout = "{values["timeout"]}"\nlease = "{values["lease"]}"\n'
            + 'backoff = { kind = "exponential", base = "200ms", factor = 2, cap = "1s", jitter = "100ms" }\n'
            + "budgets = { transient = 5, rate_limited = 5, unknown = 3 }\n"
            + f'floors = {{ greylist = "{values["floor of greylisting"]}", rate_limited = "0s" }}\n'
            for way in self.ways
        )

    # --- what is said, to whom ---

    def _plan_events(self) -> None:
        left, number = self.notifications, 0
        while left:
            kind, title, channels = ROUNDS[(number // self.recipients) % len(ROUNDS)]
            channels = channels[:left]
            who, left = number % self.recipients, left - len(channels)
            number += 1
            for channel in channels:
                self.counts[channel] = self.counts.get(channel, 0) + 1
            addresses = {
                "email": mailbox(who),
                "hook": f"{{hooks}}/customers/{who + 1}",
                "telegram": chat(who),
            }
            self.events.append(
                {
                    "event_id": f"{kind}-{number}",
                    "type": kind,
                    "recipients": [
                        {
                            "id": f"customer-{who + 1}",
                            "addresses": {name: addresses[name] for name in channels},
                        }
                    ],
                    "channels": list(channels),
                    "content": {
                        "title": title.format(n=1_000 + number),
                        "text": f"Hello customer {who + 1}! ({kind}-{number})",
                    },
                    "subject": f"order:{1_000 + number}",
                }
            )

    # --- the servers and what goes wrong with them ---

    def _mail(self, chosen: random.Random, unknown: list[int], grey: list[int], folder: Path | None) -> Way:
        draw = _Draw(chosen, self.counts["email"])
        rules = (
            draw.some(Fault("accept_then_reset"), 100),
            draw.some(Fault("status", 451), 100),
            draw.some(Fault("reset"), 200, stage="RCPT"),
        )
        nobody = frozenset(mailbox(who) for who in unknown)
        server = MailServer(
            unknown=nobody,
            greylist=[mailbox(who) for who in grey],
            **_common(rules, chosen, folder, "email"),
        )
        return Way(
            channel="email",
            title="SMTP server",
            server=server,
            provider=f'provider = "smtp"\nurl = "smtp://127.0.0.1:{{port}}?tls=none"\nfrom = "hello@{DOMAIN}"\n',
            in_doubt="resend",
            repeat="same Message-ID",
            refusal="user unknown",
            refused=nobody,
            reference=lambda row: f"{row.id}@{DOMAIN}",
            faults=(
                f"greylists {len(grey)}, knows {len(unknown)} not",
                "451",
                "resets before and after",
            ),
        )

    def _hook(self, chosen: random.Random, folder: Path | None) -> Way:
        count = self.counts["hook"]
        draw = _Draw(chosen, count)
        burst = draw.burst(Fault("status", 503), min(12, max(2, count // 8)))
        limited = Fault("status", 429, headers=(("Retry-After", "1"),))
        rules = (
            burst,
            draw.some(limited, 100),
            draw.some(Fault("accept_then_hang"), 200),
            draw.some(Fault("accept_then_reset"), 100),
            draw.some(Fault("reset"), 200),
        )
        secret = "whsec_" + base64.b64encode(chosen.randbytes(32)).decode()
        return Way(
            channel="hook",
            title="webhook receiver",
            server=WebhookReceiver([secret], **_common(rules, chosen, folder, "hook")),
            provider=f'provider = "webhook"\nsecret = "{secret}"\n',
            in_doubt="resend",
            repeat="ignored there",
            refusal="",
            refused=frozenset(),
            reference=lambda row: str(row.id),
            faults=(
                f"{len(burst.numbers or ())} times 503 in a row",
                "429",
                "takes, never answers",
                "resets",
            ),
        )

    def _chat(self, chosen: random.Random, blocked: list[int], folder: Path | None) -> Way:
        draw = _Draw(chosen, self.counts["telegram"])
        limited = Fault("status", 429, headers=(("Retry-After", "1"),))
        rules = (
            draw.some(limited, 50),
            draw.some(Fault("accept_then_hang"), 100),
            draw.some(Fault("accept_then_reset"), 200),
            draw.some(Fault("reset"), 200),
            draw.some(Fault("status", 502), 100),
        )
        gone = frozenset(chat(who) for who in blocked)
        server = TelegramApi(
            TOKEN,
            blocked=gone,
            reference=lambda to, text: f"{text.rpartition('(')[2].rstrip(')')}/{to}",
            **_common(rules, chosen, folder, "telegram"),
        )
        return Way(
            channel="telegram",
            title="Telegram stand-in",
            server=server,
            provider=f'provider = "telegram"\ntoken = "{TOKEN}"\nbase_url = "http://127.0.0.1:{{port}}"\n',
            in_doubt="assume_sent",
            repeat="would be shown again",
            refusal="bot was blocked",
            refused=gone,
            reference=lambda row: f"{row.event_id}/{row.address.value if row.address else ''}",
            faults=(
                f"{len(blocked)} blocked the bot",
                "429, 502",
                "takes, never answers",
                "resets",
            ),
        )


class _Draw:
    """Draws request numbers, each at most once."""

    def __init__(self, chosen: random.Random, count: int) -> None:
        self._count = count
        start = count // 5 + 1
        self._burst_at = start
        self._numbers = chosen.sample(range(start + count // 5, count + 1), count - start - count // 5)

    def some(self, fault: Fault, one_in: int, stage: str = "") -> Rule:
        """``fault`` for one request in so many, for one at least."""
        how_many = max(1, self._count // one_in)
        drawn, self._numbers = self._numbers[:how_many], self._numbers[how_many:]
        return Rule(fault, numbers=frozenset(drawn), stage=stage)

    def burst(self, fault: Fault, length: int) -> Rule:
        """``fault`` for so many requests in a row."""
        return Rule(fault, numbers=frozenset(range(self._burst_at, self._burst_at + length)))


def mailbox(who: int) -> str:
    """A recipient's mailbox."""
    return f"customer-{who + 1}@people.example"


def chat(who: int) -> str:
    """A recipient's chat."""
    return str(FIRST_CHAT + who)


def _common(rules: Sequence[Rule], chosen: random.Random, folder: Path | None, name: str) -> dict[str, Any]:
    takes_its_time = Rule(Fault("delay", seconds=LATENCY))
    return {
        "plan": Plan((*rules, takes_its_time), chosen.randrange(2**32)),
        "ledger": Ledger(None if folder is None else folder / f"received-{name}.jsonl"),
    }
