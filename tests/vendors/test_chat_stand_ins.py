"""The stand-ins for chats, called through the real wire by their own providers, which read what they answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ringonce import registry
from ringonce.model.exchange import HttpAnswer, HttpRequest
from ringonce.provider import Content, Outcome, Provider
from ringonce.vendors.chat import ChatApi
from ringonce.vendors.discord import DiscordHooks
from ringonce.vendors.ledger import read_ledger
from ringonce.vendors.max import MaxApi
from ringonce.vendors.script import plan
from ringonce.vendors.slack import SlackHooks
from ringonce.vendors.teams import TeamsFlows
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.providers.samples import address, content, context, message
from tests.vendors.conftest import Ask, program

HOOK = "223704706495545344/3d89bb7572e0fb30d8128367b3b1b44f"


@dataclass(frozen=True)
class Way:
    """A stand-in with its provider. ``refused``: the vendor's word for an address, and what it means."""

    make: type[ChatApi]
    address: str
    refused: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)

    def provider(self, url: str, **settings: str) -> Provider:
        """The provider that calls the stand-in."""
        return registry.build(
            self.make.__module__.rpartition(".")[2], {"base_url": url, **self.settings, **settings}
        )


WAYS = {
    "whatsapp": Way(
        WhatsAppApi,
        "+15550001234",
        {
            "131026": "invalid_recipient",
            "131050": "blocked",
            "131056": "rate_limited",
            "132016": "not_implemented",
        },
        {"token": "t", "phone_number_id": "106540352242922"},
        {"token": "t", "number": "106540352242922"},
    ),
    "viber": Way(
        ViberApi,
        "01234567890A=",
        {"5": "invalid_recipient", "6": "blocked", "12": "rate_limited"},
        {"token": "t", "sender": "Acme"},
        {"token": "t"},
    ),
    "max": Way(
        MaxApi,
        "user:42",
        {
            "chat.denied": "blocked",
            "chat.not.found": "invalid_recipient",
            "attachment.not.ready": "transient",
        },
        {"token": "t"},
        {"token": "t"},
    ),
    "slack": Way(
        SlackHooks,
        "T0/B0/x",
        {
            "channel_not_found": "invalid_recipient",
            "channel_is_archived": "invalid_recipient",
            "invalid_token": "auth",
        },
    ),
    "discord": Way(
        DiscordHooks,
        HOOK,
        {"10015": "invalid_recipient", "50027": "invalid_recipient", "50035": "invalid_payload"},
    ),
    "teams": Way(
        TeamsFlows,
        "{url}/workflows/1?sig=x",
        {
            "WorkflowNotFound": "invalid_recipient",
            "WorkflowTriggerIsNotEnabled": "blocked",
            "DirectApiAuthorizationRequired": "auth",
        },
    ),
}
EACH = pytest.mark.parametrize("name", WAYS)
Send = Callable[..., Any]


def request(way: Way, url: str, said: Content | None = None, **settings: str) -> HttpRequest:
    """The provider's call. The guard is for users' hosts; this one is on loopback."""
    provider = way.provider(url, **settings)
    to = provider.address(way.address.format(url=url))
    made = provider.request(message(said or content()), address(to), context(timeout=30.0))
    assert isinstance(made, HttpRequest)
    return replace(made, guarded=False, connect_timeout=30.0)


async def meaning(call: Ask, way: Way, made: HttpRequest) -> Outcome:
    """What the provider makes of the stand-in's answer."""
    [answer] = await call(made)
    return type(way.provider("http://127.0.0.1:1")).outcome(answer, context())


@EACH
async def test_a_message_is_taken(call: Ask, name: str) -> None:
    """A provider's call is taken, its answer is read as accepted, and the ledger names reference and address."""
    way = WAYS[name]
    with way.make(**way.given) as server:
        outcomes = [await meaning(call, way, request(way, server.url)) for _ in range(2)]
        assert [outcome.cls for outcome in outcomes] == ["accepted", "accepted"]
        ids = {outcome.message_id for outcome in outcomes}
        assert ids == {None} if name == "slack" else None not in ids and len(ids) == 2
        [first, _] = server.ledger.entries
        assert first.accepted
        assert first.address == way.address.format(url=server.url)
        carries = name in {"whatsapp", "viber"}
        assert first.reference == (message().reference if carries else "It is on its way.")


@pytest.mark.parametrize(
    ("name", "word"), [(name, word) for name, way in WAYS.items() for word in way.refused]
)
async def test_an_address_is_refused(call: Ask, name: str, word: str) -> None:
    """A refused address gets the vendor's word, which the provider understands, and nobody was told."""
    way = WAYS[name]
    server = way.make(**way.given)
    with server:
        server._refused[way.address.format(url=server.url)] = word
        outcome = await meaning(call, way, request(way, server.url))
        assert outcome.cls == way.refused[word]
        assert server.ledger.accepted() == {}


