"""Field reports about the format of mails. The ids are those of docs/reference/field-reports.md."""

import email
import re
from dataclasses import replace
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from ringonce.app import Ringonce
from ringonce.errors import ConfigError, InputError
from ringonce.model.exchange import MailAnswer, MailRequest, MailServer
from ringonce.model.notification import Content
from ringonce.providers.smtp import Smtp, SmtpOptions
from ringonce.registry import build
from ringonce.wire.smtp import MailWire
from tests.field.conftest import Write
from tests.providers.samples import address, context, message
from tests.servers.sockets import Peer, serving
from tests.wire.conftest import ask

PROVIDER = Smtp(SmtpOptions(url="smtp://127.0.0.1:1", from_="shop@example.com", from_name="Магазин"))
HEADERS = sorted("Date Message-ID From To Subject Auto-Submitted MIME-Version Content-Type".split())


def built(content: Content, provider: Smtp = PROVIDER) -> MailRequest:
    """The mail as it is handed to the wire."""
    provider.check(content)
    return provider.request(message(content), address("bob@example.com"), context())


def parsed(request: MailRequest) -> EmailMessage:
    """The mail as a reader sees it."""
    read = email.message_from_bytes(request.message, policy=SMTP)
    assert isinstance(read, EmailMessage)
    return read


@pytest.mark.parametrize(
    "subject",
    [
        "ж" * 300,
        "a" * 66 + "😀" * 3,
        *(f"{'x' * n}😀 tail" for n in range(60, 72)),
        "Re: =?utf-8?q?x?= é",
        "=?utf-8?q?x?=",
        "a" * 200,
        "  leading and trailing  ",
        "😀" * 40,
        "é " * 100,
        "",
    ],
)
def test_mail_02_the_subject_survives(subject: str) -> None:
    """MAIL-02: folding lost blanks, raw UTF-8 was sent without SMTPUTF8, a mixed header raised.

    Sources: python/cpython#89714, pazz/alot#1484, python/cpython#143712. Here: a mail is ASCII on the wire, no line is
    longer than 78, and the subject reads as it was written (blanks at its ends aside). Each mail has one recipient.
    """
    request = built(Content(subject or None, "body"))
    assert request.message.isascii()
    assert max(map(len, request.message.split(b"\r\n"))) <= 78
    raw = str(email.message_from_bytes(request.message)["Subject"])
    unfolded = re.sub(r"\r?\n(?=[ \t])", "", raw)
    assert str(make_header(decode_header(unfolded))).strip() == (subject.strip() or "body")
    assert parsed(request)["Subject"].strip() == (subject.strip() or "body")


HTML = (
    "<p>" + "x" * 5_000 + "</p>"
    '<a href="https://example.com/?' + "q=1&" * 500 + 'sig=%2Babc=">link</a>'
    '\n.\n.line\nFrom the shop\nblank at the end   \ntab\t\n<img src="data:image/png;base64,'
    + "iVBORw0KGgo=" * 200
    + '">\nЖ\n'
)


