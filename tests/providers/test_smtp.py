"""E-mail: options, addresses, the message's bytes, what can not be sent."""

import email
import re
from dataclasses import replace
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core import mime, verp
from ringonce.core.mime import mailbox
from ringonce.core.seal import seal
from ringonce.errors import ConfigError, ForgedError, InputError, NotFoundError
from ringonce.model.receipt import Callback, Report, ReportKind
from ringonce.provider import Fault, InDoubt, MailRequest, NoAnswer, OutcomeClass
from ringonce.providers.smtp import Smtp, SmtpOptions
from ringonce.registry import build
from ringonce.vendors.dsn import Taken, report
from tests.providers.samples import ID, address, content, context, message

URL = "smtp://mail.example.com"


def smtp(url: str = URL, from_: str = "no-reply@shop.example", **options: str) -> Smtp:
    """Build a provider with these options."""
    return Smtp(SmtpOptions(url, from_, **options))


def mail(
    provider: Smtp | None = None, to: str = "bob@example.com", **said: str | None
) -> tuple[MailRequest, EmailMessage]:
    """Build the request, and read its message as a mail program would."""
    request = (provider or smtp()).request(message(content(**said)), address(to), context())
    return request, cast("EmailMessage", email.message_from_bytes(request.message, policy=default))


def body(part: EmailMessage, subtype: str) -> str:
    """Read the body of this kind."""
    found = part.get_body((subtype,))
    assert found is not None
    return cast("str", found.get_content()).replace("\r\n", "\n")  # type: ignore[attr-defined]


def test_server_from_url() -> None:
    """The URL names host, port, encryption and credentials, percent-encoded where needed."""
    server = mail(smtp("smtp://bob%40shop.example:p%40ss%2Fw@mail.example.com:2525?tls=auto"))[0].server
    assert (server.host, server.port, server.tls) == ("mail.example.com", 2525, "auto")
    assert (server.user, server.password) == ("bob@shop.example", "p@ss/w")


@pytest.mark.parametrize(
    ("url", "port", "tls"),
    [
        ("smtp://mail.example.com", 587, "auto"),
        ("smtp://mail.example.com/", 587, "auto"),
        ("smtp://u:p@mail.example.com", 587, "starttls"),
        ("smtp://u:p@localhost:1025", 1025, "auto"),
        ("smtp://u:p@[::1]:1025", 1025, "auto"),
        ("smtp://u:p@mail.example.com:25?tls=none", 25, "none"),
        ("smtp://mail.example.com?tls=starttls", 587, "starttls"),
        ("smtps://u:p@mail.example.com", 465, "implicit"),
    ],
)
def test_encryption(url: str, port: int, tls: str) -> None:
    """A password travels to another machine only under TLS, unless the URL says otherwise."""
    server = mail(smtp(url))[0].server
    assert (server.port, server.tls) == (port, tls)


@pytest.mark.parametrize(
    "url",
    [
        "http://mail.example.com",
        "mail.example.com:25",
        "smtp://",
        "smtp://mail.example.com:notaport",
        "smtp://[::1",
        "smtp://mail.example.com/path",
        "smtp://mail.example.com#x",
        "smtp://mail.example.com?tls=maybe",
        "smtp://mail.example.com?tsl=auto",
        "smtps://mail.example.com?tls=auto",
        "smtp://user@mail.example.com",
    ],
)
def test_bad_url(url: str) -> None:
    """A wrong URL is refused at start-up, and the message does not repeat it."""
    with pytest.raises(ConfigError) as error:
        smtp(url)
    assert error.value.field == "url"
    assert "mail.example.com#" not in str(error.value)


def test_secrets_do_not_show() -> None:
    """Neither the account's name nor the options nor the request show user or password."""
    provider = smtp("smtp://bob%40shop.example:hunter2@mail.example.com")
    request, _ = mail(provider)
    assert re.fullmatch(r"smtp:mail\.example\.com:587#[0-9a-f]{8}", provider.account)
    for text in (provider.account, repr(provider.options), repr(request)):
        assert "hunter2" not in text
        assert "bob" not in text
    assert smtp().account == "smtp:mail.example.com:587"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("from_", "nobody"),
        ("reply_to", "nobody"),
        ("from_name", "Shop\r\nBcc: x@y.example"),
        ("from_name", "x" * 201),
    ],
)
def test_bad_sender(key: str, value: str) -> None:
    """The sender's fields are checked at start-up and named."""
    with pytest.raises(ConfigError) as error:
        smtp(**{key: value})
    assert error.value.field == key.rstrip("_")


