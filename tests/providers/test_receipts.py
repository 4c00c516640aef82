"""What vendors' callbacks say, and that nobody else's are believed."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ringonce.core import signature
from ringonce.errors import ConfigError, ForgedError, InputError
from ringonce.model.receipt import Callback, Report
from ringonce.provider import Context, OutcomeClass, Provider
from ringonce.providers.discord import Discord, DiscordOptions
from ringonce.providers.max import Max, MaxOptions
from ringonce.providers.sandbox import Sandbox, SandboxOptions
from ringonce.providers.slack import Slack, SlackOptions
from ringonce.providers.telegram import Telegram, TelegramOptions
from ringonce.providers.twilio import Twilio, TwilioOptions
from ringonce.providers.viber import Viber, ViberOptions
from ringonce.providers.vonage import Vonage, VonageOptions
from ringonce.providers.whatsapp import WhatsApp, WhatsAppOptions
from ringonce.vendors.max import MaxApi
from ringonce.vendors.reports import Planned, Reporter, Told, planned
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.vonage import VonageApi
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.providers.samples import ID, NOW

SECRET = "agreed-secret"
URL = "https://notify.example.com/v1/receipts/way"
AT = NOW // 1_000_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw().hex()
WHATSAPP = WhatsApp(WhatsAppOptions("t", "106540352242922", receipt_secret=SECRET, verify_token="v"))
VIBER = Viber(ViberOptions(SECRET, "Shop"))
TWILIO = Twilio(TwilioOptions("AC1", SECRET, from_="+15005550006"))
VONAGE = Vonage(VonageOptions("k", "s", "Shop", receipt_secret=f"new, {SECRET}"))
TELEGRAM = Telegram(TelegramOptions("1:abc", receipt_secret=("new", SECRET)))
MAX = Max(MaxOptions("t", receipt_secret=SECRET))
SLACK = Slack(SlackOptions(receipt_secret=SECRET))
DISCORD = Discord(DiscordOptions(public_key=PUBLIC))
TOLD = Told(str(ID), "+15550001234", "m-1", f"{URL}?reference={ID}")
VENDORS: dict[str, tuple[Provider, Reporter, Told]] = {
    "whatsapp": (WHATSAPP, WhatsAppApi("t", "106540352242922", receipt_secret=SECRET), TOLD),
    "viber": (VIBER, ViberApi(SECRET), replace(TOLD, message_id="5741311803571721088")),
    "twilio": (TWILIO, TwilioApi("AC1", SECRET), TOLD),
    "vonage": (VONAGE, VonageApi("k", "s", receipt_secret=SECRET), TOLD),
    "telegram": (TELEGRAM, TelegramApi("1:abc", receipt_secret=SECRET), Told(address="4815162342", url=URL)),
    "max": (MAX, MaxApi("t", receipt_secret=SECRET), Told(address="user:42", url=URL)),
}
MESSAGES = ("whatsapp", "viber", "twilio", "vonage")
READ = {"viber": "seen"}


def called(vendor: str, text: str, secret: str = SECRET, **changes: Any) -> Callback:
    """The callback of a vendor."""
    _, stand_in, told = VENDORS[vendor]
    plan: Planned = replace(planned(text), at=float(AT))
    signed = stand_in.callback(told, plan, secret)
    headers = {name.lower(): value for name, value in signed.headers.items()}
    return replace(Callback("POST", signed.url, headers, signed.body), **changes)


def read(vendor: str, callback: Callback, now: int = NOW) -> list[Report]:
    """What it reports."""
    return list(VENDORS[vendor][0].receipts(callback, Context(now)))


@pytest.mark.parametrize(
    ("vendor", "word"),
    # Short messages of one of them are never reported as read.
    [(v, w) for v in MESSAGES for w in ("delivered", "read", "failed") if (v, w) != ("vonage", "read")],
)
def test_a_report_names_its_message(vendor: str, word: str) -> None:
    """Kind, our reference where the vendor carries it, and the vendor's id are read from a callback."""
    (report,) = read(vendor, called(vendor, READ.get(vendor, word) if word == "read" else word))
    provider, _, told = VENDORS[vendor]
    assert (report.kind.value, report.message_id) == (word, told.message_id)
    assert report.reference == (None if provider.receipts_by == "message_id" else str(ID))
    assert report.at in {None, AT * 1_000_000}
    assert (report.outcome is None) is (word != "failed")
    assert report.outcome is None or report.outcome.cls is OutcomeClass.TRANSIENT