@pytest.mark.parametrize(
    "content",
    [
        Content(html=HTML),
        Content(text=HTML),
        Content("t", HTML, HTML),
        Content(text="bare\rcarriage\r\nreturn\nline"),
    ],
)
async def test_mail_03_no_line_is_too_long_on_the_wire(content: Content) -> None:
    """MAIL-03: a line over 998 bytes was rejected, or broken by a server in the middle of a link.

    Sources: prometheus/alertmanager#1609, mikel/mail#874, fail2ban/fail2ban#4006, rss2email/rss2email#141. Here: what
    a server receives has short lines that end in CRLF, dots are doubled, and the link survives byte for byte.
    """
    request = built(content)
    received: list[bytes] = []

    def talk(peer: Peer) -> None:
        peer.send(b"220 mx\r\n")
        while line := peer.line():
            if line == b"DATA":
                peer.send(b"354 go on\r\n")
                received.append(peer.until(b"\r\n.\r\n"))
                peer.send(b"250 queued\r\n")
            else:
                peer.send(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")

    wire = MailWire(helo="client.example")
    await wire.start()
    with serving(talk) as server:
        there = MailServer("127.0.0.1", server.port, tls="none")
        [answer] = await ask(wire, replace(request, server=there))
        await wire.close(1)
    assert isinstance(answer, MailAnswer)
    assert answer.code == 250
    raw = received[0]
    assert max(map(len, raw.split(b"\r\n"))) <= 78
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    lines = raw.split(b"\r\n")
    assert all(not line.startswith(b".") or line.startswith(b"..") for line in lines)
    undone = b"\r\n".join(line[1:] if line.startswith(b"..") else line for line in lines)
    read = email.message_from_bytes(undone, policy=SMTP)
    parts = list(read.walk()) if read.is_multipart() else [read]
    texts = [part.get_content() for part in parts if not part.is_multipart()]  # type: ignore[attr-defined]
    for wanted in filter(None, (content.text, content.html)):
        assert any(_same(wanted, text) for text in texts)


def _same(wanted: str, text: str) -> bool:
    """Equal but for the kind of line ends and the one at the end."""
    return re.sub(r"\r\n|\r|\n", "\n", wanted).rstrip("\n") == re.sub(r"\r\n|\r|\n", "\n", text).rstrip("\n")


EVIL = [
    "\r\nBcc: x@evil.test",
    "\rBcc: x@evil.test",
    "\nBcc: x@evil.test",
    "\u2028Bcc: x@evil.test",
    "\x85Bcc: x@evil.test",
    "\x0bBcc: x@evil.test",
    "\x0cBcc: x@evil.test",
    "\x1eBcc: x@evil.test",
    "\r\n\r\nbody",
]
HARMLESS = ["%0d%0aBcc: x@evil.test", "=?utf-8?q?=0D=0ABcc=3A_x=40evil=2Etest?="]


@pytest.mark.parametrize("evil", [*EVIL, "\x00Bcc: x@evil.test"])
async def test_secu_01_no_header_is_injected(ringonce: Ringonce, evil: str) -> None:
    """SECU-01: CR or LF in a subject, a name or another header value added headers, or began the body.

    Sources: drewr/postal#117, muratgozel/MIMEText#81, apache/tooling-trusted-releases#603, zulip/zulip#39036. Here:
    refused in the title of an event, in an address, in the sender's name and in the addresses of the configuration.
    """
    for body in (
        {"content": {"title": f"Hi{evil}", "text": "x"}, "to": {"mail": "bob@example.com"}},
        {"content": {"text": "x"}, "to": {"mail": f"bob@example.com{evil}"}},
        {"content": {"text": "x"}, "to": {"mail": f"bob{evil}@example.com"}},
    ):
        with pytest.raises(InputError):
            await ringonce.notify(body)
    assert await ringonce.search() == []
    for key in ("from_name", "from_", "reply_to"):
        options = {"url": "smtp://127.0.0.1:1", "from_": "shop@example.com", key: f"a@example.com{evil}"}
        with pytest.raises(ConfigError):
            Smtp(SmtpOptions(**options))


@pytest.mark.parametrize("evil", [*EVIL, *HARMLESS])
async def test_secu_01_a_templates_variable_injects_nothing(
    ringonce: Ringonce, write: Write, evil: str
) -> None:
    """SECU-01: a line break in a template's variable. Here: a title is one line; the mail has exactly its headers."""
    write('title = "Hello {{ name }}"\ntext = "x"')
    person = {"id": "u\nBcc: x@evil.test", "addresses": {"mail": "bob@example.com"}}
    await ringonce.notify(template="t", data={"name": f"Bob{evil}"}, recipients=[person], tenant="a")
    (row,) = await ringonce.search()
    request = built((await ringonce.get(row.id)).content)
    read = parsed(request)
    assert sorted(read.keys()) == sorted([*HEADERS, "Content-Transfer-Encoding"])
    assert request.recipient == "bob@example.com"
    assert read["Subject"].startswith("Hello Bob")
    assert b"\r\nBcc" not in request.message


LEAVING = {
    "url": "https://shop.example/leave/{token}",
    "secret": "a secret of some length",
    "types": ["news.*"],
}


def test_mail_04_a_scanner_unsubscribes_nobody() -> None:
    """MAIL-04: a scanner's GET unsubscribed whole companies, a used-up token failed, and password resets went as well.

    Sources: 0xdps/emailflare#190, usesend/useSend#412, SparkDevNetwork/Rock#7034. Here: the mail says that only a POST
    counts (RFC 8058); the token is the same in every mail of this kind, is not used up, and can not be guessed or read;
    it names the type; and mails of other types have no such line. The page itself is the application's.
    """
    provider = build(
        "smtp", {"url": "smtp://127.0.0.1:1", "from": "shop@example.com", "unsubscribe": LEAVING}
    )
    assert isinstance(provider, Smtp)

    def mail(type_: str, number: int) -> EmailMessage:
        id_ = f"018f2f6e-1111-7222-8333-44445555666{number}"
        said = message(Content("News", "body"), reference=id_, event_type=type_)
        return parsed(provider.request(said, address("bob@example.com"), context()))

    first, second = mail("news.weekly", 1), mail("news.weekly", 2)
    assert first["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert first["List-Unsubscribe"] == second["List-Unsubscribe"]
    token = str(first["List-Unsubscribe"]).strip(" <>").rpartition("/")[2]
    assert provider.unsubscribed(token) == provider.unsubscribed(token) == ("acme", "user-1", "news.weekly")
    assert provider.unsubscribed(token[:-2] + "AA") is None
    assert mail("password.reset", 3)["List-Unsubscribe"] is None
