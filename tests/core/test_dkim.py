"""Signatures of mails, checked by dkimpy, which shares no code with ours."""

import base64
import re

import dkim as oracle
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core import mime
from ringonce.core.dkim import Signer, signed
from ringonce.errors import ConfigError

RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()
AT = 1_767_225_600
HEAD = (
    b"Date: Thu, 01 Jan 2026 00:00:00 +0000\r\nMessage-ID: <1@example.com>\r\n"
    b"From: =?utf-8?b?0JzQsNCz0LDQt9C40L0=?=\r\n <shop@example.com>\r\nTo: bob@example.com\r\n"
    b"Subject: Your   order\t42\r\nList-Unsubscribe:\r\n <https://example.com/u/x>\r\n"
    b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
)


def pem(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    """The private key as people keep it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def record(name: bytes, **_: object) -> bytes:
    """What the domain publishes under this name."""
    if name.startswith(b"ed."):
        raw = ED.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return b"v=DKIM1; k=ed25519; p=" + base64.b64encode(raw)
    der = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b"v=DKIM1; k=rsa; p=" + base64.b64encode(der)


BOTH = (Signer("example.com", "rsa", pem(RSA)), Signer("example.com", "ed", pem(ED)))


def verified(mail: bytes, index: int = 0) -> bool:
    """What a receiver says about the signature at this place."""
    try:
        return bool(oracle.DKIM(mail).verify(idx=index, dnsfunc=record))
    except oracle.ValidationError:
        return False


def test_both_kinds_are_taken() -> None:
    """A mail with a signature of each kind passes both checks, and says which algorithm and time each has."""
    mail = signed(HEAD + mime.body("Hello\n\n\n", None), BOTH, AT)
    assert verified(mail, 0)
    assert verified(mail, 1)
    assert re.findall(rb"a=([a-z0-9-]+); .*\r\n.* t=(\d+);", mail) == [
        (b"rsa-sha256", b"1767225600"),
        (b"ed25519-sha256", b"1767225600"),
    ]


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=200), html=st.none() | st.just("<p>  x\t y </p>\n\n")
)
def test_whatever_is_said(text: str, html: str | None) -> None:
    """Every body that we make carries a signature that a receiver takes."""
    mail = signed(HEAD + mime.body(text, html), BOTH[1:], AT)
    assert verified(mail)


def test_what_servers_change_on_the_way_does_no_harm() -> None:
    """Refolded headers, other blanks and empty lines at the end leave the signature valid (relaxed)."""
    mail = signed(HEAD + mime.body("one  two \nthree\n", None), BOTH, AT)
    changed = (
        mail.replace(b"Your   order\t42", b"Your\r\n order 42").replace(b"one  two", b"one two") + b"\r\n\r\n"
    )
    assert changed != mail
    assert verified(changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"bob@example.com", b"eve@example.com"),
        (b"https://example.com/u/x", b"https://example.com/u/y"),
        (b"List-Unsubscribe=One-Click", b"List-Unsubscribe=Two-Click"),
        (b"Hello", b"Hallo"),
        (b"\r\nSubject:", b"\r\nFrom: eve@example.com\r\nSubject:"),
        (b"\r\nSubject:", b"\r\nSubject: another\r\nSubject:"),
    ],
)
def test_a_change_that_matters_breaks_it(old: bytes, new: bytes) -> None:
    """Text, recipient, both unsubscribe lines and a second From or Subject break the signature."""
    mail = signed(HEAD + mime.body("Hello", None), BOTH, AT)
    head, body = mail.split(b"\r\nDate:", 1)
    assert not verified(head + b"\r\nDate:" + body.replace(old, new))


def test_signed_again_it_is_the_same() -> None:
    """Two processes make the same bytes of the same mail and time."""
    mail = HEAD + mime.body("Hello", None)
    again = (Signer("example.com", "rsa", pem(RSA)), Signer("example.com", "ed", pem(ED)))
    assert signed(mail, BOTH, AT) == signed(mail, again, AT)
    assert max(map(len, signed(mail, BOTH, AT).split(b"\r\n"))) <= 78


def test_line_ends_as_the_wire_makes_them() -> None:
    """A lone CR or LF is signed as the CRLF that is sent in its place; an empty body is signed too."""
    mail = BOTH[1].header(HEAD + b"\r\none\ntwo\rthree", AT) + HEAD + b"\r\none\r\ntwo\r\nthree\r\n"
    assert verified(mail)
    assert verified(signed(HEAD + b"\r\n", BOTH, AT))


SMALL = rsa.generate_private_key(public_exponent=65_537, key_size=1024)  # noqa: S505 - the smallest that is taken


@pytest.mark.parametrize(
    ("domain", "selector", "key", "field"),
    [
        ("exa mple.com", "s", pem(ED), "dkim.domain"),
        ("", "s", pem(ED), "dkim.domain"),
        ("example.com", "s;x", pem(ED), "dkim.selector"),
        ("example.com", "s", "no key", "dkim.key"),
        ("example.com", "s", pem(ec.generate_private_key(ec.SECP256R1())), "dkim.key"),
    ],
)
def test_what_can_not_sign(domain: str, selector: str, key: str, field: str) -> None:
    """Wrong names and keys are refused at start-up, and named; the key is not repeated."""
    with pytest.raises(ConfigError) as error:
        Signer(domain, selector, key)
    assert error.value.field == field
    assert key[30:60] not in str(error.value) or key == "no key"


def test_a_key_that_nobody_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """RSA below the smallest size that receivers take is refused; the smallest is taken."""
    Signer("example.com", "s", pem(SMALL))
    monkeypatch.setattr("ringonce.core.dkim.SMALLEST_RSA", 1025)
    with pytest.raises(ConfigError, match="1024 bits"):
        Signer("example.com", "s", pem(SMALL))