@pytest.mark.parametrize(
    ("vendor", "text", "cls", "drop"),
    [
        ("whatsapp", "failed=131026", "invalid_recipient", False),
        ("whatsapp", "failed=131047", "invalid_payload", False),
        ("whatsapp", "failed=131049", "blocked", False),
        ("whatsapp", "failed=999999", "transient", False),
        ("viber", "failed=no such user", "transient", False),
        ("twilio", "undelivered=30003", "transient", False),
        ("twilio", "failed=21610", "blocked", True),
        ("twilio", "undelivered=30006", "invalid_recipient", True),
        ("twilio", "canceled", "not_implemented", False),
        ("vonage", "failed=3", "invalid_recipient", False),
        ("vonage", "rejected=4", "blocked", False),
        ("vonage", "failed=6", "invalid_payload", False),
        ("vonage", "failed=15", "auth", False),
        ("vonage", "expired=12", "transient", False),
    ],
)
def test_a_failure_means_what_the_same_code_means_in_an_answer(
    vendor: str, text: str, cls: str, drop: bool
) -> None:
    """CLAS-05: a code in a callback is classified like the code in an answer, address and all."""
    (report,) = read(vendor, called(vendor, text))
    assert report.outcome is not None
    assert (report.outcome.cls.value, report.outcome.drop_address) == (cls, drop)
    code = text.partition("=")[2]
    assert code in {report.outcome.provider_code, ""}
    assert "HTTP" not in report.outcome.text
    assert "1555" not in report.outcome.text


