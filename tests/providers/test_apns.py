"""APNs: the team's token, the call, ids, limits, what a dead token proves."""

import base64
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ringonce import registry
from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import Content, HttpAnswer, HttpRequest, InDoubt, Outcome, OutcomeClass
from ringonce.providers.apns import Apns, ApnsOptions
from ringonce.testing import check_provider
from tests.providers.samples import CREATED, ID, NOW, address, content, context, message

KEY = ec.derive_private_key(4_711, ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
GOOD: dict[str, Any] = {
    "key": PEM,
    "key_id": "ABC123DEFG",
    "team_id": "TEAM123456",
    "topic": "com.example.app",
}
DEVICE = "0a" * 32
MINUTE = 60_000_000
WINDOW = 40 * MINUTE


def apns(**options: str) -> Apns:
    """Build a provider."""
    return Apns(ApnsOptions(**{**GOOD, **options}))


def call(
    said: Content | None = None, *, now: int = NOW, channel: Apns | None = None, **more: Any
) -> HttpRequest:
    """Build the call."""
    return (channel or apns()).request(message(said, **more), address(DEVICE), context(now))


def head(request: HttpRequest) -> dict[str, str]:
    """Read the headers."""
    return dict(request.headers)


def told(reason: str, status: int, registered_at: int | None = None, **more: object) -> Outcome:
    """Read an answer of the service."""
    answer = HttpAnswer(status, {}, json.dumps({"reason": reason, **more}).encode())
    return Apns.outcome(answer, replace(context(), registered_at=registered_at))


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("apns", GOOD, address=DEVICE, bad_addresses=["zz" * 32, "0a" * 31, "0a" * 32 + "0"])


def test_key_from_a_file(tmp_path: Any) -> None:
    """The key may be given as the path of the downloaded file."""
    (tmp_path / "AuthKey.p8").write_text(PEM)
    built = registry.build("apns", {**GOOD, "key": "AuthKey.p8"}, tmp_path)
    assert head(call(channel=built)) == head(call())  # type: ignore[arg-type]


def test_call() -> None:
    """One POST by HTTP/2 to the device's path, with the alert as it is shown."""
    request = call(content(title="Order 42", text="On its way 😀"))
    assert (request.method, request.http2, request.timeout) == ("POST", True, 15.0)
    assert request.url == f"https://api.push.apple.com/3/device/{DEVICE}"
    assert json.loads(request.body) == {
        "aps": {"alert": {"title": "Order 42", "body": "On its way 😀"}, "sound": "default"}
    }
    headers = head(request)
    assert (headers["apns-topic"], headers["apns-push-type"], headers["apns-priority"]) == (
        "com.example.app",
        "alert",
        "10",
    )


def test_environment() -> None:
    """Builds from Xcode are reached at the development server, or at one that is named."""
    assert call(channel=apns(environment="development")).url.startswith(
        "https://api.sandbox.push.apple.com/3/"
    )
    assert call(channel=apns(base_url="http://127.0.0.1:1/")).url == f"http://127.0.0.1:1/3/device/{DEVICE}"


def test_data() -> None:
    """Data stand beside ``aps``; alone they wake the app in the background, which has a priority of its own."""
    body = json.loads(call(content(data={"order": 42})).body)
    assert (body["order"], body["aps"]["alert"]["body"]) == (42, "It is on its way.")
    alone = call(content(text=None, data={"order": 42}), priority="high")
    assert json.loads(alone.body) == {"aps": {"content-available": 1}, "order": 42}
    assert (head(alone)["apns-push-type"], head(alone)["apns-priority"]) == ("background", "5")


def test_silence() -> None:
    """Without a sound an alert plays none."""
    assert "sound" not in json.loads(call(channel=apns(sound="")).body)["aps"]


@pytest.mark.parametrize(("priority", "value"), [("high", "10"), ("normal", "10"), ("low", "5")])
def test_priority(priority: str, value: str) -> None:
    """What may wait for the device's own time has a low priority."""
    assert head(call(priority=priority))["apns-priority"] == value


def test_expiration() -> None:
    """A device that is away is waited for until the notification expires, or for a month; never forever."""
    assert head(call(expires_at=NOW + MINUTE))["apns-expiration"] == str((NOW + MINUTE) // 1_000_000)
    assert head(call(expires_at=-1))["apns-expiration"] == "0"
    assert head(call())["apns-expiration"] == str(NOW // 1_000_000 + 2_592_000)


def test_ids() -> None:
    """apns-id is the notification's own, a UUID for later revisions too; both ids are the same over all attempts."""
    first, second = head(call()), head(call(attempt=2, now=NOW + WINDOW))
    assert (first["apns-id"], first["apns-collapse-id"]) == (str(ID), str(ID))
    assert (second["apns-id"], second["apns-collapse-id"]) == (str(ID), str(ID))
    revised = replace(message(reference=f"{ID}.r2"), revision=2)
    headers = head(apns().request(revised, address(DEVICE), context()))
    assert str(UUID(headers["apns-id"])) == headers["apns-id"] != str(ID)
    assert headers["apns-collapse-id"] == f"{ID}.r2"


def claims(request: HttpRequest) -> dict[str, Any]:
    """Verify the token and read its claims."""
    scheme, token = head(request)["authorization"].split(" ")
    assert scheme == "bearer"
    parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]
    raw = parts[2]
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    signed = token.rpartition(".")[0].encode()
    KEY.public_key().verify(both, signed, ec.ECDSA(hashes.SHA256()))
    assert json.loads(parts[0]) == {"kid": "ABC123DEFG", "alg": "ES256"}
    found: dict[str, Any] = json.loads(parts[1])
    return found


def test_token() -> None:
    """The token is the team's, signed with its key."""
    assert claims(call())["iss"] == "TEAM123456"


def test_one_token_for_all() -> None:
    """Workers and channels of a team that know nothing of each other make the same token, byte by byte."""
    channels = [apns(), apns(), apns(topic="com.example.other"), apns(environment="development")]
    start = CREATED // WINDOW * WINDOW + 10 * MINUTE
    made = {
        head(call(channel=channel, now=now))["authorization"]
        for channel in channels
        for now in (start, start + 7 * MINUTE, start + WINDOW - 1_000_000)
    }
    assert len(made) == 1


def test_token_age() -> None:
    """Whenever a call is made, its token is 10 to 50 minutes old, and a new one comes 40 minutes after the last."""
    channel = apns()
    begin = CREATED // WINDOW * WINDOW
    times = range(begin, begin + 3 * WINDOW, MINUTE)
    issued = [claims(call(channel=channel, now=now))["iat"] for now in times]
    ages = [now // 1_000_000 - at for now, at in zip(times, issued, strict=True)]
    assert (min(ages), max(ages)) == (600, 2_940)
    different = sorted(set(issued))
    assert {after - before for before, after in pairwise(different)} == {2_400}


def test_expired_token_heals() -> None:
    """A token that the service calls expired is made anew and tried once, before anybody is alarmed."""
    assert told("ExpiredProviderToken", 403).refresh
    assert not told("InvalidProviderToken", 403).refresh


@pytest.mark.parametrize("told_first", [True, False])
def test_late_proof(told_first: bool) -> None:
    """A timestamp in milliseconds is the moment of the proof: who registered after it keeps the token."""
    at = (CREATED + 5_000_000) // 1_000
    registered = at * 1_000 - 1 if told_first else at * 1_000 + 1
    outcome = told("Unregistered", 410, registered, timestamp=at)
    assert (outcome.cls, outcome.proof_at) == (OutcomeClass.INVALID_RECIPIENT, at * 1_000)
    assert outcome.drop_address is told_first


@pytest.mark.parametrize("timestamp", [None, "1700000000000", True, 0, -1, 10**15, 1.5])
def test_no_timestamp(timestamp: object) -> None:
    """Without a legible timestamp the answer itself is the proof."""
    outcome = told("ExpiredToken", 410, CREATED, timestamp=timestamp)
    assert (outcome.proof_at, outcome.drop_address) == (None, True)


def test_proof_from_the_future() -> None:
    """A proof is never later than now: a wrong clock there must not kill what registers tomorrow."""
    assert told("Unregistered", 410, CREATED, timestamp=NOW // 1_000 + 86_400_000).proof_at == NOW


@pytest.mark.parametrize(
    ("reason", "status"),
    [("Unregistered", 200), ("Unregistered", 502), ("BadDeviceToken", 403), ("SomethingNew", 410)],
)
def test_nothing_else_drops(reason: str, status: int) -> None:
    """A token is dropped for a known reason with its status only."""
    assert not told(reason, status).drop_address


def test_own_word() -> None:
    """The service's reason is kept, and a limit of one device holds up no other."""
    outcome = told("TooManyRequests", 429)
    assert (outcome.provider_code, outcome.scope) == ("TooManyRequests", "address")


def test_accepted() -> None:
    """200 with nothing in it is accepted under the service's id; with a page or half a body it is not."""
    outcome = Apns.outcome(HttpAnswer(200, {"apns-id": "X"}), context())
    assert (outcome.cls, outcome.message_id) == (OutcomeClass.ACCEPTED, "X")
    for body in (b"<html>", b'{"a"'):
        assert Apns.outcome(HttpAnswer(200, {}, body), context()).cls is OutcomeClass.TRANSIENT


def test_payload_limit() -> None:
    """4,096 bytes of payload are carried, and one more is refused."""
    empty = len(call(content(text="x")).body) - 1
    apns().check(content(text="x" * (4_096 - empty)))
    with pytest.raises(PayloadTooLarge):
        apns().check(content(text="x" * (4_097 - empty)))


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (content(data={"aps": {}}), "content.data.aps"),
        (content(data={"a": float("nan")}), "content.data"),
        (content(text=None, html="<p>"), "content.html"),
    ],
)
def test_refused_content(said: Content, field: str) -> None:
    """The service's own key, what JSON has no word for, and HTML alone are refused."""
    with pytest.raises(InputError) as error:
        apns().check(said)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", "no key"),
        ("key_id", "short"),
        ("team_id", "TEAM 12345"),
        ("topic", "com example"),
        ("topic", ""),
        ("environment", "sandbox"),
        ("base_url", "api.push.apple.com"),
    ],
)
def test_bad_options(name: str, value: str) -> None:
    """What can not be right is refused at start-up, by its name."""
    with pytest.raises(ConfigError) as error:
        apns(**{name: value})
    assert error.value.field == name


