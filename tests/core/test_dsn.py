"""Reports of mails that came back, as mail servers write them, and whatever else comes to a return path."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.dsn import LARGEST, returned, softened
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.vendors.dsn import Taken, report

SENDER = "bounces+tag@shop.example"
MAIL = Taken(
    SENDER, "bob@example.com", b"Message-ID: <1@shop.example>\r\nTo: bob@example.com\r\n\r\nHello\r\n", "env"
)


def written(
    fields: str, *, kind: str = "message/delivery-status", third: str = "", to: str = SENDER
) -> bytes:
    """A report with these fields."""
    return (
        f"From: MAILER-DAEMON@mx.example\nTo: <{to}>\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        f"--b\nContent-Type: text/plain\n\nSorry.\n--b\nContent-Type: {kind}\n\n{fields}\n{third}--b--\n"
    ).encode()


MTA = "Reporting-MTA: dns; a\n\n"
POSTFIX = """Reporting-MTA: dns; mx.example
X-Postfix-Queue-ID: 4bQ
Arrival-Date: Thu,  1 Jan 2026 00:00:00 +0000 (UTC)

Final-Recipient: rfc822; bob@example.com
Original-Recipient: rfc822;bob@example.com
Action: failed
Status: 5.1.1
Remote-MTA: dns; in.example
Diagnostic-Code: smtp; 550 5.1.1 <bob@example.com>: Recipient address
    rejected: User unknown
"""


@pytest.mark.parametrize(
    ("fields", "action", "code", "enhanced"),
    [
        (POSTFIX, "failed", 550, "5.1.1"),
        (
            f"{MTA}Action: Failed\nStatus: 5.0.0\nDiagnostic-Code: SMTP; 552 5.2.2 full\n",
            "failed",
            552,
            "5.2.2",
        ),
        (f"{MTA}Action: failed\nStatus: 5.0.0\n", "failed", 550, "5.0.0"),
        (f"{MTA}Action: failed\nStatus: 4.4.7 (expired)\n", "failed", 450, "4.4.7"),
        (
            f"{MTA}Action: failed\nDiagnostic-Code: smtp; 554-5.7.1 no\n",
            "failed",
            554,
            "5.7.1",
        ),
        (f"{MTA}Action: failed\nDiagnostic-Code: X-Unix; 67\n", "failed", 550, None),
        (f"{MTA}Action: delayed\nStatus: 4.4.1\n", "delayed", 450, "4.4.1"),
        (f"{MTA}Action: delivered\nStatus: 2.0.0\n", "delivered", 250, "2.0.0"),
        (f"{MTA}Action: relayed\nStatus: 2.0.0\n", "relayed", 250, "2.0.0"),
    ],
)
def test_what_became_of_it(fields: str, action: str, code: int, enhanced: str | None) -> None:
    """Action, status and the refusing server's own words become a reply; words win over a status of nothing."""
    for kind in (
        "message/delivery-status",
        "message/global-delivery-status",
        "Message/Delivery-Status; charset=utf-8",
    ):
        found = returned(written(fields, kind=kind))
        assert found.answer is not None
        assert (found.action, found.answer.code, found.answer.enhanced) == (action, code, enhanced)


def test_words_over_several_lines() -> None:
    """A folded diagnosis is one text."""
    found = returned(written(POSTFIX))
    assert found.answer is not None
    assert found.answer.text.endswith("Recipient address rejected: User unknown")


def test_several_recipients() -> None:
    """An address that stands for several has failed only if none of them was reached."""
    one = "Action: failed\nStatus: 5.1.1\n"
    two = "Action: delivered\nStatus: 2.0.0\n"
    assert returned(written(f"{MTA}{one}\n{two}")).action == "delivered"
    assert returned(written(f"{MTA}{one}\nAction: delayed\nStatus: 4.0.0\n")).action == "failed"


