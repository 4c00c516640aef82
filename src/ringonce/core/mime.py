"""The bytes of a mail: addresses, header lines, and the body with its alternatives.

What is built twice from the same parts is the same in every byte, so that a repeat can be folded and a signature over
it stays the same. All of it is ASCII in short lines, which every server on the way carries (RFC 5321 section 2.3.1).
"""

from __future__ import annotations

import hashlib
import re
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from functools import lru_cache
from typing import TYPE_CHECKING

from ringonce.errors import InputError

if TYPE_CHECKING:
    from ringonce.model.notification import Content

# Also what str.splitlines takes for the end of a line: a header must stay one line for every reader.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_POLICY = SMTP.clone(
    cte_type="7bit"
)  # no 8BITMIME needed: base64 or quoted-printable, and short lines, everywhere


def mailbox(value: object) -> str:
    """Check one e-mail address and bring it to its canonical form.

    RFC 5321: local part up to 64 octets, address up to 254 (erratum 1690 of RFC 3696). An international domain
    becomes its ASCII form; a local part outside ASCII would need SMTPUTF8 on the whole way and is refused, as are
    quoted local parts and address literals. Raises InputError; the message never repeats the address.
    """
    if not isinstance(value, str):
        raise _bad("an e-mail address is a text", "give name@example.com")
    text = value.strip(" ")
    if CONTROL.search(text):
        raise _bad("it holds a line break or another control character", "give name@example.com alone")
    local, at, domain = text.rpartition("@")
    if not at or re.search(r'[\s<>,;:"()\\\[\]@]', local) or re.search(r"[\s<>,;]", domain):
        raise _bad(
            "it is not one plain mailbox", "give name@example.com, without display name, quotes or comments"
        )
    if not local.isascii():
        raise _bad(
            "letters outside ASCII before the @ are not supported", "use an ASCII address of this mailbox"
        )
    if len(local) > 64 or not _LOCAL.fullmatch(local):
        raise _bad(
            "the part before the @ is not valid",
            "see RFC 5321 section 4.5.3.1.1: up to 64 letters, digits, dots between",
        )
    try:
        ascii_domain = domain.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise _bad("the domain is not valid", "check the part after the @") from None
    if len(local) + 1 + len(ascii_domain) > 254 or not all(map(_LABEL.fullmatch, ascii_domain.split("."))):
        raise _bad("the domain is not valid", "check the part after the @")
    return f"{local}@{ascii_domain}"


def _bad(message: str, mend: str) -> InputError:
    return InputError(message, field="address", mend=mend)


def _encoded(text: str, before: int) -> str:
    """Encoded words (RFC 2047) folded at 76 columns; ``before``: columns taken on the first line."""
    return Header(text, "utf-8", maxlinelen=76, header_name="x" * before).encode(linesep="\r\n")


def phrase(name: str) -> str:
    """A display name as the From line spells it (RFC 5322 section 3.2.5, RFC 2047)."""
    if name.isascii():
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _encoded(name, len("From"))


def subject(content: Content) -> str:
    """The header line, from the title or else the beginning of the text. Raises InputError on a line break in it."""
    title = content.title or ""
    if CONTROL.search(title):
        raise InputError(
            "a title is one line", field="content.title", mend="remove line breaks and control characters"
        )
    if len(title) > 900:
        raise InputError("a title has at most 900 characters", field="content.title", mend="shorten it")
    if not title and content.text:
        title = CONTROL.split(content.text.strip(), maxsplit=1)[0][:78].strip()
    if not title:
        return ""
    plain = title.isascii() and len(title) <= 60 and "=?" not in title
    return f"Subject: {title if plain else _encoded(title, len('Subject'))}\r\n"


@lru_cache(maxsize=32)
def body(text: str | None, html: str | None) -> bytes:
    """MIME headers and body. Building it costs milliseconds and all recipients of an event share it."""
    mail = EmailMessage(policy=_POLICY)
    mail["MIME-Version"] = "1.0"
    if html and text:
        mail.set_content(text)
        mail.add_alternative(html, subtype="html")
        # By itself the library draws a random one, and a repeat would differ from the first.
        mail.set_boundary("=_" + hashlib.sha256(f"{len(text)}:{text}{html}".encode()).hexdigest()[:32])
    elif html:
        mail.set_content(html, subtype="html")
    else:
        mail.set_content(text or "")
    return mail.as_bytes()
