"""E-mail through an SMTP server.

One envelope per recipient, so that each reply is about one person. Message-ID and Date come from the
notification, so a repeat is byte-identical and mailboxes can fold it. The server owns the message once it has
answered the final dot with 250, and must not deliver after 4yz or 5yz (RFC 5321 section 4.2.5).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from ringonce.provider import (
    Address,
    Callback,
    ConfigError,
    Content,
    Context,
    Fault,
    Features,
    ForgedError,
    InDoubt,
    InputError,
    MailRequest,
    Message,
    NotFoundError,
    OutcomeClass,
    Provider,
    Report,
    ReportKind,
    Rule,
    dkim,
    dsn,
    mail_server,
    mime,
    seal,
    verp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_RFC5321 = "RFC 5321 section 4.2"
_RFC3463 = "RFC 3463"
_RFC4954 = "RFC 4954 section 6"

_T = OutcomeClass.TRANSIENT
_R = OutcomeClass.RATE_LIMITED
_IR = OutcomeClass.INVALID_RECIPIENT
_IP = OutcomeClass.INVALID_PAYLOAD
_A = OutcomeClass.AUTH

_BEFORE_DATA = ("CONNECT", "EHLO", "AUTH", "MAIL", "RCPT")
_BROKEN = (Fault.WRITE_RESET, Fault.READ_TIMEOUT, Fault.RESET_BEFORE_STATUS)
UNSUBSCRIBE = "unsubscribe"
"""What the token of a link is sealed for (``core.seal``)."""
_4YZ = range(400, 500)
_5YZ = range(500, 600)
_WAIT = (
    r"text:\b(\d{1,6} ?(?:seconds?|secs?|minutes?|mins?|hours?))\b",
    r"text:\b(?:in|after|for) (\d{1,6} ?s?)\b",
)
_GREYLIST = r"gr[ae]y-?\s?list|postgrey|(?:try|come|retry|again|back)\b.{0,40}\b\d+ ?(?:s|m|h)"
_RATE = (
    r"rate.?limit|throttl|\brate (?:of|that)\b|at a rate"
    r"|too many (?:messages|connections|mails|concurrent|sessions)"
)
_UNKNOWN_USER = (
    r"(?:user|mailbox|recipient|account|address)\b.{0,60}\b(?:unknown|not found|does(?:n'?t| not) exist|not exist)"
    r"|(?:unknown|no such|invalid|non-?existent) (?:user|mailbox|recipient|account|address|local)"
    r"|no mailbox here|not a valid (?:mailbox|recipient)|unrouteable address"
)
_HOST_BLOCKED = (
    r"(?:client host|host|\bip\b|address \[).{0,80}\b(?:blocked|rejected|banned|denied)|blocked using"
    r"|(?:black|block|deny).?list|\bd?n?s?[rd]bl\b|spamhaus|spamcop"
)
_UNAUTHENTICATED = r"unauthenticated|\bspf\b|\bdkim\b|\bdmarc\b"
_SENDER = (
    r"sender\b.{0,80}\b(?:rejected|denied|not (?:allowed|owned|authori[sz]ed|permitted))"
    r"|not authori[sz]ed to send"
)

RULES: tuple[Rule, ...] = (
    # Broken exchanges. Before the final dot nothing is accepted; after the reply to it everything is. Whether the
    # dot was already written when the connection broke within the data is the wire's to say (``sent``).
    Rule(
        "smtp.broke_after_reply",
        OutcomeClass.ACCEPTED,
        f"{_RFC5321}.5",
        fault=(Fault.RESET_AFTER_REPLY,),
        stage=("QUIT", "DATA_END"),
    ),
    Rule("smtp.broke_at_quit", OutcomeClass.ACCEPTED, f"{_RFC5321}.5", fault=_BROKEN, stage=("QUIT",)),
    Rule(
        "smtp.broke_before_data",
        _T,
        "RFC 5321 section 4.1.1.4",
        fault=(*_BROKEN, Fault.RESET_AFTER_REPLY),
        stage=_BEFORE_DATA,
    ),
    Rule(
        "smtp.certificate",
        _A,
        "policy: the relay is not who it claims to be",
        fault=(Fault.TLS_CERT_INVALID,),
        scope="channel",
    ),
    Rule(
        "smtp.accepted",
        OutcomeClass.ACCEPTED,
        f"{_RFC5321}.5",
        status=250,
        stage=("DATA_END",),
        message_id=r"text:(?:queued as |\bid=|\bok:? (?!queued|id=))<?((?=[\w.@-]*\d)[\w.@-]{4,})",
    ),
    # Who are we? Credentials, relaying, reputation of our host, our sender address.
    Rule("smtp.auth_unavailable", _A, _RFC4954, status=(432, 454), stage=("AUTH",)),
    Rule("smtp.auth_refused", _A, _RFC4954, status=_5YZ, stage=("AUTH",)),
    Rule("smtp.auth_required", _A, _RFC4954, status=(530, 534, 535, 538)),
    Rule(
        "smtp.no_service", _A, "RFC 5321 section 3.1: the server refuses us", status=_5YZ, stage=("CONNECT",)
    ),
    Rule("smtp.command_absent", OutcomeClass.NOT_IMPLEMENTED, f"{_RFC5321}.2", status=502),
    Rule("smtp.helo_refused", _A, f"{_RFC5321}.2", status=(550, 553, 554), stage=("EHLO",)),
    Rule("smtp.relay_denied", _A, f"{_RFC3463} 5.7.1", status=_5YZ, text=r"\brelay"),
    Rule(
        "smtp.unauthenticated_enhanced",
        _A,
        "RFC 7372 section 3",
        status=_5YZ,
        enhanced=("5.7.20", "5.7.21", "5.7.22", "5.7.23", "5.7.26"),
        scope="sender",
    ),
    Rule(
        "smtp.unauthenticated",
        _A,
        f"{_RFC3463} 5.7",
        status=_5YZ,
        enhanced=("5.7",),
        text=_UNAUTHENTICATED,
        scope="sender",
    ),
    Rule(
        "smtp.host_blocked",
        _A,
        f"{_RFC3463} 5.7.1",
        status=(550, 553, 554),
        enhanced=("5.7",),
        text=_HOST_BLOCKED,
    ),
    Rule(
        "smtp.host_blocked_plain",
        _A,
        f"{_RFC5321}.2",
        status=(550, 553, 554),
        text=r"blocked using|spamhaus|spamcop",
    ),
    Rule(
        "smtp.sender_refused",
        _A,
        f"{_RFC5321}.2",
        status=(550, 551, 553, 554),
        stage=("MAIL",),
        scope="sender",
    ),
    Rule("smtp.sender_address", _A, f"{_RFC3463} 5.1.7, 5.1.8", enhanced=("5.1.7", "5.1.8"), scope="sender"),
    Rule(
        "smtp.sender_not_ours",
        _A,
        f"{_RFC3463} 5.7.1",
        status=_5YZ,
        enhanced=("5.7",),
        text=_SENDER,
        scope="sender",
    ),
    # Later, then. 552 at RCPT is "too many recipients" and must be taken for temporary.
    Rule("smtp.too_many_recipients", _T, "RFC 5321 section 4.5.3.1.10", status=_4YZ, enhanced=("4.5.3",)),
    Rule("smtp.mailbox_full", _T, f"{_RFC3463} 5.2.2", status=_5YZ, enhanced=("5.2.2",)),
    Rule("smtp.too_big", _IP, f"{_RFC3463} 5.3.4", status=_5YZ, enhanced=("5.3.4", "5.2.3")),
    Rule("smtp.recipients_552", _T, "RFC 5321 section 4.5.3.1.10", status=552, stage=("RCPT",)),
    Rule(
        "smtp.rate_enhanced",
        _R,
        "RFC 3463 4.7; 4.7.28 is a mailbox provider's code for our host's rate",
        status=_4YZ,
        enhanced=("4.7.28",),
        retry_after=_WAIT,
    ),
    Rule("smtp.rate", _R, f"{_RFC5321}.1", status=_4YZ, text=_RATE, retry_after=_WAIT),
    Rule(
        "smtp.greylisted",
        _T,
        "RFC 6647 section 2",
        status=_4YZ,
        text=_GREYLIST,
        retry_after=_WAIT,
        floor="greylist",
    ),
    Rule(
        "smtp.recipient_later",
        _T,
        f"{_RFC5321}.2",
        status=(450, 451, 452),
        stage=("RCPT",),
        retry_after=_WAIT,
        floor="greylist",
    ),
    # The recipient. With one recipient per envelope a late verdict is about the same person.
    Rule(
        "smtp.no_such_mailbox",
        _IR,
        _RFC3463,
        status=_5YZ,
        enhanced=("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.2.1"),
        drop_address=True,
    ),
    Rule("smtp.null_mx", _IR, "RFC 7505 section 4.1", status=_5YZ, enhanced=("5.1.10",), drop_address=True),
    Rule(
        "smtp.domain_takes_no_mail",
        _IR,
        "RFC 7504 section 4: a reply to RCPT, or a relay's later verdict",
        status=556,
        stage=("RCPT", "DATA_BODY", "DATA_END"),
        drop_address=True,
    ),
    Rule(
        "smtp.policy_at_recipient",
        OutcomeClass.BLOCKED,
        f"{_RFC3463} 5.7.1",
        status=_5YZ,
        enhanced=("5.7",),
        stage=("RCPT",),
    ),
    Rule(
        "smtp.unknown_user",
        _IR,
        f"{_RFC5321}.2",
        status=(550, 551, 553, 554),
        stage=("RCPT",),
        text=_UNKNOWN_USER,
        drop_address=True,
    ),
    Rule(
        "smtp.recipient_refused",
        _IR,
        "policy: refused, but no proof that the mailbox is dead",
        status=(521, 550, 551, 553),
        stage=("RCPT",),
    ),
    Rule(
        "smtp.address_status",
        _IR,
        f"{_RFC3463} 5.1",
        status=_5YZ,
        enhanced=("5.1", "5.4.1", "5.4.4"),
        stage=("RCPT", "DATA_END"),
    ),
)


@dataclass(frozen=True)
class DkimOptions:
    """``domain`` and ``selector``: where the public key is published; ``key``: the private one, RSA or Ed25519, PEM."""

    domain: str
    selector: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class UnsubscribeOptions:
    """``url``: where one click leads, with ``{token}`` in it; ``secret``: what the token is sealed with.

    ``types``: the event types whose mails may be unsubscribed from; ``news.*`` names all that begin so.
    """

    url: str
    secret: str = field(repr=False)
    types: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class SmtpOptions:
    """``url``: smtp://user:password@host:port, smtps:// for TLS from the start; ``?tls=`` none, auto or starttls.

    Without ``?tls=`` STARTTLS is required where a password would travel to another machine, else used if offered.
    ``from``: the sender's address. ``from_name``: shown beside it. ``reply_to``: where answers go. ``dkim``: the key
    that signs, as a table of ``domain``, ``selector`` and ``key`` (RSA or Ed25519, PEM), or a list of such tables.
    ``bounces``: the mailbox that mails come back to; ``bounces_secret``: what proves that they did, or a list
    while it is replaced, the new one first. ``unsubscribe``: a
    table of ``url`` with ``{token}`` in it, ``secret``, and ``types`` of events (all of them; ``news.*``).
    """

    url: str = field(repr=False)
    from_: str
    from_name: str = ""
    reply_to: str = ""
    dkim: DkimOptions | tuple[DkimOptions, ...] = ()
    bounces: str = ""
    bounces_secret: str | tuple[str, ...] = field(default="", repr=False)
    unsubscribe: UnsubscribeOptions | None = None


class Smtp(Provider):
    """E-mail by SMTP."""

    name = "smtp"
    title = "E-mail (SMTP)"
    features = Features(html=True)
    in_doubt = InDoubt.RESEND
    second_send = "byte-identical; mailboxes fold it by Message-ID"
    unknown_budget = 1
    transport = "smtp"
    rules = RULES
    receipts_by = "reference"
    Options = SmtpOptions

    def __init__(self, options: SmtpOptions) -> None:
        """Read the URL, check the addresses and keys. Raises ConfigError."""
        super().__init__(options)
        self._server = mail_server(options.url)
        self._sender = _configured(options.from_, "from")
        reply_to = _configured(options.reply_to, "reply_to") if options.reply_to else ""
        if len(options.from_name) > 200 or mime.CONTROL.search(options.from_name):
            raise ConfigError("it must be one line of at most 200 characters", field="from_name")
        sender = f"{mime.phrase(options.from_name)} <{self._sender}>" if options.from_name else self._sender
        self._head = f"From: {sender}\r\n" + (f"Reply-To: {reply_to}\r\n" if reply_to else "")
        self._domain = self._sender.rpartition("@")[2]
        keys = options.dkim if isinstance(options.dkim, tuple) else (options.dkim,)
        self._signers = tuple(dkim.Signer(key.domain, key.selector, key.key) for key in keys)
        given = options.bounces_secret
        self._proofs = given if isinstance(given, tuple) else (given,) if given else ()
        self._bounces = _bounces(options, self._proofs)
        _check_unsubscribe(options.unsubscribe)

    @cached_property
    def account(self) -> str:
        """Server and a digest of the user, since user names are often addresses."""
        user = f"#{hashlib.sha256(self._server.user.encode()).hexdigest()[:8]}" if self._server.user else ""
        return f"smtp:{self._server.host}:{self._server.port}{user}"

    def address(self, value: object) -> str:
        """One mailbox, local part as given, domain in lower-case ASCII. Raises InputError."""
        return mime.mailbox(value)

    def check(self, content: Content) -> None:
        """Refuse data, and a title that would not be one header line."""
        super().check(content)
        mime.subject(content)

    def request(self, message: Message, address: Address, context: Context) -> MailRequest:
        """The envelope and the whole message; the same bytes whenever it is built for the same reference."""
        content = message.content
        recipient = mime.mailbox(address.value)
        if not _REFERENCE.fullmatch(message.reference):
            raise InputError("the reference can not stand in a Message-ID", field="reference")
        at = message.created_at // 1_000_000
        date = format_datetime(datetime.fromtimestamp(at, UTC))
        head = (
            f"Date: {date}\r\nMessage-ID: <{message.reference}@{self._domain}>\r\n"
            f"{self._head}To: {recipient}\r\n{mime.subject(content)}Auto-Submitted: auto-generated\r\n"
            f"{self._unsubscribe(message)}"
        )
        mail = head.encode("ascii") + mime.body(content.text, content.html)
        sender, envelope_id = self._sender, None
        if self._bounces is not None:
            local, domain = self._bounces
            envelope_id = verp.tag(message.reference, self._proofs[0])
            sender = f"{local}+{envelope_id}@{domain}"
        return MailRequest(
            server=self._server,
            sender=sender,
            recipient=recipient,
            message=dkim.signed(mail, self._signers, at),
            timeout=max(context.timeout, 30.0),
            envelope_id=envelope_id,
        )

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """A mail that came back, as the mail server hands it on: RFC 3464's reports of it; anything else is nothing.

        Such a report carries no signature. The return path does: only who has seen the mail on its way knows it.
        """
        if self._bounces is None:
            raise NotFoundError(
                "mails that come back are not looked at here",
                field="channel",
                mend="set bounces in the channel",
            )
        mail = dsn.returned(callback.body)
        found = [
            one for place in mail.places for proof in self._proofs for one in verp.references(place, proof)
        ]
        if not found:
            raise ForgedError
        if mail.answer is None:
            return ()
        if mail.action == "failed":
            outcome = dsn.softened(self.outcome(mail.answer, context))
            return (Report(ReportKind.FAILED, reference=found[0], outcome=outcome),)
        # Handed on, or not yet delivered: it was taken, and more is not known.
        kind = ReportKind.DELIVERED if mail.action == "delivered" else ReportKind.SENT
        return (Report(kind, reference=found[0]),)

    def unsubscribed(self, token: str) -> tuple[str, str, str] | None:
        """What a token in a link of ours says."""
        options = self.options.unsubscribe
        said = None if options is None else seal.unseal(options.secret, UNSUBSCRIBE, token)
        return None if said is None or len(said) != 3 else (said[0], said[1], said[2])

    def _unsubscribe(self, message: Message) -> str:
        """RFC 2369 section 3.2, RFC 8058 section 3.1: both lines, for the types of mail that can be unsubscribed."""
        options = self.options.unsubscribe
        if options is None or not any(fnmatchcase(message.event_type, type_) for type_ in options.types):
            return ""
        token = seal.seal(options.secret, UNSUBSCRIBE, message.tenant, message.recipient, message.event_type)
        return (
            f"List-Unsubscribe:\r\n <{options.url.replace('{token}', token)}>\r\n"
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        )


_REFERENCE = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_LINK = re.compile(r"https://[\x21\x23-\x3b\x3d\x3f-\x7e]+")


def _configured(value: str, key: str) -> str:
    try:
        return mime.mailbox(value)
    except InputError as error:
        named = "; the name beside it is from_name" if key == "from" else ""
        raise ConfigError(error.message, field=key, mend=f"{error.mend}{named}") from None


def _bounces(options: SmtpOptions, proofs: tuple[str, ...]) -> tuple[str, str] | None:
    """Local part and domain of the return path; None: there is none of its own. Raises ConfigError."""
    if not options.bounces:
        if proofs:
            raise ConfigError("it proves nothing without bounces", field="bounces_secret", mend="set bounces")
        return None
    local, _, domain = _configured(options.bounces, "bounces").rpartition("@")
    room = 64 - 1 - verp.LONGEST
    if len(local) > room or "+" in local:
        raise ConfigError(
            f"before the @ there may be {room} characters without +: the rest says which mail came back",
            field="bounces",
            mend='e.g. bounces = "bounces@example.com"',
        )
    for proof in proofs or ("",):
        _check_secret(proof, "bounces_secret")
    return local, domain


def _check_unsubscribe(options: UnsubscribeOptions | None) -> None:
    """RFC 8058 section 3.1 asks for HTTPS. Raises ConfigError."""
    if options is None:
        return
    if not _LINK.fullmatch(options.url) or options.url.count("{token}") != 1 or len(options.url) > 500:
        raise ConfigError(
            "it must be an https:// URL of visible ASCII with {token} in it",
            field="unsubscribe.url",
            mend='e.g. url = "https://shop.example/unsubscribe/{token}"',
        )
    _check_secret(options.secret, "unsubscribe.secret")


def _check_secret(secret: str, key: str) -> None:
    if len(secret) < 16:
        raise ConfigError(
            "a secret has at least 16 characters", field=key, mend="e.g. from: openssl rand -base64 24"
        )
