"""SMPP: the message, its parts, who sends, how long it may live, statuses and reports."""

from typing import Any

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.model.exchange import Fault
from ringonce.provider import (
    Content,
    InDoubt,
    NoAnswer,
    Outcome,
    Report,
    ReportKind,
    SmsAnswer,
    SmsCenter,
    SmsDelivered,
    SmsRequest,
)
from ringonce.providers.smpp import Smpp, SmppOptions
from ringonce.testing import Case, check_provider
from tests.providers.samples import NOW, address, content, context, message

GOOD: dict[str, Any] = {"url": "smpp://acme:hunter2@smsc.example:2776", "from": "Acme"}
REPORT = "id:0123456789 sub:001 dlvrd:001 submit date:2601010000 done date:2601010001 stat:{} err:{} text:{}"


def smpp(**options: Any) -> Smpp:
    """Build a provider."""
    known = {("from_" if name == "from" else name): value for name, value in {**GOOD, **options}.items()}
    return Smpp(SmppOptions(**known))


def call(said: Content | None = None, channel: Smpp | None = None, **more: Any) -> SmsRequest:
    """Build the request."""
    return (channel or smpp()).request(message(said, **more), address("+447700900123"), context())


def told(status: int, command: str = "submit_sm_resp", **more: Any) -> Outcome:
    """Read an answer."""
    return Smpp.outcome(SmsAnswer(status, command, **more), context())


def reported(state: str, error: str = "000", text: str = "hi") -> Outcome:
    """Read a report."""
    return told(0, "deliver_sm", text=REPORT.format(state, error, text))


CASES = (
    Case("taken", SmsAnswer(0, message_id="0A7f"), "accepted", message_id="a7f"),
    Case("in part", SmsAnswer(0x58, accepted=1), "transient", ambiguous=True, provider_code="0x00000058"),
    Case("password", SmsAnswer(0x0E, "bind_transceiver_resp"), "auth", scope="channel"),
    Case("system type", SmsAnswer(0x53, "bind_transceiver_resp"), "auth", scope="channel"),
    Case("busy", SmsAnswer(0x64, "bind_transceiver_resp"), "transient"),
    Case("throttled", SmsAnswer(0x58), "rate_limited", scope="channel", provider_code="0x00000058"),
    Case("queue", SmsAnswer(0x14), "rate_limited"),
    Case("sender", SmsAnswer(0x0A), "auth", scope="sender"),
    Case("number", SmsAnswer(0x0B), "invalid_recipient", drop_address=True),
    Case("command", SmsAnswer(0x03, "generic_nack"), "not_implemented"),
    Case("length", SmsAnswer(0x01), "invalid_payload"),
    Case("system", SmsAnswer(0x08), "transient"),
    Case("vendor", SmsAnswer(0x410), "transient", provider_code="0x00000410"),
    Case("delivered", SmsAnswer(0, "deliver_sm", text=REPORT.format("DELIVRD", "000", "")), "accepted"),
    Case(
        "undeliverable",
        SmsAnswer(0, "deliver_sm", text=REPORT.format("UNDELIV", "0C1", "")),
        "invalid_recipient",
        provider_code="0C1",
    ),
    Case("rejected", SmsAnswer(0, "deliver_sm", text=REPORT.format("REJECTD", "1", "")), "blocked"),
    Case("deleted", SmsAnswer(0, "deliver_sm", text=REPORT.format("DELETED", "1", "")), "not_implemented"),
    Case("expired", SmsAnswer(0, "deliver_sm", text=REPORT.format("EXPIRED", "1", "")), "transient"),
    Case("lost", NoAnswer(Fault.RESET_BEFORE_STATUS, sent=True), "transient", ambiguous=True),
)


def test_kit() -> None:
    """It keeps what every provider has to keep, and each of its rules decides an answer."""
    check_provider("smpp", GOOD, address="+447700900123", cases=CASES, bad_addresses=["07700900123", "12345"])


def test_message() -> None:
    """One short message: who sends, whom to, the octets of the GSM alphabet, a report, our reference."""
    request = call(content(title="Order 42", text="5 €"))
    assert request.center == SmsCenter("smsc.example", 2776, False, "acme", "hunter2")
    assert (request.source, request.destination) == ((5, 0, "Acme"), (1, 1, "447700900123"))
    assert request.parts == (b"Order 42\n5 \x1be",)
    assert (request.data_coding, request.esm_class, request.payload) == (0, 0, False)
    assert (request.report, request.validity, request.timeout) == (True, "", 15.0)
    assert 0 <= request.reference <= 0xFFFF