@pytest.mark.parametrize(
    ("vendor", "text"),
    [("whatsapp", "sent"), ("twilio", "queued"), ("twilio", "sent"), ("vonage", "buffered")],
)
def test_that_it_was_taken_is_no_arrival(vendor: str, text: str) -> None:
    """A status that says only that the vendor took it is reported as sent."""
    assert [report.kind.value for report in read(vendor, called(vendor, text))] == ["sent"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_is_no_receipt_is_no_report(vendor: str) -> None:
    """A signed callback about something else is accepted and reports nothing."""
    assert read(vendor, called(vendor, "webhook")) == []


@pytest.mark.parametrize(
    ("vendor", "how"),
    [
        (vendor, how)
        for vendor in VENDORS
        for how in ("another secret", "another body", "no signature", "not ASCII")
        # Two of them sign nothing: their header repeats a secret.
        if how != "another body" or vendor not in {"telegram", "max"}
    ],
)
def test_a_forged_callback_is_refused(vendor: str, how: str) -> None:
    """Signed by another secret, changed afterwards, not signed, or signed by nonsense: nothing is believed."""
    word = "blocked" if vendor in {"telegram", "max"} else "delivered"
    good = called(vendor, word)
    assert read(vendor, good)
    bad = {
        "another secret": called(vendor, word, "forged"),
        "another body": replace(good, body=good.body + b"&x=1"),
        "no signature": replace(good, headers={"content-type": good.headers["content-type"]}),
        "not ASCII": replace(good, headers=dict.fromkeys(good.headers, "é�")),
    }[how]
    if how == "no signature" and vendor == "vonage":
        bad = replace(good, body=good.body.partition(b"&sig=")[0])
    with pytest.raises(ForgedError):
        read(vendor, bad)
    assert "secret" not in str(ForgedError("x")).replace("channel's secret", "")


@pytest.mark.parametrize(("vendor", "address"), [("telegram", "4815162342"), ("max", "user:42")])
def test_blocks_and_returns_name_the_address(vendor: str, address: str) -> None:
    """Who stopped the bot, or started it again, is told in the form of an address, with the vendor's time."""
    for word in ("blocked", "unblocked"):
        reports = read(vendor, called(vendor, word))
        assert {(report.kind.value, report.at) for report in reports} == {(word, AT * 1_000_000)}
        assert address in [report.address for report in reports]
        provider = VENDORS[vendor][0]
        assert all(provider.address(report.address) == report.address for report in reports)


def test_viber_tells_who_left() -> None:
    """Viber's unsubscribed and subscribed name the person, in their two places."""
    VENDORS["person"] = (VIBER, ViberApi(SECRET), Told(address="01234567890A=", url=URL))
    for word, kind in (("unsubscribed", "blocked"), ("subscribed", "unblocked")):
        (report,) = read("person", called("person", word))
        assert (report.kind.value, report.address) == (kind, "01234567890A=")
    del VENDORS["person"]


def test_a_group_of_telegram_is_known_by_its_name_too() -> None:
    """A bot that is thrown out of a channel blocks its number and its name; odd members tell nothing."""

    def told(chat: object, status: object = "left") -> list[str | None]:
        update = {"my_chat_member": {"chat": chat, "date": AT, "new_chat_member": {"status": status}}}
        headers = {"x-telegram-bot-api-secret-token": "new"}
        return [
            one.address
            for one in read("telegram", Callback("POST", URL, headers, json.dumps(update).encode()))
        ]

    assert told({"id": -100123, "type": "channel", "username": "news"}) == ["-100123", "@news"]
    assert told({"id": 7, "type": "private", "username": "ada"}) == ["7"]
    assert told({"id": 7}, "restricted") == told({"id": None}) == told([1]) == told({"id": 7}, None) == []


def test_a_bot_of_max_that_is_removed_from_a_chat_blocks_the_chat_alone() -> None:
    """The person in bot_removed is who did it."""
    VENDORS["chat"] = (MAX, MaxApi("t", receipt_secret=SECRET), Told(address="chat:-9", url=URL))
    assert [one.address for one in read("chat", called("chat", "bot_removed"))] == ["chat:-9"]
    del VENDORS["chat"]


# --- signatures, each as its vendor defines it -------------------------------------------------------------------


def test_raw_bytes_are_signed() -> None:
    """HOOK-07: whatever spelling of JSON came, the signature is over its bytes; duplicate keys change nothing."""
    status = (
        b'{ "status":"delivered","id":"w","id":"m-1",  "biz_opaque_callback_data":"caf\\u00e9 \xc3\xa9" }'
    )
    body = b'\xef\xbb\xbf{"entry":[{"changes":[{"value":{"statuses":[' + status + b"]}}]}]}\n"
    made = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()

    def sent(given: bytes, signature: str) -> Callback:
        return Callback("POST", URL, {"x-hub-signature-256": signature}, given)

    (report,) = read("whatsapp", sent(body, f"sha256={made}"))
    assert (report.message_id, report.reference) == ("m-1", "café é")
    for other in (body[:-1], body.replace(b"\\u00e9", "é".encode()), body[3:]):
        with pytest.raises(ForgedError):
            read("whatsapp", sent(other, f"sha256={made}"))
    with pytest.raises(ForgedError):
        read("whatsapp", sent(body, made))


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"{", b'"x"', b"[" * 100_000, b"NaN"])
@pytest.mark.parametrize("vendor", ["whatsapp", "viber", "telegram", "max"])
def test_signed_nonsense_is_an_error_of_its_sender(vendor: str, body: bytes) -> None:
    """What is signed and no JSON object is refused as input, not as forged, and breaks nothing."""
    made = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "x-hub-signature-256": f"sha256={made}",
        "x-viber-content-signature": made,
        "x-telegram-bot-api-secret-token": SECRET,
        "x-max-bot-api-secret": SECRET,
    }
    with pytest.raises(InputError):
        read(vendor, Callback("POST", URL, headers, body))


@pytest.mark.parametrize(
    "value",
    [
        {"entry": 1},
        {"entry": [1, {"changes": [{"value": []}]}]},
        {"entry": [{"changes": [{"value": {"statuses": {}}}]}]},
    ],
)
def test_odd_shapes_report_nothing(value: object) -> None:
    """A part of another type than expected is passed by."""
    body = json.dumps(value).encode()
    made = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert read("whatsapp", Callback("POST", URL, {"x-hub-signature-256": f"sha256={made}"}, body)) == []