def test_a_name_has_a_key_of_its_own() -> None:
    """Whoever writes the sender's name beside the address is told where it goes."""
    with pytest.raises(ConfigError) as error:
        smtp(from_="Shop <shop@example.com>")
    assert "from_name" in (error.value.mend or "")


def test_key_from() -> None:
    """In the configuration the sender's key is ``from``."""
    provider = build("smtp", {"url": URL, "from": "no-reply@shop.example"})
    assert isinstance(provider, Smtp)
    assert provider.options.from_ == "no-reply@shop.example"


@pytest.mark.parametrize(
    ("given_", "canonical"),
    [
        ("Bob.Smith+tag@Example.COM", "Bob.Smith+tag@example.com"),
        (" bob@example.com ", "bob@example.com"),
        ("bob@bücher.example", "bob@xn--bcher-kva.example"),
        ("bob@localhost", "bob@localhost"),
        ("o'neil@example.com", "o'neil@example.com"),
        ("a" * 64 + "@example.com", "a" * 64 + "@example.com"),
    ],
)
def test_mailbox(given_: str, canonical: str) -> None:
    """One mailbox becomes its canonical text: domain in lower-case ASCII, local part untouched."""
    assert smtp().address(given_) == canonical


@pytest.mark.parametrize(
    "value",
    [
        "",
        7,
        None,
        "bob",
        "@example.com",
        "bob@",
        "bob@@example.com",
        "Bob <bob@example.com>",
        "a@example.com, b@example.com",
        "a@example.com b@example.com",
        '"bob smith"@example.com',
        "bob@example.com\r\nRCPT TO:<eve@example.com>",
        "bob\0@example.com",
        "bob@exa\nmple.com",
        "bob..smith@example.com",
        ".bob@example.com",
        "почта@example.com",
        "bob@exa mple.com",
        "bob@[127.0.0.1]",
        "bob@-example.com",
        "bob@example..com",
        "bob@example.com.",
        "a" * 65 + "@example.com",
        "bob@" + "a" * 64 + ".example",
        "bob@" + ".".join(["a" * 60] * 5),
        "bob@\ud800.example",
        "bob@example.com>",
    ],
)
def test_bad_mailbox(value: object) -> None:
    """Anything but one plain mailbox is refused with a mend, without repeating it."""
    with pytest.raises(InputError) as error:
        mailbox(value)
    assert error.value.field == "address"
    assert error.value.mend
    assert not value or str(value) not in str(error.value)


def test_message() -> None:
    """The message carries the sender, the recipient, a stable id and date, and both forms of the text."""
    provider = smtp(from_name='Bob "B" Shop', reply_to="help@shop.example")
    request, read = mail(
        provider, title="Order 42", text="It is on its way.", html="<p>It is on its way.</p>"
    )
    assert (request.sender, request.recipient) == ("no-reply@shop.example", "bob@example.com")
    assert read["From"] == '"Bob \\"B\\" Shop" <no-reply@shop.example>'
    assert read["To"] == "bob@example.com"
    assert read["Reply-To"] == "help@shop.example"
    assert read["Subject"] == "Order 42"
    assert read["Message-ID"] == f"<{ID}@shop.example>"
    assert read["Date"] == "Thu, 01 Jan 2026 00:00:00 +0000"
    assert read["Auto-Submitted"] == "auto-generated"
    assert [part.get_content_type() for part in read.iter_parts()] == ["text/plain", "text/html"]
    assert body(read, "plain").strip() == "It is on its way."
    assert body(read, "html").strip() == "<p>It is on its way.</p>"


def test_repeat_is_identical() -> None:
    """A second attempt, made later and by another process, has the same bytes; another reference has not."""
    said = content(title="Заказ 42", text="Уже едет", html="<p>Уже едет</p>")
    first = smtp().request(message(said), address("bob@example.com"), context())
    mime.body.cache_clear()
    again = smtp().request(message(said, attempt=2), address("bob@example.com"), context(now=1))
    other = smtp().request(message(said, reference=f"{ID}.r2"), address("bob@example.com"), context())
    assert again.message == first.message
    assert other.message != first.message
    assert f"<{ID}.r2@shop.example>".encode() in other.message


def test_parts() -> None:
    """Text alone and HTML alone are single parts; title alone is a message without body."""
    _, text = mail(text="hello")
    assert (text.get_content_type(), text["Subject"]) == ("text/plain", "hello")
    _, html = mail(text=None, html="<b>hello</b>")
    assert (html.get_content_type(), html["Subject"]) == ("text/html", None)
    _, title = mail(text=None, title="hello")
    assert (title["Subject"], body(title, "plain").strip()) == ("hello", "")


