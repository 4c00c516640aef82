"""Field reports about short messages and pushes to phones. The ids are those of docs/reference/field-reports.md."""

import json
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ringonce.core.fit import fitted
from ringonce.core.sms import segments
from ringonce.errors import PayloadTooLarge
from ringonce.provider import HttpAnswer, OutcomeClass
from ringonce.providers.apns import Apns, ApnsOptions
from ringonce.providers.twilio import Twilio, TwilioOptions
from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.script import plan
from ringonce.vendors.twilio import TwilioApi
from tests.providers.samples import NOW, address, content, context, message
from tests.requirements.conftest import Facts, Start, outcomes
from tests.requirements.test_push_apns import push

DEVICE = "0a" * 32
MINUTE = 60_000_000
FIRST, SECOND = "+15005550006", "+15005550007"
NUMBER = "+447700900123"


def sms(server: TwilioApi, sender: str) -> Facts:
    """A channel that sends by this number."""
    return {
        "provider": "twilio",
        "account_sid": "AC1",
        "auth_token": "t",
        "from": sender,
        "base_url": server.url,
        "backoff": {"kind": "fixed", "base": "50s", "jitter": 0},
    }


async def test_clas_05_a_stop_concerns_one_sender(start: Start) -> None:
    """CLAS-05: a STOP to one number silenced all of them, and errors that stay were tried again.

    Sources: department-of-veterans-affairs/notification-api#2070, nyaruka/courier#180, SparkDevNetwork/Rock#5581. Here:
    one call, then the number is dropped for the channel whose sender was told to stop; another sender reaches it.
    """
    with TwilioApi("AC1", "t", stopped=[NUMBER]) as one, TwilioApi("AC1", "t") as other:
        system = await start(first=sms(one, FIRST), second=sms(other, SECOND))
        for channel in ("first", "second"):
            await system.ring.register("ada", channel, NUMBER)
        for _ in range(2):
            await system.ring.notify(recipients=["ada"], content={"text": "hello"})
            await system.work()
        assert len(one.ledger.entries) == 1
        assert len(other.messages) == 2
        assert await system.ring.addresses("ada", "first") == []


async def test_clas_05_b_what_passes_is_tried_again(start: Start) -> None:
    """CLAS-05: too many requests is no verdict on the message."""
    with TwilioApi("AC1", "t", plan=plan(["429:first=1,retry_after=1"])) as server:
        system = await start(sms=sms(server, FIRST))
        id_ = await system.accept("sms", NUMBER)
        await system.work()
        view = await system.view(id_)
        assert (view["final"], outcomes(view)) == (False, ["rate_limited"])
        await system.ring.enable("sms")
        await system.pass_time(86_400)
        await system.work()
        assert outcomes(await system.view(id_)) == ["rate_limited", "accepted"]


@pytest.mark.parametrize("code", [21610, 21211, 21617, 30005, 30007])
def test_clas_05_c_answer_and_report_agree(code: int) -> None:
    """CLAS-05: a code means the same in the answer and in a later report."""
    answer = HttpAnswer(400, {}, json.dumps({"code": code}).encode())
    told = {"MessageStatus": "failed", "ErrorCode": str(code)}
    report = HttpAnswer(0, {}, json.dumps(told).encode())
    both = [Twilio.outcome(one, context()) for one in (answer, report)]
    assert both[0].cls is both[1].cls
    assert both[0].drop_address is both[1].drop_address


def test_clck_01_one_token_for_eight_workers() -> None:
    """CLCK-01: with a wrong clock, or in many workers, a push token was made for each call, until none was taken.

    Sources: node-apn/node-apn#590, internxt/drive-server-old#452, codedge-llc/pigeon#226. Here: eight workers that know
    nothing of each other make one token in 40 minutes, whatever steps the clock makes within them.
    """
    key = ec.derive_private_key(4_711, ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    options = ApnsOptions(key.decode(), "ABC123DEFG", "TEAM123456", "com.example.app")
    workers = [Apns(options) for _ in range(8)]
    made = set()
    for step in range(1_000):
        back = 10 * MINUTE if 300 < step < 500 else 0
        at = NOW + step * 3_600_000 - back
        request = workers[step % 8].request(message(), address(DEVICE), context(at))
        made.add(dict(request.headers)["authorization"])
    assert len(made) == 3  # an hour touches three windows


@pytest.mark.parametrize("hours", [1, -1])
async def test_clck_01_b_a_wrong_clock_costs_no_attempt(start: Start, hours: int) -> None:
    """CLCK-01: an hour off, every token is refused; the channel pauses after one more call, and nothing is counted."""
    with ApnsApi(clock=lambda: time.time() + 3_600 * hours) as server:
        system = await start(push=push(server))
        id_ = await system.accept("push", DEVICE)
        await system.work()
        view = await system.view(id_)
        assert (view["status"], view["attempts"], outcomes(view)) == ("pending", 0, ["auth", "auth"])
        assert view["last_error"]["provider_code"] == "ExpiredProviderToken"
        assert len(server.tokens) <= 2
        server.clock = time.time
        await system.ring.enable("push")
        await system.work()
        assert (await system.view(id_))["status"] == "sent"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a" * 160, 1),
        ("a" * 159 + "€", 2),
        ("a" * 159 + "[", 2),
        ("ж" * 70, 1),
        ("ж" * 69 + "😀", 2),
        ("a" * 159 + "\u2019", 3),
        ("a" * 69 + "\u00a0", 1),
        ("a" * 1_600, 11),
    ],
)
def test_encd_06_parts_are_counted_as_they_are_billed(text: str, parts: int) -> None:
    """ENCD-06: one emoji or a typographic quote more than doubled what a short message costs, and nobody had counted.

    Sources: TwilioDevEd/message-segment-calculator#5, minutis-redcall/redcall#48. Here: the boundaries of both
    alphabets are right, pairs stay together, and `max_segments` refuses at acceptance what would cost more.
    """
    assert len(segments(text).parts) == parts
    options = TwilioOptions("AC1", "t", FIRST, max_segments=parts)
    Twilio(options).check(content(text=text))
    if parts > 1:
        with pytest.raises(PayloadTooLarge):
            Twilio(TwilioOptions("AC1", "t", FIRST, max_segments=parts - 1)).check(content(text=text))


def test_encd_06_b_a_template_is_cut_to_fit() -> None:
    """ENCD-06: what a template made too long is cut to the parts that are allowed, so that 21617 is never reached."""
    provider = Twilio(TwilioOptions("AC1", "t", FIRST, max_segments=2))
    shorter = fitted(content(text="слово " * 400), provider.check).text or ""
    assert shorter.endswith("…")
    assert len(segments(shorter).parts) == 2
    assert (
        Twilio.outcome(HttpAnswer(400, {}, b'{"code":21617}'), context()).cls is OutcomeClass.INVALID_PAYLOAD
    )
