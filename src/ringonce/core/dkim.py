"""Signatures of mails (DKIM, RFC 6376): relaxed/relaxed, with RSA (RFC 8301) or Ed25519 (RFC 8463).

Both kinds of signature draw no random numbers, and the time in them is the caller's, so that the same mail signed
again is the same in every byte.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

SIGNED: Final = (
    *("from", "reply-to", "to", "subject", "date", "message-id", "auto-submitted", "mime-version"),
    *("content-type", "content-transfer-encoding", "list-unsubscribe", "list-unsubscribe-post"),
)
"""Header fields that a signature covers, where the mail has them (RFC 6376 section 5.4.1; RFC 8058 section 4)."""
SMALLEST_RSA: Final = 1024
"""Bits. A verifier takes nothing smaller (RFC 8301 section 3.2); 2048 are asked for."""
_SEALED: Final = ("from", "to", "subject", "list-unsubscribe")
# Named once more than they occur: a second one that is added on the way breaks the signature (section 8.15).
_SELECTOR = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?)*"
)
_ENDS = re.compile(rb"\r\n|\n|\r")
_FIELD = re.compile(rb"([^:\s]+)[ \t]*:((?:[^\r\n]|\r\n[ \t])*)\r\n")
_FOLD: Final = 72


class Signer:
    """One key of a domain, published under ``selector._domainkey.domain``."""

    def __init__(self, domain: str, selector: str, key: str) -> None:
        """Read the key: a PEM text without password, of RSA or Ed25519.

        Raises ConfigError; its message never repeats the key.
        """
        for name, value in (("domain", domain), ("selector", selector)):
            if len(value) > 253 or not _SELECTOR.fullmatch(value):
                raise ConfigError(f"this is no {name}", field=f"dkim.{name}", mend=_MENDS[name])
        self.domain, self.selector = domain.lower(), selector
        self._key = _private(key)
        # Only an RSA key has a size.
        self.algorithm = "rsa-sha256" if hasattr(self._key, "key_size") else "ed25519-sha256"

    def header(self, mail: bytes, at: int) -> bytes:
        """The line that goes before the mail. ``at``: seconds since 1970, the ``t=`` of the signature."""
        mail = _ENDS.sub(b"\r\n", mail)
        head, _, body = mail.partition(b"\r\n\r\n")
        fields = {name.lower().decode("ascii"): value for name, value in _FIELD.findall(head + b"\r\n")}
        covered = [name for name in SIGNED if name in fields]
        named = ":".join([*covered, *(name for name in _SEALED if name in fields or name == "from")])
        line = (
            f"DKIM-Signature: v=1; a={self.algorithm}; c=relaxed/relaxed; d={self.domain};\r\n"
            f"\ts={self.selector}; t={at};\r\n\th={_folded(named, ':')};\r\n"
            f"\tbh={_base64(_body_hash(body))};\r\n\tb="
        ).encode("ascii")
        # What is named once too often is an empty text (RFC 6376 section 3.5, h=).
        said = b"".join(_relaxed(name.encode("ascii"), fields[name]) + b"\r\n" for name in covered)
        said += _relaxed(*line.split(b":", 1))
        signature = _base64(self._sign(hashlib.sha256(said).digest()))
        cut = [signature[place : place + _FOLD] for place in range(0, len(signature), _FOLD)]
        return line + "\r\n\t".join(cut).encode("ascii") + b"\r\n"

    def _sign(self, digest: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import padding, utils
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256

        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(digest)  # RFC 8463 section 3: PureEdDSA over the hash
        return self._key.sign(digest, padding.PKCS1v15(), utils.Prehashed(SHA256()))


def signed(mail: bytes, signers: Sequence[Signer], at: int) -> bytes:
    """The mail with a signature of each before it. ``at``: seconds since 1970."""
    return b"".join(signer.header(mail, at) for signer in signers) + mail


_MENDS: Final = {
    "domain": 'the domain of the sender\'s address, e.g. domain = "example.com"',
    "selector": 'the name under which the key is published, e.g. selector = "2026a"',
}


def _private(text: str) -> RSAPrivateKey | Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key: object = load_pem_private_key(text.strip().encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey | Ed25519PrivateKey):
        mend = (
            'give a private key of RSA or Ed25519 in PEM, without password: "${file:/run/secrets/dkim.pem}"'
        )
        raise ConfigError("this is no key that mail can be signed with", field="dkim.key", mend=mend)
    if isinstance(key, RSAPrivateKey) and key.key_size < SMALLEST_RSA:
        mend = "make one of 2048 bits (RFC 8301)"
        raise ConfigError(f"a key of {key.key_size} bits is taken by nobody", field="dkim.key", mend=mend)
    return key


def _relaxed(name: bytes, value: bytes) -> bytes:
    """A header field as it is hashed, without its end (RFC 6376 section 3.4.2)."""
    plain = re.sub(rb"[ \t]+", b" ", value.replace(b"\r\n", b"")).strip(b" \t")
    return name.strip(b" \t").lower() + b":" + plain


@lru_cache(maxsize=32)
def _body_hash(body: bytes) -> bytes:
    """RFC 6376 section 3.4.4. All recipients of an event share the body, and so its hash."""
    lines = [re.sub(rb"[ \t]+", b" ", line).rstrip(b" ") for line in body.split(b"\r\n")]
    while lines and not lines[-1]:
        lines.pop()
    return hashlib.sha256(b"".join(line + b"\r\n" for line in lines)).digest()


def _folded(text: str, after: str) -> str:
    lines, line = [], ""
    for part in text.split(after):
        grown = f"{line}{after}{part}" if line else part
        if len(grown) > _FOLD - 4 and line:
            lines.append(line + after)
            grown = part
        line = grown
    return "\r\n\t ".join([*lines, line])


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