def test_whatsapp_shakes_hands_with_who_knows_the_token() -> None:
    """The challenge is repeated to whoever knows verify_token, and to nobody else."""

    def asked(method: str = "GET", **query: str) -> str | None:
        return WHATSAPP.handshake(Callback(method, f"{URL}?{urlencode(query)}"), Context(NOW))

    right = {"hub.mode": "subscribe", "hub.verify_token": "v", "hub.challenge": "1158201444"}
    assert asked(**right) == "1158201444"
    assert asked("POST", **right) is None
    assert asked() is None
    for wrong in ({"hub.verify_token": "x"}, {"hub.verify_token": ""}):
        with pytest.raises(ForgedError):
            asked(**(right | wrong))
    unset = WhatsApp(WhatsAppOptions("t", "106540352242922"))
    with pytest.raises(ForgedError):
        unset.handshake(Callback("GET", f"{URL}?{urlencode(right)}"), Context(NOW))


@pytest.mark.parametrize(
    ("signed", "seen", "fits"),
    [
        (f"{URL}?a=1", f"{URL}?a=1", True),
        ("https://notify.example.com:443/v1/receipts/way?a=1", f"{URL}?a=1", True),
        (f"{URL}?a=1", "https://notify.example.com:443/v1/receipts/way?a=1", True),
        (f"{URL}?a=1", f"{URL}?a=2", False),
        (f"{URL}?a=1", "http://10.0.0.7:8070/v1/receipts/way?a=1", False),
    ],
)
def test_twilio_signs_the_url_that_it_called(signed: str, seen: str, fits: bool) -> None:
    """The usual port may be written or not; everything else of the URL counts."""
    VENDORS["sms"] = (TWILIO, TwilioApi("AC1", SECRET), replace(TOLD, url=signed))
    callback = called("sms", "delivered", url=seen)
    if fits:
        assert read("sms", callback)
    else:
        with pytest.raises(ForgedError):
            read("sms", callback)
    # Behind a proxy that changes the URL, the one that was set counts.
    VENDORS["sms"] = (
        Twilio(TwilioOptions("AC1", SECRET, from_="+15005550006", status_callback=URL)),
        TwilioApi("AC1", SECRET),
        replace(TOLD, url=signed),
    )
    if "443" not in signed:
        assert bool(
            read("sms", called("sms", "delivered", url=f"http://10.0.0.7:8070/x?{signed.partition('?')[2]}"))
        )
    del VENDORS["sms"]


def test_twilio_signs_another_body_by_its_digest_in_the_url() -> None:
    """A JSON body counts only if the signed URL holds its SHA-256."""
    body = json.dumps({"MessageSid": "SM1", "MessageStatus": "delivered"}).encode()

    def sent(digest: str, given: bytes = body) -> list[Report]:
        url = f"{URL}?bodySHA256={digest}"
        made = base64.b64encode(hmac.new(SECRET.encode(), url.encode(), hashlib.sha1).digest()).decode()
        headers = {"x-twilio-signature": made, "content-type": "application/json"}
        return list(TWILIO.receipts(Callback("POST", url, headers, given), Context(NOW)))

    right = hashlib.sha256(body).hexdigest()
    assert [one.kind.value for one in sent(right)] == ["delivered"]
    for digest, given in ((right, body + b" "), ("", body), (hashlib.sha256(b"").hexdigest(), body)):
        with pytest.raises(ForgedError):
            sent(digest, given)


def test_a_secret_of_an_api_key_signs_no_callbacks_of_twilio() -> None:
    """With an API key the account's own token is set apart, for only that signs."""
    options = TwilioOptions("AC1", "key-secret", from_="+15005550006", api_key="SK1")
    VENDORS["sms"] = (Twilio(options), TwilioApi("AC1", SECRET), TOLD)
    for secret in ("key-secret", SECRET):
        with pytest.raises(ForgedError):
            read("sms", called("sms", "delivered", secret))
    VENDORS["sms"] = (Twilio(replace(options, receipt_secret=SECRET)), TwilioApi("AC1", SECRET), TOLD)
    assert read("sms", called("sms", "delivered"))
    del VENDORS["sms"]


