"""The published kit for providers: ours pass it, and each broken rule is found."""

import base64
import importlib
import json
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ringonce import registry
from ringonce.provider import (
    JSON_API,
    Code,
    Content,
    Features,
    HttpAnswer,
    HttpRequest,
    InputError,
    LibraryCall,
    LibraryRequest,
    MailRequest,
    MailServer,
    Outcome,
    OutcomeClass,
    Provider,
    Rule,
    SmsCenter,
    SmsRequest,
)
from ringonce.testing import Case, check_provider


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@cache
def ours() -> dict[str, tuple[dict[str, Any], object]]:
    """Options and a good address of each of our providers."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {
        "type": "service_account",
        "project_id": "kit",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "kit@kit.example.com",
        "token_uri": "https://token.example.com/token",
    }
    curve = ec.generate_private_key(ec.SECP256R1())
    point = curve.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    vapid = _b64(curve.private_numbers().private_value.to_bytes(32, "big"))
    subscription = {
        "endpoint": "https://push.example.net/a/b",
        "keys": {"p256dh": _b64(point), "auth": _b64(bytes(range(16)))},
    }
    return {
        "smtp": (
            {"url": "smtp://user:hunter22@mail.example.com", "from": "app@example.com"},
            "ada@example.com",
        ),
        "webhook": ({"secret": "whsec_" + base64.b64encode(bytes(32)).decode()}, "https://example.com/hook"),
        "telegram": ({"token": "123456:" + "a" * 35}, "4815162342"),
        "sandbox": ({}, "anything"),
        "fcm": ({"credentials": json.dumps(account)}, "token-" + "a" * 140),
        "webpush": ({"vapid_private_key": vapid, "subject": "mailto:ops@example.com"}, subscription),
    }


@pytest.mark.parametrize("name", sorted(ours()))
def test_ours(name: str) -> None:
    """Each provider of ours that makes calls passes the kit that strangers are measured by."""
    options, address = ours()[name]
    check_provider(name, options, address=address)


def test_nobody_is_left_out() -> None:
    """A provider that is not listed here is checked by its own tests."""
    for name in sorted({*registry.names()} - ours().keys()):
        cls = registry.provider(name)
        own = Path(__file__).parents[1] / "providers" / f"test_{name}.py"
        assert getattr(cls, "stored", False) or "check_provider(" in own.read_text("utf-8"), name


@dataclass(frozen=True)
class AcmeOptions:
    """``key``: from Acme's console."""

    key: str = field(repr=False)
    base_url: str = "https://api.acme.example"


class Acme(Provider):
    """A small, sound provider; the tests below break one thing each."""

    name = "acme"
    title = "Acme Pager"
    features = Features(title=False, max_text=160)
    rules = (
        Rule(
            "acme.accepted",
            OutcomeClass.ACCEPTED,
            "Acme guide",
            status=200,
            json={"ok": True},
            message_id="json:id",
        ),
        *JSON_API,
        Rule(
            "acme.gone",
            OutcomeClass.INVALID_RECIPIENT,
            "Acme guide",
            status=404,
            json={"error": "no_pager"},
            drop_address=True,
        ),
    )
    Options = AcmeOptions

    def address(self, value: object) -> str:
        """Digits."""
        text = super().address(value)
        if not (text.isascii() and text.isdigit()):
            raise InputError("a pager has digits", field="address", mend="write 4815")
        return text

    def request(self, message, address, context):  # noqa: ANN001, ANN201
        """One call."""
        body = json.dumps({"pager": address.value, "text": message.content.text, "ref": message.reference})
        headers = (("content-type", "application/json"), ("authorization", f"Bearer {self.options.key}"))
        return HttpRequest(
            "POST", self.options.base_url + "/page", headers, body.encode(), timeout=context.timeout
        )


OPTIONS = {"key": "acme-key-1"}
CASES = (
    Case("taken", HttpAnswer(200, body=b'{"ok": true, "id": "p-1"}'), "accepted", message_id="p-1"),
    Case("page", HttpAnswer(200, body=b"<html>"), "transient"),
    Case("silent", HttpAnswer(200), "transient", ambiguous=True),
    Case("gone", HttpAnswer(404, body=b'{"error": "no_pager"}'), "invalid_recipient", drop_address=True),
)


def found(cls: type[Provider], **changes: Any) -> str:
    """What the kit says of it."""
    given: dict[str, Any] = {"address": "4815", "cases": CASES, **changes}
    with pytest.raises(AssertionError) as error:
        check_provider(cls, given.pop("options", OPTIONS), **given)
    return str(error.value)