@EACH
@pytest.mark.parametrize(("status", "meant"), [(429, "rate_limited"), (500, "transient"), (503, "transient")])
async def test_a_fault_is_told_in_the_vendors_words(call: Ask, name: str, status: int, meant: str) -> None:
    """A scripted status comes as the vendor would say it, is understood, and the next call works."""
    way = WAYS[name]
    with way.make(**way.given, plan=plan([f"{status}:first=1,retry_after=7"])) as server:
        outcome = await meaning(call, way, request(way, server.url))
        assert (outcome.cls, outcome.retry_after_s) == (meant, 7)
        assert (await meaning(call, way, request(way, server.url))).cls == "accepted"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("whatsapp", {"token": "other"}),
        ("whatsapp", {"phone_number_id": "99999"}),
        ("viber", {"token": "other"}),
        ("max", {"token": "other"}),
    ],
)
async def test_a_wrong_credential(call: Ask, name: str, settings: dict[str, str]) -> None:
    """Another bot's token, and another sender's number, are refused, and the provider knows that it is our fault."""
    way = WAYS[name]
    with way.make(**way.given) as server:
        outcome = await meaning(call, way, request(way, server.url, **settings))
        assert outcome.cls == "auth"


@pytest.mark.parametrize(
    ("name", "change", "meant"),
    [
        ("whatsapp", {"text": {"body": "x" * 4_097}}, "invalid_payload"),
        ("whatsapp", {"messaging_product": "pigeon"}, "invalid_payload"),
        ("viber", {"text": ""}, "invalid_payload"),
        ("max", {"text": "x" * 4_001}, "invalid_payload"),
        ("slack", {"text": ""}, "invalid_payload"),
        ("discord", {"content": ""}, "invalid_payload"),
        ("discord", {"content": "x" * 2_001}, "invalid_payload"),
        ("teams", {"attachments": []}, "invalid_payload"),
    ],
)
async def test_a_wrong_message(call: Ask, name: str, change: dict[str, object], meant: str) -> None:
    """A message that the vendor would not take is not taken, and the provider knows that it is the message's fault."""
    way = WAYS[name]
    with way.make(**way.given) as server:
        made = request(way, server.url)
        body = json.dumps({**json.loads(made.body), **change}).encode()
        assert (await meaning(call, way, replace(made, body=body))).cls == meant
        assert server.ledger.accepted() == {}


@pytest.mark.parametrize("name", ["whatsapp", "viber", "max", "slack", "discord"])
async def test_a_wrong_place(call: Ask, name: str) -> None:
    """A call of another path tells nobody, and no address is dropped for it."""
    way = WAYS[name]
    with way.make(**way.given) as server:
        made = replace(request(way, server.url), url=f"{server.url}/elsewhere")
        outcome = await meaning(call, way, made)
        assert outcome.cls != "accepted"
        assert outcome.drop_address is (name == "slack")  # where a path is an address
        assert server.ledger.accepted() == {}


async def test_what_is_no_json(call: Ask) -> None:
    """A body that is none is told so, and the right path with another method too."""
    way = WAYS["slack"]
    with SlackHooks() as server:
        for body in (b"{", b"[]"):
            made = replace(request(way, server.url), body=body)
            assert (await meaning(call, way, made)).provider_code == "invalid_payload"
    way = WAYS["max"]
    with MaxApi("t") as server:
        made = replace(request(way, server.url), method="PUT")
        assert (await meaning(call, way, made)).cls == "invalid_payload"


async def test_a_template_is_taken(call: Ask) -> None:
    """A template stands in the ledger like a text."""
    way = WAYS["whatsapp"]
    said = content(text=None, data={"template": {"name": "hello_world", "language": "en_US"}})
    with way.make(**way.given) as server:
        assert (await meaning(call, way, request(way, server.url, said))).cls == "accepted"


async def test_without_wait_nothing_is_told(call: Ask) -> None:
    """Discord without ``wait=true``: 204 for what was taken and for what was not; a thread is an address of its own."""
    way = replace(WAYS["discord"], address=f"{HOOK}?thread_id=1234567")
    with DiscordHooks() as server:
        made = request(way, server.url)
        hasty = replace(made, url=made.url.replace("&wait=true", ""))
        empty = replace(hasty, body=b'{"content": ""}')
        statuses = [answer.status for answer in await call(hasty, empty) if isinstance(answer, HttpAnswer)]
        assert statuses == [204, 204]
        assert server.ledger.accepted() == {("It is on its way.", way.address): 1}


async def test_a_scripted_body_stays_as_it_is(call: Ask) -> None:
    """A fault with a body of its own is answered word for word."""
    from ringonce.vendors.script import Fault, Plan, Rule

    fault = Fault("status", 429, body=b"error code: 1015")
    for name in ("discord", "slack"):
        way = WAYS[name]
        with way.make(plan=Plan((Rule(fault),))) as server:
            [answer] = await call(request(way, server.url))
            assert isinstance(answer, HttpAnswer)
            assert (answer.status, answer.body) == (429, b"error code: 1015")


@EACH
async def test_as_a_program(call: Ask, tmp_path: Path, name: str) -> None:
    """Each is a program with a ledger, faults and refused addresses, and ends well at SIGTERM."""
    way, path = WAYS[name], tmp_path / "ledger.jsonl"
    options = [part for key, value in way.given.items() for part in (f"--{key}", value)]
    refused = ["--refused", f"{way.address}={next(iter(way.refused))}"] if name != "teams" else []
    with program(name, *options, *refused, "--fault", "500:first=1", "--ledger", str(path)) as port:
        url = f"http://127.0.0.1:{port}"
        outcomes = [await meaning(call, way, request(way, url)) for _ in range(2)]
    assert outcomes[0].cls == "transient"
    assert outcomes[1].cls == (next(iter(way.refused.values())) if refused else "accepted")
    assert len(read_ledger(path)) == 2