def jwt(claims: dict[str, object], secret: str = SECRET, algorithm: str = "HS256") -> str:
    """A signed token."""

    def part(value: object) -> str:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    signed = f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims)}"
    return f"{signed}.{part(hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest())}"


def test_vonage_signs_a_body_by_a_token() -> None:
    """The token must be ours, of now, of the one algorithm, and hold the digest of this very body."""
    body = json.dumps({"message_uuid": "u-1", "status": "delivered", "client_ref": str(ID)}).encode()
    claims = {"iat": AT, "payload_hash": hashlib.sha256(body).hexdigest()}

    def sent(token: str, given: bytes = body) -> list[Report]:
        return read("vonage", Callback("POST", URL, {"authorization": f"Bearer {token}"}, given))

    (report,) = sent(jwt(claims))
    assert (report.kind.value, report.reference, report.message_id) == ("delivered", str(ID), "u-1")
    assert sent(jwt(claims, "new"))
    bad = [
        (jwt(claims), body + b" "),
        (jwt(claims | {"payload_hash": ""}), body),
        (jwt({"iat": AT}), body),
        (jwt(claims, "other"), body),
        (jwt(claims, algorithm="none"), body),
        (jwt(claims | {"iat": AT - 301}), body),
        (jwt(claims | {"iat": AT + 301}), body),
        (jwt(claims | {"iat": AT * 1000}), body),
        (jwt(claims | {"iat": True}), body),
        (jwt(claims)[:-2], body),
        ("", body),
        ("a.b", body),
    ]
    for token, given in bad:
        with pytest.raises(ForgedError):
            sent(token, given)
    raw = "bm8.bm8"
    made = hmac.new(SECRET.encode(), raw.encode(), hashlib.sha256).digest()
    with pytest.raises(ForgedError):
        sent(f"{raw}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}")


def test_vonage_may_report_by_the_query() -> None:
    """The same fields, signed in the same way, may come in the URL; a field with & or = is signed with _ for it."""
    fields = {"status": "delivered", "messageId": "m-1", "client-ref": "a&b=c", "timestamp": str(AT)}
    plain = "&client-ref=a_b_c&messageId=m-1&status=delivered&timestamp=" + str(AT)
    for kind in ("sha256", "sha512"):
        sig = hmac.new(SECRET.encode(), plain.encode(), kind).hexdigest().upper()
        (report,) = read("vonage", Callback("GET", f"{URL}?{urlencode(fields | {'sig': sig})}"))
        assert (report.reference, report.message_id) == ("a&b=c", "m-1")


@pytest.mark.parametrize("shift", [-301, 301, 86_400])
def test_vonage_form_of_another_time_is_refused(shift: int) -> None:
    """HOOK-06: a form that was signed five minutes before or after now is refused."""
    callback = called("vonage", "delivered")
    assert read("vonage", callback, NOW + 299_000_000)
    with pytest.raises(ForgedError):
        read("vonage", callback, NOW + shift * 1_000_000)


def slack(body: bytes, stamp: str = str(AT), secret: str = SECRET) -> Callback:
    """A callback of Slack's."""
    made = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={made}", "x-slack-request-timestamp": stamp}
    return Callback("POST", URL, headers, body)


def test_slack_shakes_hands_and_reports_nothing() -> None:
    """url_verification is answered with its challenge; every event that is signed is taken, and reports nothing."""
    asks = json.dumps({"type": "url_verification", "challenge": "c-1"}).encode()
    assert SLACK.handshake(slack(asks), Context(NOW)) == "c-1"
    event = b'{"type": "event_callback", "event": {"type": "app_uninstalled", "text": "url_verification"}}'
    assert SLACK.handshake(slack(event), Context(NOW)) is None
    assert SLACK.handshake(slack(b"{}"), Context(NOW)) is None
    assert SLACK.receipts(slack(event), Context(NOW)) == ()
    with pytest.raises(ForgedError):
        SLACK.handshake(slack(asks, secret="other"), Context(NOW))