@pytest.mark.parametrize(
    "third",
    [
        "--b\nContent-Type: message/rfc822\n\nReturn-Path: <{}>\nSubject: x\n\nHello\n",
        "--b\nContent-Type: text/rfc822-headers\n\nReturn-Path: <{}>\nSubject: x\n\n",
        "--b\nContent-Type: message/global-headers\n\nReturn-Path: <{}>\nSubject: x\n",
    ],
)
def test_where_it_says_which_mail(third: str) -> None:
    """The mail is named by whom the report came to, by the envelope's id, and by the returned mail's headers."""
    fields = "Original-Envelope-Id: envelope\n\nAction: failed\nStatus: 5.1.1\n"
    raw = b"Delivered-To: <delivered@a>\nX-Original-To: original@a\n" + written(
        fields, third=third.format("path@a"), to="to@a"
    )
    assert returned(raw).places == ("<delivered@a>", "original@a", "<to@a>", "envelope", "<path@a>")


def test_our_stand_in_writes_what_we_read() -> None:
    """The stand-in's report names the return path and the envelope, and says what it was told to say."""
    found = returned(report(MAIL, action="delayed", status="4.2.0", diagnostic="450 4.2.0 later"))
    assert (found.action, found.places) == ("delayed", (SENDER, "env"))
    assert found.answer is not None
    assert (found.answer.code, found.answer.text) == (450, "450 4.2.0 later")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\xff\xfe",
        b"Content-Type: multipart/report\n\n",
        b"To: x@y\nContent-Type: multipart/report; boundary=b\n\n--b\n\n--b--",
        written("Action: perhaps\n"),
        written(""),
        b"Content-Type: multipart/report; boundary=b\n\n" + b"--b\nContent-Type: message/rfc822\n\n" * 50_000,
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(5_000)),
    ],
)
def test_what_is_no_report_says_nothing(raw: bytes) -> None:
    """Garbage, empty and endlessly nested mails are read without an error and say nothing."""
    assert returned(raw).answer is None


def test_an_answer_of_a_person_is_no_report() -> None:
    """An automatic answer to the return path only says whom it came to."""
    found = returned(b"To: <bounces+tag@shop.example>\nSubject: I am away\n\nAction: failed\n")
    assert (found.places, found.answer) == (("<bounces+tag@shop.example>",), None)


def test_a_huge_mail_is_read_in_part() -> None:
    """The report stands before the mail that it returns, so the rest of a huge one is not looked at."""
    raw = written(POSTFIX, third="--b\nContent-Type: message/rfc822\n\n" + "x" * LARGEST * 4)
    assert returned(raw).action == "failed"


@given(st.binary(max_size=300), st.randoms(use_true_random=False))
def test_nothing_makes_it_fail(noise: bytes, chance: random.Random) -> None:
    """A report with noise written over any part of it is read, or not, without an error."""
    raw = bytearray(report(MAIL))
    place = chance.randrange(len(raw))
    raw[place : place + len(noise)] = noise
    returned(bytes(raw))


def test_a_refusal_of_others_pauses_nothing() -> None:
    """What would be about us as a direct answer is about this mail alone when it comes as a report."""
    for cls in (OutcomeClass.AUTH, OutcomeClass.NOT_IMPLEMENTED, OutcomeClass.DISABLED):
        made = softened(Outcome(cls, Code.AUTH, scope="channel", refresh=True))
        assert (made.cls, made.code, made.scope, made.refresh) == (
            OutcomeClass.BLOCKED,
            Code.BLOCKED,
            None,
            False,
        )
    limited = softened(Outcome(OutcomeClass.RATE_LIMITED, Code.RATE_LIMITED, scope="channel"))
    assert (limited.cls, limited.scope) == (OutcomeClass.RATE_LIMITED, "address")
    gone = Outcome(OutcomeClass.INVALID_RECIPIENT, Code.INVALID_RECIPIENT, drop_address=True)
    assert softened(gone) is gone
