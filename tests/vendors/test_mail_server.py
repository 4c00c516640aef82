"""The mail server, called through the real wire and by Python's own client."""

import asyncio
import smtplib
from pathlib import Path

import pytest

from ringonce.model.exchange import Fault, MailAnswer, NoAnswer
from ringonce.vendors.ledger import read_ledger
from ringonce.vendors.script import plan
from ringonce.vendors.smtp import MailServer
from tests.vendors.conftest import Ask, letter, program


async def test_a_mail_is_accepted_under_its_message_id(call: Ask) -> None:
    """The Message-ID is the reference in the ledger."""
    with MailServer() as server:
        [answer] = await call(letter(server.port, "one@example.com"))
        assert answer == MailAnswer(250, "2.0.0 queued", "2.0.0", "DATA_END")
        assert server.ledger.accepted() == {("one@example.com", "to@example.com"): 1}


async def test_a_repeat_is_counted(call: Ask) -> None:
    """Mail is not deduplicated: the ledger shows a repeat."""
    with MailServer() as server:
        for _ in range(2):
            await call(letter(server.port))
        assert server.ledger.repeats() == {("r1", "to@example.com"): 2}


async def test_the_greylist_refuses_once_per_pair(call: Ask) -> None:
    """The first try of a sender and a recipient is 450, the second is taken."""
    with MailServer(greylist=True) as server:
        codes = []
        for recipient in ("a@x", "a@x", "b@x", "b@x"):
            [answer] = await call(letter(server.port, recipient=recipient))
            assert isinstance(answer, MailAnswer)
            codes.append((answer.code, answer.stage))
        assert codes == [(450, "RCPT"), (250, "DATA_END")] * 2


async def test_an_unknown_recipient_is_refused(call: Ask) -> None:
    """550 5.1.1 at RCPT; the others are not touched."""
    with MailServer(unknown=["nobody@x"], greylist=["grey@x"]) as server:
        [unknown, known, grey] = await call(
            letter(server.port, recipient="nobody@x"),
            letter(server.port),
            letter(server.port, recipient="grey@x"),
        )
        assert isinstance(unknown, MailAnswer)
        assert (unknown.code, unknown.enhanced, unknown.stage) == (550, "5.1.1", "RCPT")
        assert isinstance(known, MailAnswer)
        assert known.code == 250
        assert isinstance(grey, MailAnswer)
        assert grey.code == 450


@pytest.mark.parametrize(
    ("rule", "stage", "accepted"),
    [
        ("421:stage=CONNECT", "CONNECT", False),
        ("451:stage=MAIL", "MAIL", False),
        ("450:stage=RCPT", "RCPT", False),
        ("452:stage=DATA", "DATA_BODY", False),
        ("554", "DATA_END", False),
        ("421", "DATA_END", False),
    ],
)
async def test_a_refusal_happens_where_it_is_told_to(
    call: Ask, rule: str, stage: str, accepted: bool
) -> None:
    """A status at a stage is the reply there; the next mail is taken."""
    with MailServer(plan=plan([rule + (",times=1" if ":" in rule else ":times=1")])) as server:
        [answer] = await call(letter(server.port))
        assert isinstance(answer, MailAnswer)
        assert (answer.code, answer.stage) == (int(rule[:3]), stage)
        assert server.ledger.accepted() == {}
        [answer] = await call(letter(server.port))
        assert isinstance(answer, MailAnswer)
        assert answer.code == 250


@pytest.mark.parametrize(
    ("rule", "fault", "sent", "accepted"),
    [
        ("accept_then_hang", Fault.READ_TIMEOUT, True, True),
        ("accept_then_close", Fault.RESET_BEFORE_STATUS, True, True),
        ("accept_then_reset", Fault.RESET_BEFORE_STATUS, True, True),
        ("reset", Fault.RESET_BEFORE_STATUS, True, False),
        ("hang", Fault.READ_TIMEOUT, True, False),
        ("garbage", Fault.RESET_BEFORE_STATUS, True, False),
        ("reset:stage=RCPT", Fault.RESET_BEFORE_STATUS, False, False),
        ("close_before_reply:stage=MAIL", Fault.RESET_BEFORE_STATUS, False, False),
    ],
)
async def test_a_break_is_seen_as_what_it_is(
    call: Ask, rule: str, fault: Fault, sent: bool, accepted: bool
) -> None:
    """The wire sees each break as meant, and the ledger says whether the mail was taken."""
    with MailServer(plan=plan([rule + (",times=1" if ":" in rule else ":times=1")])) as server:
        [answer] = await call(letter(server.port, final_timeout=0.5 if fault is Fault.READ_TIMEOUT else 30.0))
        assert isinstance(answer, NoAnswer)
        assert (answer.fault, answer.sent) == (fault, sent)
        # The client may have given up before the server had heard the end of the message.
        assert await asyncio.to_thread(server.ledger.wait_for, lambda entries: len(entries) == 1)
        assert server.ledger.accepted() == ({("r1", "to@example.com"): 1} if accepted else {})
        [answer] = await call(letter(server.port, "r2"))
        assert isinstance(answer, MailAnswer)


async def test_pythons_own_client_is_understood() -> None:
    """Dots are undoubled on the way in, several recipients are one entry each, wrong commands are told."""
    with MailServer() as server:

        def talk() -> None:
            with smtplib.SMTP("127.0.0.1", server.port) as client:
                assert client.docmd("RCPT", "TO:<a@x>")[0] == 503
                assert client.docmd("MAIL", "a@x")[0] == 501
                assert client.docmd("DATA")[0] == 503
                assert client.docmd("PIGEON")[0] == 502
                assert client.noop()[0] == 250
                client.helo()
                client.sendmail("f@x", ["a@x", "b@x"], "Message-Id: plain\r\n\r\n.dot\r\n..\r\n")
                client.sendmail("f@x", ["c@x"], "no headers")

        await asyncio.to_thread(talk)
        assert server.ledger.accepted() == {("plain", "a@x"): 1, ("plain", "b@x"): 1, ("", "c@x"): 1}


async def test_as_a_program(call: Ask, tmp_path: Path) -> None:
    """The program prints its port, writes its ledger, and ends well at SIGTERM."""
    path = tmp_path / "ledger.jsonl"
    with program("smtp", "--greylist", "--ledger", str(path)) as port:
        for _ in range(2):
            await call(letter(port))
    assert [entry.verdict for entry in read_ledger(path)] == ["450", "250"]
