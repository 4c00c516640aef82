"""The ways of the demo: a channel, the server behind it, and what goes wrong there.

Each server speaks the real protocol and fails by a plan that a seeded chance draws. The two push services verify who
sends, and the browsers behind one of them decrypt what comes. In-app copies need no server: they are streamed.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ringonce.core.base64url import base64url
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.ledger import Ledger
from ringonce.vendors.script import Fault, Plan, Rule
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.webhook import WebhookReceiver
from ringonce.vendors.webpush import PushService

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ringonce.ports import Row
    from ringonce.vendors.ledger import Entry
    from ringonce.vendors.standin import StandIn

LATENCY = 0.02
"""Seconds that each server takes for a request."""
DOMAIN = "shop.example"
TOKEN = "4815162342:demo"  # noqa: S105 - nobody but the stand-in knows it
FIRST_CHAT = 4_800_000
ACCOUNT_FILE = "fcm-account.json"


@dataclass(frozen=True, slots=True)
class Way:
    """A channel and what is behind it.

    ``server``: None where copies are only stored. ``address``: a recipient's, by their number; None where they need
    none. ``provider``: the settings in the configuration, as TOML, where ``{port}`` is the server's. ``refused``:
    addresses that the server will never take. ``repeat``: what the receiver makes of a second copy. ``reference``:
    how the ledger writes a notification; ``read`` makes that of what it wrote. ``seen_as``: how it writes a
    registered address. ``timeout``: another one than the demo's.
    """

    channel: str
    title: str
    server: StandIn | None
    ledger: Ledger
    provider: str
    in_doubt: str
    address: Callable[[int], object] | None
    repeat: str = ""
    refused: frozenset[str] = frozenset()
    reference: Callable[[Row], str] = field(default=lambda row: str(row.id))
    read: Callable[[str], str] = str
    timeout: str = ""
    seen_as: Callable[[str], str] = field(default=lambda value: value)
    faults: tuple[str, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """What was received, each under its notification."""
        if self.read is str:
            return self.ledger.entries
        return [replace(entry, reference=self.read(entry.reference)) for entry in self.ledger.entries]

    @property
    def where(self) -> str:
        """The port, in words; empty without a server."""
        return f" on port {self.server.port}" if self.server is not None else ""


class Draw:
    """Draws request numbers, each at most once, and collects what is planned for them."""

    def __init__(self, chosen: random.Random, count: int) -> None:
        """``count``: how many requests there will be at least."""
        self._count = count
        start = count // 5 + 1
        self._burst_at = start
        self._numbers = chosen.sample(range(start + count // 5, count + 1), count - start - count // 5 + 1)

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


def device(who: int) -> str:
    """The registration token of a recipient's app."""
    return f"customer-{who + 1}:APA91b-demo"


def email(
    chosen: random.Random, count: int, folder: Path | None, *, unknown: Sequence[int], grey: Sequence[int]
) -> Way:
    """Mail: some mailboxes are unknown, some senders are greylisted."""
    draw = Draw(chosen, count)
    rules = (
        draw.some(Fault("accept_then_reset"), 100),
        draw.some(Fault("status", 451), 100),
        draw.some(Fault("reset"), 200, stage="RCPT"),
    )
    nobody = frozenset(mailbox(who) for who in unknown)
    server = MailServer(
        unknown=nobody,
        greylist=[mailbox(who) for who in grey],
        **common(rules, chosen, folder, "email"),
    )
    return Way(
        channel="email",
        title="SMTP server",
        server=server,
        ledger=server.ledger,
        provider=f'provider = "smtp"\nurl = "smtp://127.0.0.1:{{port}}?tls=none"\nfrom = "hello@{DOMAIN}"\n',
        in_doubt="resend",
        address=mailbox,
        repeat="same Message-ID",
        refused=nobody,
        reference=lambda row: f"{row.id}@{DOMAIN}",
        faults=(f"greylists {len(grey)}, knows {len(unknown)} not", "451", "resets before and after"),
    )