def test_a_sound_provider_passes() -> None:
    """A class that no registry knows is checked like any other."""
    check_provider(Acme, OPTIONS, address="4815", cases=CASES, bad_addresses=["48-15", "١٢٣"])


def _requests(**changes: Any) -> type[Provider]:
    """Acme with a request that is changed as told."""

    class Changed(Acme):
        def request(self, message, address, context):  # noqa: ANN001, ANN202
            made = super().request(message, address, context)
            return replace(
                made, **{name: change(message, address, context) for name, change in changes.items()}
            )

    return Changed


COUNTER = iter(range(10_000_000))


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (_requests(body=lambda *_: str(next(COUNTER)).encode()), "gave another request"),
        (_requests(body=lambda _m, _a, c: str(c.now).encode()), "a repeat has another body"),
        (_requests(url=lambda m, *_: f"https://acme.example/{m.attempt}"), "a repeat goes to another URL"),
        (_requests(url=lambda *_: "/page"), "the URL is not absolute"),
        (_requests(headers=lambda m, *_: (("x-text", m.content.text),)), "line break in header x-text"),
        (_requests(headers=lambda *_: (("Host", "acme.example"),)), "header Host is the wire's"),
        (_requests(timeout=lambda *_: 60.0), "timeout must come from the context"),
    ],
)
def test_bad_requests(broken: type[Provider], finding: str) -> None:
    """A request that is not the same each time, or lets headers in, is found."""
    assert finding in found(broken)


def _outcome(read: Any) -> type[Provider]:
    """Acme with an outcome of its own."""

    class Changed(Acme):
        @classmethod
        def outcome(cls, answer, context):  # noqa: ANN001, ANN206
            return read(answer, super().outcome(answer, context))

    return Changed


def _raise(_answer: object, _outcome: Outcome) -> Outcome:
    raise KeyError("error")


@pytest.mark.parametrize(
    ("read", "finding"),
    [
        (_raise, "raises KeyError"),
        (lambda _a, _o: None, "returns NoneType"),
        (lambda _a, o: replace(o, drop_address=True), "drops the address without a proof"),
        (lambda _a, o: replace(o, retry_after_s=-1), "retry_after_s must be whole seconds"),
        (lambda _a, o: replace(o, code=Code.AUTH), "with code"),
        (lambda _a, o: replace(o, text="a\nb"), "text holds control characters"),
        (lambda _a, o: replace(o, source=""), "rule and source must say why"),
        (lambda _a, o: replace(o, ambiguous=False), "so it must be ambiguous"),
        (lambda a, o: replace(o, text=str(getattr(a, "body", ""))), "text repeats a credential"),
        (lambda _a, o: replace(o, retry_after_s=None), "Retry-After is not honoured"),
        (
            lambda _a, o: replace(o, cls=OutcomeClass.INVALID_PAYLOAD, code=Code.INVALID_PAYLOAD),
            "a server's failure is not the message's fault",
        ),
        (lambda _a, _o: Outcome(OutcomeClass.ACCEPTED, rule="x", source="y"), "is taken for accepted"),
    ],
)
def test_bad_outcomes(read: Any, finding: str) -> None:
    """An outcome that raises, drops, forgets a doubt or repeats a secret is found."""
    assert finding in found(_outcome(read))


def test_bad_cases() -> None:
    """A case that means something else, and a rule that no case is decided by, are named."""
    text = found(Acme, cases=[replace(CASES[0], cls="blocked", message_id="p-2"), *CASES[1:3]])
    assert "case taken: is accepted, not blocked (rule acme.accepted)" in text
    assert "case taken: message_id is 'p-1', not 'p-2'" in text
    assert "rule acme.gone: no case is decided by it" in text


def test_lax_2xx() -> None:
    """Where success is JSON, a page on 2xx is no success."""

    class Lax(Acme):
        rules = (Rule("acme.accepted", OutcomeClass.ACCEPTED, "Acme guide", status=200),)

    assert "HTTP 200 with a page: accepted, although success is a JSON body" in found(Lax, cases=CASES[:1])


def test_bad_addresses() -> None:
    """An address is text, canonical, and free of line breaks where it goes into a request."""

    class Any_(Acme):  # noqa: N801 - beside Any
        def address(self, value: object) -> str:
            return f"{value}."

    text = found(Any_)
    assert "address: its own result is changed when it is checked again" in text
    assert "address None: must be refused" in text

    class Inside(Acme):
        def address(self, value: object) -> str:
            return Provider.address(self, value)

        def request(self, message, address, context):  # noqa: ANN001, ANN202
            return replace(
                super().request(message, address, context), url=f"https://a.example/{address.value}"
            )

    assert "an address with a line break: the URL holds raw characters" in found(Inside)