def test_ucs2() -> None:
    """A text beyond the GSM alphabet goes as UTF-16 with data_coding 8."""
    request = call(content(text="жук 🐞"))
    assert (request.data_coding, request.parts) == (8, ("жук 🐞".encode("utf-16-be"),))


def test_parts() -> None:
    """A long text goes in parts whose header says so, the same in each attempt."""
    request = call(content(text="a" * 161))
    assert [len(part) for part in request.parts] == [159, 14]
    assert (request.esm_class, request.payload) == (0x40, False)
    assert call(content(text="a" * 161), attempt=2) == request
    other = call(content(text="a" * 161), reference="another")
    assert other.parts[0][3] != request.parts[0][3]


def test_payload() -> None:
    """Or in one piece, where the center divides it; a short one stays as it is."""
    channel = smpp(long="payload")
    long = call(content(text="ж" * 71), channel)
    assert (long.payload, long.esm_class, long.parts) == (True, 0, (("ж" * 71).encode("utf-16-be"),))
    assert not call(content(text="short"), channel).payload


@pytest.mark.parametrize(
    ("sender", "options", "source"),
    [
        ("+447700900123", {}, (1, 1, "447700900123")),
        ("80800", {}, (3, 0, "80800")),
        ("80800", {"from_ton": 0, "from_npi": 1}, (0, 1, "80800")),
        ("A-B & Co.", {}, (5, 0, "A-B & Co.")),
        ("Acme", {"from_ton": 0}, (0, 0, "Acme")),
    ],
)
def test_sender(sender: str, options: dict[str, int], source: tuple[int, int, str]) -> None:
    """The form of the sender tells its type and plan, unless the channel says otherwise."""
    assert call(channel=smpp(**{"from": sender}, **options)).source == source


def test_recipients_type() -> None:
    """So do the recipients' type and plan."""
    assert call(channel=smpp(to_ton=0, to_npi=8)).destination == (0, 8, "447700900123")


@pytest.mark.parametrize(
    ("left", "validity"),
    [
        (90_000_000, "000000000130000R"),
        (-1, "000000000001000R"),
        (90_061_000_000, "000001010101000R"),
        (10**14, "000030000000000R"),
    ],
)
def test_validity(left: int, validity: str) -> None:
    """What expires lives that long at the center as well: relative, at least a second, at most 30 days."""
    assert call(expires_at=NOW + left).validity == validity


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"url": "http://a:b@c"}, "url"),
        ({"url": "smpp://a:b@"}, "url"),
        ({"url": "smpp://a:b@c/path"}, "url"),
        ({"url": "smpp://a:b@c:999999"}, "url"),
        ({"url": "smpp://a@c"}, "url"),
        ({"url": "smpp://a:ninechars@c"}, "url"),
        ({"url": "smpp://sixteencharacter:b@c"}, "url"),
        ({"from": ""}, "from"),
        ({"from": "twelve chars"}, "from"),
        ({"from": "Акме"}, "from"),
        ({"from": "447700900123"}, "from"),
        ({"from": "4477009001"}, "from"),
        ({"from_ton": 7}, "from_ton"),
        ({"window": 0}, "window"),
        ({"sessions": 17}, "sessions"),
        ({"long": "sar"}, "long"),
        ({"report_ids": "octal"}, "report_ids"),
        ({"system_type": "thirteen-long"}, "system_type"),
        ({"service_type": "a b"}, "service_type"),
    ],
)
def test_bad_options(options: dict[str, Any], field: str) -> None:
    """What can not be right is refused by name, without its value."""
    with pytest.raises(ConfigError) as error:
        smpp(**options)
    assert error.value.field == field
    assert not any(word in str(error.value) for word in ("ninechars", "sixteencharacter"))


def test_url() -> None:
    """TLS has a scheme of its own; special characters are percent-encoded; the port may be left out."""
    center = smpp(url="smpps://a%40b:p%3Aw@smsc.example", system_type="VMA", sessions=2, window=5).center
    assert center == SmsCenter("smsc.example", 2775, True, "a@b", "p:w", "VMA", 2, 5)
    assert "p:w" not in repr(center)
    assert smpp().account == "smpp:acme@smsc.example:2776"


def test_too_long() -> None:
    """More parts than are allowed are refused, not cut."""
    channel = smpp(max_segments=1)
    channel.check(content(text="a" * 160))
    with pytest.raises(PayloadTooLarge):
        channel.check(content(text="a" * 161))
    with pytest.raises(InputError):
        channel.check(content(text=" "))


def test_doubt() -> None:
    """A repeat is shown again and billed, so a doubt counts as sent."""
    assert Smpp.in_doubt is InDoubt.ASSUME_SENT