def test_subject_from_text() -> None:
    """Without a title the first line of the text is the subject, cut to a header's usual length."""
    assert mail(text="\nfirst line\nsecond")[1]["Subject"] == "first line"
    assert mail(text="x" * 100)[1]["Subject"] == "x" * 78


@pytest.mark.parametrize(
    "title",
    [
        "Order shipped",
        "Заказ отправлен " * 20,
        "=?utf-8?q?fake?=",
        "a" * 900,
        "😀" * 200,
        "x " * 400 + "ö",
        "  spaced  ",
    ],
)
def test_subject_survives(title: str) -> None:
    """Any title arrives as it was, folded into short lines."""
    request, read = mail(title=title)
    assert read["Subject"].strip() == title.strip()
    assert max(map(len, request.message.split(b"\r\n"))) <= 78


def test_display_name_survives() -> None:
    """A name outside ASCII arrives as it was."""
    name = "Магазин «Книга» и друзья из соседнего дома"
    request, _ = mail(smtp(from_name=name))
    # The newer parser of the standard library puts blanks between encoded words of a name.
    line = str(email.message_from_bytes(request.message)["From"])
    assert str(make_header(decode_header(line))) == f"{name} <no-reply@shop.example>"


@pytest.mark.parametrize("sign", ["\r", "\n", "\r\n", "\0", "\x0b", "\x85", "\u2028", "\x1b"])
def test_header_injection(sign: str) -> None:
    """A line break or control character in the title is refused at acceptance and again when the mail is built."""
    said = content(title=f"Hello{sign}Bcc: eve@example.com")
    with pytest.raises(InputError) as error:
        smtp().check(said)
    assert error.value.field == "content.title"
    with pytest.raises(InputError):
        smtp().request(message(said), address("bob@example.com"), context())


def test_injection_by_address_and_reference() -> None:
    """Address and reference are checked again when the mail is built."""
    with pytest.raises(InputError):
        smtp().request(message(), address("bob@example.com\r\nBcc: eve@example.com"), context())
    with pytest.raises(InputError):
        smtp().request(message(reference="x>\r\nBcc: eve@example.com"), address("bob@example.com"), context())


def test_long_title() -> None:
    """A title that no header should hold is refused."""
    with pytest.raises(InputError):
        smtp().check(content(title="x" * 901))


def test_exact_headers() -> None:
    """The mail has exactly the headers that we write, each once."""
    _, read = mail(smtp(from_name="Shop", reply_to="help@shop.example"), title="t", html="<p>h</p>")
    assert sorted(read.keys()) == sorted(
        "Date Message-ID From Reply-To To Subject Auto-Submitted MIME-Version Content-Type".split()
    )


@pytest.mark.parametrize("stage", ["CONNECT", "EHLO", "AUTH", "MAIL", "RCPT"])
def test_broken_before_data(stage: str) -> None:
    """Before the message is handed over nothing can have been accepted, whatever was already written."""
    outcome = Smtp.outcome(NoAnswer(Fault.READ_TIMEOUT, sent=True, stage=stage), context())
    assert (outcome.cls, outcome.ambiguous) == (OutcomeClass.TRANSIENT, False)


@pytest.mark.parametrize(("sent", "ambiguous"), [(True, True), (False, False)])
def test_broken_within_data(sent: bool, ambiguous: bool) -> None:
    """Within the message it is the wire that knows whether its end was written."""
    outcome = Smtp.outcome(NoAnswer(Fault.WRITE_RESET, sent=sent, stage="DATA_BODY"), context())
    assert outcome.ambiguous is ambiguous


def test_refused_content() -> None:
    """Data can not be mailed and says so; title, text and HTML can."""
    with pytest.raises(InputError) as error:
        smtp().check(content(data={"a": 1}))
    assert error.value.field == "content.data"
    smtp().check(content(title="t", html="<p>h</p>"))


def test_declarations() -> None:
    """A doubt is sent again, once: mailboxes fold a repeat."""
    assert (Smtp.in_doubt, Smtp.unknown_budget) == (InDoubt.RESEND, 1)


def test_timeouts() -> None:
    """Replies may take half a minute at least, and the final one ten minutes (RFC 5321 section 4.5.3.2.6)."""
    request, _ = mail()
    assert (request.timeout, request.final_timeout) == (30.0, 600.0)
    slow = smtp().request(message(), address("bob@example.com"), context(timeout=90))
    assert slow.timeout == 90