def test_bad_options() -> None:
    """A secret that shows, options that are not frozen, and a name that is none are found."""

    @dataclass
    class Loose:
        key: str
        base_url: str = "https://api.acme.example"

    class Shown(Acme):
        name = "Acme Pager"
        Options = Loose

        @property
        def account(self) -> str:
            return f"acme:{self.options.key}"

    text = found(Shown)
    for finding in (
        "option key: looks like a secret",
        "option key: its value shows in a repr or in account",
        "Options: must be frozen",
        "Options: say what each option is",
        "name: give one",
    ):
        assert finding in text
    assert "the options are refused: key: provider acme needs key" in found(Acme, options={})


def test_content_that_is_let_in() -> None:
    """What features rule out must be refused at acceptance."""

    class Open(Acme):
        def check(self, content: Content) -> None:
            """Let everything in."""

    text = found(Open)
    for what in (
        "content.title, which features rule out",
        "empty content",
        "text with U+0000",
        "text over max_text",
    ):
        assert f"{what}: must be refused" in text


def test_a_user_s_endpoint_is_guarded() -> None:
    """Where the address decides the host, the wire must keep it out of private networks."""

    class Hook(Acme):
        def address(self, value: object) -> str:
            return Provider.address(self, value)

        def request(self, message, address, context):  # noqa: ANN001, ANN202
            return replace(super().request(message, address, context), url=address.value)

    assert "so set guarded=True" in found(Hook, address="https://hook.example/a")


def test_mail_headers() -> None:
    """A text that becomes a header of a mail, and a repeat that differs, are found."""

    class Mail(Acme):
        transport = "smtp"
        features = Features()
        rules = ()

        def request(self, message, address, context):  # noqa: ANN001, ANN202
            head = (
                f"From: a@example.com\r\nSubject: {message.content.text}\r\nDate: {context.now}\r\n\r\nHi\r\n"
            )
            return MailRequest(MailServer("mail.example.com"), "a@example.com", address.value, head.encode())

    text = found(Mail, cases=())
    assert "hostile input: it became a header of the mail" in text
    assert "a repeat of a mail must be the same in each byte" in text


def test_short_messages() -> None:
    """Octets that do not fit, raw characters in a field, and a refusal after an acceptance are found."""

    class Sms(Acme):
        transport = "smpp"
        features = Features()
        rules = (Rule("sms.any", OutcomeClass.ACCEPTED, "Acme guide"),)

        def request(self, message, address, context):  # noqa: ANN001, ANN202
            text = message.content.text or "-"
            me = (5, 0, text)
            return SmsRequest(SmsCenter("sms.example"), me, (1, 1, address.value), (text.encode() * 20,))

    text = found(Sms, cases=())
    assert "hostile input: a field holds raw characters" in text
    assert "a part is longer than 254" in text
    assert "SMPP generic_nack: is taken for accepted" in text
    assert "SMPP submit_sm_resp in part: some parts were taken, so it must be ambiguous" in text
    assert "timeout must come from the context" in text


def test_calls_of_a_library() -> None:
    """A library's failure that is taken for success is found."""

    class Breadth(Acme):
        transport = "library"
        features = Features()
        rules = (Rule("library.any", OutcomeClass.ACCEPTED, "Acme guide"),)

        def request(self, message, address, context):  # noqa: ANN001, ANN202
            make = LibraryCall("acme:Pager", (address.value,))
            return LibraryRequest(make, LibraryCall("page", (message.content.text,)), context.timeout)

    text = found(Breadth, cases=())
    assert "a library's False: is taken for accepted" in text
    assert "a library that made nothing: is taken for accepted" in text


def test_a_source_that_does_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that asks a clock, the network or the inside of ringonce is named."""
    (tmp_path / "acme_with_clock.py").write_text(
        "import time\nfrom datetime import datetime\nfrom ringonce.store import SqlStore\n"
        "from tests.testing.test_providers import Acme\n\n\n"
        "class Clocked(Acme):\n    def stamp(self):\n        return datetime.now(), open('x')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("acme_with_clock")
    text = found(module.Clocked)
    for finding in ("imports time", "imports ringonce.store", "asks a clock", "open does I/O"):
        assert finding in text