def test_address() -> None:
    """Hexadecimal digits in either case are one token."""
    assert apns().address(f" {DEVICE.upper()} ") == DEVICE
    assert apns().address("0a" * 100) == "0a" * 100


def test_account() -> None:
    """An account is team, key, app and environment, for each of them may be refused alone; the key shows nowhere."""
    names = {channel.account for channel in (apns(), apns(topic="a.b"), apns(environment="development"))}
    app = "apns:TEAM123456:ABC123DEFG:com.example.app"
    assert names == {f"{app}:production", "apns:TEAM123456:ABC123DEFG:a.b:production", f"{app}:development"}
    assert "PRIVATE" not in repr(apns().options)


def test_declarations() -> None:
    """A repeat replaces what is shown, so a doubt is sent again."""
    assert (Apns.in_doubt, Apns.push) == (InDoubt.RESEND, True)


def test_a_connection_is_for_one_team() -> None:
    """Calls of other teams and keys go by other connections; apps of one team share theirs."""
    label = call().connection
    assert label == call(channel=apns(topic="com.example.other")).connection
    others = [apns(team_id="TEAM000000"), apns(key_id="KEY0000000")]
    assert len({label, *(call(channel=other).connection for other in others)}) == 3


def test_a_topic_is_the_sender() -> None:
    """A topic that is refused is a setting of this channel: no other app of the team is concerned."""
    for reason, status in (("TopicDisallowed", 400), ("BadTopic", 400), ("MissingTopic", 400)):
        outcome = told(reason, status)
        assert (outcome.cls, outcome.scope) == (OutcomeClass.AUTH, "sender")
    assert told("InvalidProviderToken", 403).scope == "channel"