@pytest.mark.parametrize(
    "stamp", ["", "abc", str(AT * 1000), str(AT - 301), str(AT + 3600), "٦٠", "-5", "1e9"]
)
def test_slack_of_another_time_is_refused(stamp: str) -> None:
    """HOOK-06: the time is signed; one that is old, ahead, in milliseconds, missing or no number is refused."""
    with pytest.raises(ForgedError):
        SLACK.receipts(slack(b"{}", stamp), Context(NOW))
    fresh = slack(b"{}")
    with pytest.raises(ForgedError):
        SLACK.receipts(
            replace(fresh, headers=fresh.headers | {"x-slack-request-timestamp": stamp}), Context(NOW)
        )


def test_discord_is_proved_by_its_key() -> None:
    """An event of Discord's app is answered 204 if its key signed time and body."""

    def sent(body: bytes = b'{"type":0}', stamp: str = str(AT), **changes: str) -> Callback:
        signed = KEY.sign(stamp.encode() + body).hex()
        return Callback(
            "POST", URL, {"x-signature-ed25519": signed, "x-signature-timestamp": stamp} | changes, body
        )

    assert DISCORD.receipts_status == 204
    assert DISCORD.receipts(sent(), Context(NOW)) == ()
    assert DISCORD.handshake(sent(), Context(NOW)) is None
    bad = [
        replace(sent(), body=b'{"type":1}'),
        sent(stamp=str(AT - 301)),
        Callback("POST", URL, {}, b"{}"),
        Callback("POST", URL, sent().headers | {"x-signature-ed25519": "zz"}, b'{"type":0}'),
    ]
    for callback in bad:
        with pytest.raises(ForgedError):
            DISCORD.receipts(callback, Context(NOW))
    with pytest.raises(ForgedError):
        Discord(DiscordOptions()).receipts(sent(), Context(NOW))
    with pytest.raises(ConfigError):
        Discord(DiscordOptions(public_key="abc"))


@pytest.mark.parametrize("given", ["a,b", ("a", " b ", "")])
def test_several_secrets_are_in_use_while_one_is_replaced(given: Any) -> None:
    """HOOK-08: one text with commas or a list; any of them proves a callback, an unknown one does not."""
    secrets = signature.several(given, "receipt_secret")
    assert secrets == ("a", "b")
    for one in secrets:
        signature.prove(one, secrets, signature.plain)
    for wrong in ("c", "", None, "a,b"):
        with pytest.raises(ForgedError):
            signature.prove(wrong, secrets, signature.plain)
    with pytest.raises(ForgedError):
        signature.prove("", (), signature.plain)
    with pytest.raises(ConfigError):
        signature.several("two words", "receipt_secret")


def test_all_secrets_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison takes as long for the first secret as for the last: it never ends early."""
    seen: list[bytes] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(signature.hmac, "compare_digest", lambda a, b: seen.append(b) or compare(a, b))
    signature.prove("a", ("a", "b", "c"), signature.plain)
    assert seen == [b"a", b"b", b"c"]


def test_a_provider_without_receipts_takes_none() -> None:
    """The base class refuses callbacks."""
    provider = Sandbox(SandboxOptions())
    assert provider.receipts_by == ""
    assert provider.handshake(Callback("GET", URL), Context(NOW)) is None
    with pytest.raises(Exception, match="takes no receipts"):
        provider.receipts(Callback("POST", URL), Context(NOW))


def test_a_form_with_too_many_fields_is_refused() -> None:
    """A thousand fields are enough for everybody."""
    body = "&".join(f"a{n}=1" for n in range(1_001)).encode()
    headers = {"content-type": "application/x-www-form-urlencoded", "x-twilio-signature": "x"}
    with pytest.raises(InputError):
        TWILIO.receipts(Callback("POST", URL, headers, body), Context(NOW))
    with pytest.raises(InputError):
        WHATSAPP.handshake(Callback("GET", f"{URL}?{body.decode()}"), Context(NOW))
