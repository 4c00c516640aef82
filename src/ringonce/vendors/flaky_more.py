"""Further ways of the demo, for ``ringonce demo --all``: every other provider and its stand-in.

Where a protocol carries no reference of ours, the ledger tells notifications apart by the event's id, with which every
text ends.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ringonce import registry
from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.apprise import JsonService
from ringonce.vendors.discord import DiscordHooks
from ringonce.vendors.flaky import Draw, Way, common, limited
from ringonce.vendors.max import MaxApi
from ringonce.vendors.script import Fault
from ringonce.vendors.slack import SlackHooks
from ringonce.vendors.smpp import SmsCenter
from ringonce.vendors.teams import TeamsFlows
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.vonage import VonageApi
from ringonce.vendors.whatsapp import WhatsAppApi
from ringonce.vendors.wildberries import WildberriesApi

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ringonce.ports import Row

    Make = Callable[[random.Random, int, "Path | None", Sequence[int]], Way]

KEY = "demo-only"
KEY_FILE = "apns-key.p8"
ROUNDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("parcel.sent", "Parcel {n} is under way", ("apns", "slack", "whatsapp")),
    ("parcel.near", "Parcel {n} arrives today", ("discord", "viber", "twilio")),
    ("parcel.late", "Parcel {n} is late", ("teams", "max", "vonage")),
    ("parcel.lost", "Parcel {n} is looked for", ("smpp", "apprise")),
    ("question.asked", "", ("replies",)),
)
"""What is told on them. A title that is empty: the provider carries none."""


def event_id(text: str) -> str:
    """What stands in the last parentheses."""
    return text.rpartition("(")[2].partition(")")[0]


def _by_event(_address: str, text: str) -> str:
    return event_id(text)


def _event_of(row: Row) -> str:
    return row.event_id


def _numbers(who: int) -> str:
    return f"+4477009{who:05d}"


def _plan(draw: Draw, *, fails: int = 503) -> dict[str, Any]:
    """An error for now, a limit, and for some a message that is taken and never answered."""
    return {
        "rules": (
            draw.some(Fault("status", fails), 30),
            draw.some(limited(), 40),
            draw.some(Fault("accept_then_reset"), 40),
            draw.some(Fault("reset"), 60),
        )
    }


def _faults(word: str, count: int) -> tuple[str, ...]:
    return (f"{word}: {count}", "503, 429", "takes, never answers", "resets")


def apns(chosen: random.Random, count: int, folder: Path | None, dead: Sequence[int]) -> Way:
    """Devices of which some have no app any more."""
    gone = frozenset(f"{who + 1:064x}" for who in dead)
    file = None if folder is None else folder / KEY_FILE
    rules = _plan(Draw(chosen, count))["rules"]
    server = ApnsApi(dead=gone, key_file=file, **common(rules, chosen, folder, "apns"))
    settings = f'key = "{KEY_FILE}"\nkey_id = "{server.key_id}"\nteam_id = "{server.team_id}"\ntopic = "{server.topic}"'
    return _way(
        "apns", "APNs stand-in", server, settings, lambda who: f"{who + 1:064x}", gone,
        faults=_faults("devices without the app", len(dead)), in_doubt="resend", repeat="replaced by id",
        reference=lambda row: str(row.id),
    )  # fmt: skip


def slack(chosen: random.Random, count: int, folder: Path | None, archived: Sequence[int]) -> Way:
    """Channels of which some are archived."""
    paths = [f"T0/B{who + 1}/demo" for who in archived]
    rules = _plan(Draw(chosen, count))["rules"]
    server = SlackHooks(
        refused=dict.fromkeys(paths, "channel_is_archived"), reference=_by_event,
        **common(rules, chosen, folder, "slack"),
    )  # fmt: skip
    return _way(
        "slack", "Slack stand-in", server, "", lambda who: f"{server.url}/services/T0/B{who + 1}/demo",
        frozenset(paths), faults=_faults("channels archived", len(archived)),
    )  # fmt: skip


def discord(chosen: random.Random, count: int, folder: Path | None, deleted: Sequence[int]) -> Way:
    """Webhooks of which some are deleted."""
    hooks = [_hook(who) for who in deleted]
    rules = _plan(Draw(chosen, count))["rules"]
    server = DiscordHooks(
        refused=dict.fromkeys(hooks, "10015"), reference=_by_event, **common(rules, chosen, folder, "discord")
    )
    return _way(
        "discord", "Discord stand-in", server, "",
        lambda who: f"{server.url}/api/webhooks/{_hook(who)}", frozenset(hooks),
        faults=_faults("webhooks deleted", len(deleted)),
    )  # fmt: skip


def _hook(who: int) -> str:
    return f"{1_100_000_000_000_000_000 + who}/demo-{who + 1:032d}"


def teams(chosen: random.Random, count: int, folder: Path | None, deleted: Sequence[int]) -> Way:
    """Workflows of which some are deleted."""
    rules = _plan(Draw(chosen, count))["rules"]
    server = _Flows(deleted, reference=_by_event, **common(rules, chosen, folder, "teams"))
    return _way(
        "teams", "Teams stand-in", server, "", server.flow, frozenset(),
        faults=_faults("workflows deleted", len(deleted)),
    )  # fmt: skip


class _Flows(TeamsFlows):
    """Its addresses hold the port, so those that are refused are known when it listens."""

    def __init__(self, deleted: Sequence[int], **more: Any) -> None:
        super().__init__(**more)
        self._deleted = tuple(deleted)

    def flow(self, who: int) -> str:
        """The workflow of a recipient."""
        url = f"{self.url}/workflows/{who + 1}"
        if who in self._deleted:
            self._refused[url] = "WorkflowNotFound"
        return url


def viber(chosen: random.Random, count: int, folder: Path | None, left: Sequence[int]) -> Way:
    """Subscribers of whom some have left."""
    gone = frozenset(_subscriber(who) for who in left)
    rules = _plan(Draw(chosen, count))["rules"]
    server = ViberApi(KEY, refused=dict.fromkeys(gone, "6"), **common(rules, chosen, folder, "viber"))
    return _way(
        "viber", "Viber stand-in", server, f'token = "{KEY}"\nsender = "Shop"', _subscriber, gone,
        faults=_faults("have left the bot", len(left)), reference=lambda row: str(row.id),
    )  # fmt: skip


def _subscriber(who: int) -> str:
    return f"customer-{who + 1:05d}="


def max_(chosen: random.Random, count: int, folder: Path | None, stopped: Sequence[int]) -> Way:
    """People of whom some have stopped the bot."""
    gone = frozenset(f"user:{4_800_000 + who}" for who in stopped)
    rules = _plan(Draw(chosen, count))["rules"]
    server = MaxApi(
        KEY, refused=dict.fromkeys(gone, "chat.denied"), reference=_by_event,
        **common(rules, chosen, folder, "max"),
    )  # fmt: skip
    return _way(
        "max", "MAX stand-in", server, f'token = "{KEY}"', lambda who: f"user:{4_800_000 + who}", gone,
        faults=_faults("have stopped the bot", len(stopped)),
    )  # fmt: skip


def whatsapp(chosen: random.Random, count: int, folder: Path | None, without: Sequence[int]) -> Way:
    """Numbers of which some have no WhatsApp."""
    gone = frozenset(_numbers(who) for who in without)
    rules = _plan(Draw(chosen, count))["rules"]
    server = WhatsAppApi(
        KEY, "1000001", refused=dict.fromkeys(gone, "131026"), **common(rules, chosen, folder, "whatsapp")
    )
    return _way(
        "whatsapp", "WhatsApp stand-in", server, f'token = "{KEY}"\nphone_number_id = "1000001"', _numbers, gone,
        faults=_faults("without WhatsApp", len(without)), reference=lambda row: str(row.id),
    )  # fmt: skip


def twilio(chosen: random.Random, count: int, folder: Path | None, stopped: Sequence[int]) -> Way:
    """Numbers whose people sent STOP."""
    gone = frozenset(_numbers(who) for who in stopped)
    sid = "AC" + "0" * 32
    rules = _plan(Draw(chosen, count))["rules"]
    server = TwilioApi(sid, KEY, stopped=gone, **common(rules, chosen, folder, "twilio"))
    settings = f'account_sid = "{sid}"\nauth_token = "{KEY}"\nfrom = "+447700900000"'
    return _way(
        "twilio", "Twilio stand-in", server, settings, _numbers, gone,
        faults=_faults("sent STOP", len(stopped)), read=event_id,
    )  # fmt: skip


def vonage(chosen: random.Random, count: int, folder: Path | None, barred: Sequence[int]) -> Way:
    """Numbers of which some are barred; the API says 200 to everything."""
    gone = frozenset(_numbers(who).removeprefix("+") for who in barred)
    rules = _plan(Draw(chosen, count))["rules"]
    server = VonageApi(KEY, KEY, barred=gone, **common(rules, chosen, folder, "vonage"))
    return _way(
        "vonage", "Vonage stand-in", server, f'api_key = "{KEY}"\napi_secret = "{KEY}"\nfrom = "Shop"', _numbers,
        gone, faults=_faults("numbers barred", len(barred)), reference=lambda row: str(row.id),
    )  # fmt: skip


def smpp(chosen: random.Random, count: int, folder: Path | None, unknown: Sequence[int]) -> Way:
    """A message center that throttles, and does not know some numbers."""
    draw = Draw(chosen, count)
    rules = (
        draw.some(Fault("status", 88), 30),
        draw.some(Fault("status", 20), 40),
        draw.some(Fault("accept_then_reset"), 60),
    )
    gone = frozenset(_numbers(who).removeprefix("+") for who in unknown)
    server = SmsCenter("shop", KEY[:8], unknown=gone, **common(rules, chosen, folder, "smpp"))
    settings = f'url = "smpp://shop:{KEY[:8]}@127.0.0.1:{{port}}"\nfrom = "Shop"\nreports = false'
    return _way(
        "smpp", "SMS center (SMPP)", server, settings, _numbers, gone, base=False, read=event_id,
        faults=(f"numbers unknown: {len(unknown)}", "throttled, queue full", "resets after it took one"),
    )  # fmt: skip


def apprise(chosen: random.Random, count: int, folder: Path | None, _people: Sequence[int]) -> Way:
    """A service behind a library, which tells whether it worked and no more: so nothing is lost here half-way."""
    draw = Draw(chosen, count)
    rules = draw.some(Fault("status", 503), 20), draw.some(limited(), 20)
    server = JsonService(reference=_by_event, **common(rules, chosen, folder, "apprise"))
    return _way(
        "apprise", "service by Apprise", server, 'schemas = ["json://127.0.0.1:{port}"]',
        lambda who: f"json://127.0.0.1:{server.port}/customers/{who + 1}", frozenset(),
        # A time-out of the library's own looks like a refusal, and would be called again.
        faults=("503, 429: all the same to it",), base=False, timeout="15s",
    )  # fmt: skip


def wildberries(chosen: random.Random, count: int, folder: Path | None, gone: Sequence[int]) -> Way:
    """Questions that are answered, of which some are gone."""
    known = [f"q{who + 1}" for who in range(count) if who not in gone]
    rules = _plan(Draw(chosen, count))["rules"]
    server = WildberriesApi(KEY, questions=known, **common(rules, chosen, folder, "replies"))
    return _way(
        "replies", "marketplace", server, f'token = "{KEY}"', lambda who: f"question:q{who + 1}", frozenset(),
        faults=_faults("questions gone", len(gone)), read=event_id, provider="wildberries",
    )  # fmt: skip


MAKERS: dict[str, Make] = {
    "apns": apns,
    "slack": slack,
    "discord": discord,
    "teams": teams,
    "viber": viber,
    "max": max_,
    "whatsapp": whatsapp,
    "twilio": twilio,
    "vonage": vonage,
    "smpp": smpp,
    "apprise": apprise,
    "replies": wildberries,
}
"""By the channel's name; that of the provider, but for one."""