# What a mail program may show as one line break each, and trailing blanks of lines, are not kept apart.
prose = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.just("\n"), min_size=1, max_size=400
)


@given(prose, prose, st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=200))
def test_bytes(text: str, html: str, title: str) -> None:
    """Whatever is said, the message is ASCII with CRLF and lines of at most 998 bytes, and reads back the same."""
    request, read = mail(title=title, text=text, html=html)
    assert request.message.isascii()
    assert request.message.count(b"\n") == request.message.count(b"\r\n") == request.message.count(b"\r")
    assert max(map(len, request.message.split(b"\r\n"))) <= 998
    assert body(read, "plain").rstrip("\n") == text.rstrip("\n")
    assert body(read, "html").rstrip("\n") == html.rstrip("\n")


def key(private: Ed25519PrivateKey) -> str:
    """A private key as text."""
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


SIGNING = Ed25519PrivateKey.generate()
SECRET = "a secret of some length"


def well_done(**more: object) -> Smtp:
    """A provider with everything that mail can have."""
    options: dict[str, object] = {
        "url": URL,
        "from": "shop@shop.example",
        "dkim": {"domain": "shop.example", "selector": "a", "key": key(SIGNING)},
        "bounces": "bounces@shop.example",
        "bounces_secret": SECRET,
        "unsubscribe": {"url": "https://shop.example/u/{token}", "secret": SECRET, "types": ["news.*"]},
    }
    return cast("Smtp", build("smtp", options | more))


def built(provider: Smtp, **facts: object) -> tuple[MailRequest, EmailMessage]:
    """The mail of a message with these facts."""
    request = provider.request(message(content(), **facts), address("bob@example.com"), context())  # type: ignore[arg-type]
    return request, cast("EmailMessage", email.message_from_bytes(request.message, policy=default))


def test_the_return_path_says_which_mail_came_back() -> None:
    """MAIL FROM and the envelope's id name the reference; From stays; nothing of it shows in the request's text."""
    request, read = built(well_done(), reference=f"{ID}.r2")
    assert verp.references(request.sender, SECRET) == [f"{ID}.r2"]
    assert request.sender.startswith("bounces+")
    assert request.sender.endswith("@shop.example")
    assert len(request.sender.partition("@")[0]) <= 64
    assert request.envelope_id is not None
    assert request.envelope_id in request.sender
    assert read["From"] == "shop@shop.example"
    assert request.envelope_id not in repr(replace(request, sender=""))
    with pytest.raises(InputError):
        built(well_done(), reference="order-42")