def test_a_report_quotes_our_text() -> None:
    """What our text says is no state; names and states come in any case; without a state nothing is known."""
    assert reported("UNDELIV", text="stat:DELIVRD").rule == "smpp.undeliverable"
    assert told(0, "deliver_sm", text="id:1 Text:stat:DELIVRD").rule == "smpp.not_delivered"
    assert told(0, "deliver_sm", text="ID:1 STAT:delivrd ERR:000").rule == "smpp.reported"
    assert told(0, "deliver_sm", text="").rule == "smpp.not_delivered"


@pytest.mark.parametrize(("given", "kept"), [("00AB", "ab"), ("000", "0"), ("9F-x 1 ", "9F-x 1"), ("", None)])
def test_spelling_of_ids(given: str, kept: str | None) -> None:
    """A number is kept without zeros before it and in lower case, anything else as it is."""
    assert told(0, message_id=given).message_id == kept


def test_a_refused_bind_is_no_fault_of_the_message() -> None:
    """Whatever the center says to the bind, the message is not refused by it."""
    for status in (0x01, 0x0B, 0x65, 0x999):
        assert told(status, "bind_transceiver_resp").rule == "smpp.not_bound"


def heard(text: str, channel: Smpp | None = None, **more: Any) -> list[Report]:
    """Hear a report."""
    fields: dict[str, Any] = {"esm_class": 0x04, **more}
    return list((channel or smpp()).heard(SmsDelivered(text, **fields), context()))


@pytest.mark.parametrize(
    ("state", "kind", "cls"),
    [
        ("DELIVRD", ReportKind.DELIVERED, None),
        ("ACCEPTD", ReportKind.SENT, None),
        ("ENROUTE", ReportKind.SENT, None),
        ("UNDELIV", ReportKind.FAILED, "invalid_recipient"),
        ("REJECTD", ReportKind.FAILED, "blocked"),
        ("EXPIRED", ReportKind.FAILED, "transient"),
        ("DELETED", ReportKind.FAILED, "not_implemented"),
    ],
)
def test_reports(state: str, kind: ReportKind, cls: str | None) -> None:
    """Each state is a kind of report, a failure with what it means; none proves that a number is dead."""
    [report] = heard(REPORT.format(state, "0C1", "hi"))
    assert (report.kind, report.message_id) == (kind, "123456789")
    assert (report.outcome and report.outcome.cls.value) == cls
    if report.outcome is not None:
        assert (report.outcome.provider_code, report.outcome.drop_address) == ("0C1", False)
    assert heard(REPORT.format(state, "0C1", "hi"), esm_class=0x60) == [report]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (REPORT.format("UNKNOWN", "000", ""), {}),
        (REPORT.format("NEW", "000", ""), {}),
        ("stat:DELIVRD", {}),
        ("", {"receipted_id": "1", "state": 7}),
        (REPORT.format("DELIVRD", "000", ""), {"esm_class": 0x00}),
        (REPORT.format("DELIVRD", "000", ""), {"esm_class": 0x08}),
        ("", {}),
    ],
)
def test_no_reports(text: str, more: dict[str, Any]) -> None:
    """What says nothing about a message is no report: an unknown state, no id, a person's message or receipt."""
    assert heard(text, **more) == []


def test_optional_parameters_report_as_well() -> None:
    """Where the text is silent, id and state come from beside it; the id there is the response's own."""
    [report] = heard("", receipted_id="0A7F", state=2)
    assert (report.kind, report.message_id) == (ReportKind.DELIVERED, "a7f")
    [report] = heard("id:99 stat:EXPIRED", receipted_id="0A7F", state=2)
    assert (report.kind, report.message_id) == (ReportKind.FAILED, "a7f")


@pytest.mark.parametrize(
    ("form", "written", "kept"),
    [
        ("same", "0000000160", "160"),
        ("decimal", "0000000160", "a0"),
        ("decimal", "id-1", "id-1"),
        ("hexadecimal", "0A0", "160"),
        ("hexadecimal", "id-1", "id-1"),
    ],
)
def test_ids_in_reports(form: str, written: str, kept: str) -> None:
    """A report may write the id in the other base than the response: then it is read so, if it is a number at all."""
    [report] = heard(f"id:{written} stat:DELIVRD", smpp(report_ids=form))
    assert report.message_id == kept


def test_whom_it_hears() -> None:
    """It keeps in touch with the center while it asks for reports."""
    assert smpp().hears() == smpp().center
    assert smpp(reports=False).hears() is None
    assert not call(channel=smpp(reports=False)).report