def hook(chosen: random.Random, count: int, folder: Path | None) -> Way:
    """Signed webhooks: an outage, a limit, answers that never come."""
    draw = Draw(chosen, count)
    burst = draw.burst(Fault("status", 503), min(12, max(2, count // 8)))
    rules = (
        burst,
        draw.some(limited(), 100),
        draw.some(Fault("accept_then_hang"), 200),
        draw.some(Fault("accept_then_reset"), 100),
        draw.some(Fault("reset"), 200),
    )
    secret = "whsec_" + base64.b64encode(chosen.randbytes(32)).decode()
    server = WebhookReceiver([secret], **common(rules, chosen, folder, "hook"))
    return Way(
        channel="hook",
        title="webhook receiver",
        server=server,
        ledger=server.ledger,
        provider=f'provider = "webhook"\nsecret = "{secret}"\n',
        in_doubt="resend",
        address=lambda who: f"{server.url}/customers/{who + 1}",
        repeat="ignored there",
        faults=(f"{len(burst.numbers or ())} times 503 in a row", "429", "takes, never answers", "resets"),
    )


def telegram(chosen: random.Random, count: int, folder: Path | None, *, blocked: Sequence[int]) -> Way:
    """A bot: some people have blocked it."""
    draw = Draw(chosen, count)
    rules = (
        draw.some(limited(), 50),
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
        **common(rules, chosen, folder, "telegram"),
    )
    return Way(
        channel="telegram",
        title="Telegram stand-in",
        server=server,
        ledger=server.ledger,
        provider=f'provider = "telegram"\ntoken = "{TOKEN}"\nbase_url = "http://127.0.0.1:{{port}}"\n',
        in_doubt="assume_sent",
        address=chat,
        refused=gone,
        reference=lambda row: f"{row.event_id}/{row.address.value if row.address else ''}",
        faults=(f"{len(blocked)} blocked the bot", "429, 502", "takes, never answers", "resets"),
    )


def push(chosen: random.Random, count: int, folder: Path | None, *, dead: Sequence[int]) -> Way:
    """FCM: the apps of some people are gone; access tokens have to be fetched."""
    draw = Draw(chosen, count)
    rules = (
        draw.some(Fault("status", 503), 50),
        draw.some(limited(), 100),
        draw.some(Fault("accept_then_hang"), 200),
        draw.some(Fault("accept_then_reset"), 100),
        draw.some(Fault("reset"), 100),
    )
    gone = frozenset(device(who) for who in dead)
    server = FcmApi(
        dead=gone,
        credentials_file=None if folder is None else folder / ACCOUNT_FILE,
        **common(rules, chosen, folder, "push"),
    )
    return Way(
        channel="push",
        title="FCM stand-in",
        server=server,
        ledger=server.ledger,
        provider=f'provider = "fcm"\ncredentials = "{ACCOUNT_FILE}"\nbase_url = "http://127.0.0.1:{{port}}"\n',
        in_doubt="resend",
        address=device,
        repeat="replaced by tag",
        refused=gone,
        faults=(f"{len(dead)} dead tokens", "503, 429", "takes, never answers", "resets"),
    )


def webpush(chosen: random.Random, count: int, folder: Path | None, *, dead: Sequence[int]) -> Way:
    """Browsers behind a push service: some people have taken the permission back."""
    draw = Draw(chosen, count)
    rules = (
        draw.some(Fault("status", 500), 50),
        draw.some(limited(), 100),
        draw.some(Fault("accept_then_hang"), 100),
        draw.some(Fault("accept_then_reset"), 100),
    )
    # 255 bits: below the order of the curve, whatever is drawn.
    number = chosen.getrandbits(255) | 1
    sender = base64url(
        ec.derive_private_key(number, ec.SECP256R1())
        .public_key()
        .public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    )
    server = PushService(**common(rules, chosen, folder, "webpush"))
    subscriptions: dict[int, dict[str, Any]] = {}

    def subscription(who: int) -> dict[str, Any]:
        if who not in subscriptions:
            subscriptions[who] = server.subscribe(sender)
            if who in dead:
                server.unsubscribe(subscriptions[who])
        return subscriptions[who]

    return Way(
        channel="webpush",
        title="Web Push stand-in",
        server=server,
        ledger=server.ledger,
        provider='provider = "webpush"\n'
        f'vapid_private_key = "{base64url(number.to_bytes(32))}"\nsubject = "mailto:push@{DOMAIN}"\n',
        in_doubt="assume_sent",
        address=subscription,
        seen_as=lambda value: urlsplit(json.loads(value)["endpoint"]).path,
        faults=(f"{len(dead)} browsers gone", "500, 429", "takes, never answers", "resets"),
    )


def inapp(people: int) -> Way:
    """In-app copies: what the recipients' streams bring stands in the ledger."""
    return Way(
        channel="inapp",
        title="in-app streams",
        server=None,
        ledger=Ledger(),
        provider='provider = "inapp"\n',
        in_doubt="resend",
        address=None,
        faults=(f"{people} people watch; no server that could fail",),
    )


def limited() -> Fault:
    """Too many requests; the next one may come in a second."""
    return Fault("status", 429, headers=(("Retry-After", "1"),))


def common(rules: Sequence[Rule], chosen: random.Random, folder: Path | None, name: str) -> dict[str, Any]:
    """What all servers of the demo are made with: their plan, and the file of their ledger."""
    takes_its_time = Rule(Fault("delay", seconds=LATENCY))
    return {
        "plan": Plan((*rules, takes_its_time), chosen.randrange(2**32)),
        "ledger": Ledger(None if folder is None else folder / f"received-{name}.jsonl"),
    }