def test_one_click_ends_mails_of_this_type() -> None:
    """The two lines of RFC 8058 stand in mails of the types named, are signed, and the token says who, in secret."""
    _, read = built(well_done(), event_type="news.weekly")
    link = re.fullmatch(r"<https://shop\.example/u/([A-Za-z0-9_-]+)>", read["List-Unsubscribe"].strip())
    assert link is not None
    assert read["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert well_done().unsubscribed(link[1]) == ("acme", "user-1", "news.weekly")
    assert well_done().unsubscribed(seal(SECRET, "other", "acme", "user-1", "news.weekly")) is None
    assert well_done().unsubscribed(seal(SECRET, "unsubscribe", "acme")) is None
    assert smtp().unsubscribed(link[1]) is None
    assert {"list-unsubscribe", "list-unsubscribe-post"} <= set(
        re.sub(r"\s", "", read["DKIM-Signature"]).partition("h=")[2].partition(";")[0].split(":")
    )
    _, other = built(well_done(), event_type="password.reset")
    assert other["List-Unsubscribe"] is None
    assert other["List-Unsubscribe-Post"] is None


def test_the_whole_mail_is_the_same_again() -> None:
    """With signature, return path and unsubscribing a second attempt has the same envelope and the same bytes."""
    first, _ = built(well_done(), event_type="news.weekly")
    again = well_done().request(
        message(content(), attempt=2, event_type="news.weekly"), address("bob@example.com"), context(now=1)
    )
    assert again == first
    assert b"DKIM-Signature:" in again.message


def test_several_keys_sign() -> None:
    """A list of keys gives a signature of each, for receivers that know only one of the algorithms."""
    one = {"domain": "shop.example", "selector": "a", "key": key(SIGNING)}
    _, read = built(well_done(dkim=[one, {**one, "selector": "b"}]))
    assert [re.search(r"s=(\w)", line)[1] for line in read.get_all("DKIM-Signature")] == ["a", "b"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"dkim": {"domain": "shop.example", "selector": "a"}}, "dkim"),
        ({"dkim": {"domian": "shop.example", "selector": "a", "key": "x"}}, "dkim.domian"),
        ({"dkim": [{"domain": "shop.example", "selector": "a", "key": "x"}]}, "dkim.key"),
        ({"bounces": "nobody"}, "bounces"),
        ({"bounces": "a-long-name-for-them@shop.example"}, "bounces"),
        ({"bounces": "bounces+x@shop.example"}, "bounces"),
        ({"bounces": "", "bounces_secret": SECRET}, "bounces_secret"),
        ({"bounces_secret": "short"}, "bounces_secret"),
        ({"bounces_secret": []}, "bounces_secret"),
        ({"bounces_secret": [SECRET, "short"]}, "bounces_secret"),
        ({"unsubscribe": {"url": "http://shop.example/{token}", "secret": SECRET}}, "unsubscribe.url"),
        ({"unsubscribe": {"url": "https://shop.example/", "secret": SECRET}}, "unsubscribe.url"),
        ({"unsubscribe": {"url": "https://shop.example/>{token}", "secret": SECRET}}, "unsubscribe.url"),
        ({"unsubscribe": {"url": "https://shop.example/{token}", "secret": "short"}}, "unsubscribe.secret"),
        (
            {"unsubscribe": {"url": "https://shop.example/{token}", "secret": SECRET, "type": []}},
            "unsubscribe.type",
        ),
    ],
)
def test_what_can_not_be_well_done(more: dict[str, object], field: str) -> None:
    """Mistakes in these options are found at start-up, and named down to the key inside a table."""
    with pytest.raises(ConfigError) as error:
        well_done(**more)
    assert error.value.field == field
    assert SECRET not in str(error.value)


def came_back(mail: bytes, provider: Smtp | None = None) -> list[Report]:
    """What the provider makes of a mail that came to the return path."""
    callback = Callback("POST", "/v1/receipts/email", {}, mail)
    return list((provider or well_done()).receipts(callback, context()))


def taken() -> Taken:
    """A mail as the server has taken it."""
    request, _ = built(well_done())
    return Taken(request.sender, "bob@example.com", request.message, request.envelope_id or "")


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("failed", ReportKind.FAILED),
        ("delivered", ReportKind.DELIVERED),
        ("delayed", ReportKind.SENT),
        ("relayed", ReportKind.SENT),
        ("expanded", ReportKind.SENT),
    ],
)
def test_what_a_report_of_delivery_says(action: str, kind: ReportKind) -> None:
    """Each action becomes a report about our reference; a failure has the class of the same words as a reply."""
    (one,) = came_back(report(taken(), action=action))
    assert (one.kind, one.reference) == (kind, str(ID))
    if action == "failed":
        assert one.outcome is not None
        assert (one.outcome.cls, one.outcome.drop_address) == (OutcomeClass.INVALID_RECIPIENT, True)
        assert one.outcome.rule == "smtp.no_such_mailbox"
    else:
        assert one.outcome is None


def test_the_proof_may_stand_anywhere() -> None:
    """The envelope's id alone proves it, where a mailbox was written over the return path; nothing else does."""
    mail = taken()
    (one,) = came_back(report(replace(mail, sender="bounces@shop.example")))
    assert one.reference == str(ID)
    for forged in (
        replace(mail, sender="bounces@shop.example", envelope_id=""),
        replace(mail, sender="", envelope_id="x"),
    ):
        with pytest.raises(ForgedError):
            came_back(report(forged))
    assert came_back(f"To: {mail.sender}\r\n\r\nI am away.\r\n".encode()) == []


def test_secrets_are_replaced_without_a_gap() -> None:
    """The first of several secrets makes the proof, and reports with the proof of any of them count."""
    both = well_done(bounces_secret=["another secret, a new one", SECRET])
    assert came_back(report(taken()), both)[0].reference == str(ID)
    request, _ = built(both)
    assert verp.references(request.sender, "another secret, a new one") == [str(ID)]
    with pytest.raises(ForgedError):
        came_back(report(Taken(request.sender, "bob@example.com", b"")))


def test_without_a_mailbox_for_them_nothing_comes_back() -> None:
    """A channel without bounces takes no reports."""
    with pytest.raises(NotFoundError):
        came_back(report(taken()), smtp())