def missing() -> dict[str, str]:
    """What can not be shown on this machine, and why, by provider."""
    found = {}
    shown = {"smtp", "webhook", "telegram", "fcm", "webpush", "inapp", "sandbox", "wildberries", *MAKERS}
    for name in registry.names():
        cls = registry.answering(name)
        if cls is not None and cls.needs and find_spec(cls.needs) is None:
            found[name] = f"the extra {name} is not installed"
        elif name not in shown:
            found[name] = "no server stands in for it"
    return found


def _way(
    channel: str,
    title: str,
    server: Any,
    settings: str,
    address: Callable[[int], object],
    refused: frozenset[str],
    *,
    faults: tuple[str, ...],
    in_doubt: str = "assume_sent",
    repeat: str = "",
    reference: Callable[[Row], str] = _event_of,
    read: Callable[[str], str] = str,
    base: bool = True,
    provider: str = "",
    timeout: str = "",
) -> Way:
    lines = [f'provider = "{provider or channel}"', *settings.splitlines()]
    lines += ['base_url = "http://127.0.0.1:{port}"'] if base else []
    return Way(
        channel=channel,
        title=title,
        server=server,
        ledger=server.ledger,
        provider="\n".join(lines) + "\n",
        in_doubt=in_doubt,
        address=address,
        repeat=repeat,
        refused=refused,
        reference=reference,
        read=read,
        timeout=timeout,
        faults=faults,
    )
