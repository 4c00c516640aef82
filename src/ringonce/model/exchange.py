"""Requests that the wire carries and what came of them: answered, not sent, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ringonce.model.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP call. ``guarded``: the endpoint comes from a user, so private addresses are refused by the wire.

    URL, headers and body may hold tokens and personal data: they never show in the object's own text.

    ``connection``: requests with different labels never share a connection (a vendor that wants one for each of its
    customers); each label has connections of its own for as long as the wire is open, so there are few of them.

    Times are seconds. ``max_answer`` is in bytes: more is cut off and the answer marked ``truncated``.
    """

    method: str
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    timeout: float = 15.0
    connect_timeout: float = 5.0
    guarded: bool = False
    http2: bool = False
    max_answer: int = 65_536
    connection: str = ""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed in. ``tls`` is ``none``, ``starttls`` (required), ``auto`` (if offered) or ``implicit``."""

    host: str
    port: int = 587
    tls: str = "auto"
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


@quick
@dataclass(frozen=True, slots=True)
class MailRequest:
    """One envelope with one recipient. ``final_timeout``: seconds to wait for the reply after the last dot.

    ``envelope_id``: where the server can report on deliveries (RFC 3461), its reports carry it.
    """

    server: MailServer
    sender: str
    recipient: str = field(repr=False)
    message: bytes = field(repr=False)
    timeout: float = 30.0
    connect_timeout: float = 10.0
    final_timeout: float = 600.0
    envelope_id: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """A call to the ``sandbox``: nothing leaves the process, ``step`` says what to answer."""

    reference: str
    step: str
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class SmsCenter:
    """Where short messages are handed in, and as whom (SMPP 3.4). What is equal shares its sessions.

    ``sessions``: connections kept open at a time; ``window``: messages without an answer on each. ``enquire_link``:
    seconds of silence after which the other side is asked whether it is there.
    """

    host: str
    port: int = 2775
    tls: bool = False
    system_id: str = ""
    password: str = field(default="", repr=False)
    system_type: str = ""
    sessions: int = 1
    window: int = 10
    enquire_link: float = 30.0


@quick
@dataclass(frozen=True, slots=True)
class SmsRequest:
    """One short message, or one that comes in parts: they are handed in one after the other, each at most once.

    ``source`` and ``destination`` are (type of number, numbering plan, digits or name), SMPP 3.4 sections 5.2.5 to
    5.2.9. ``parts``: the octets of each, with their header; ``payload``: the only one goes into the optional parameter
    message_payload. ``validity``: section 7.1.1, empty: the center's. ``report``: a report is asked for, of the last
    part. ``reference``: ours, where the center takes optional parameters. Times are seconds.
    """

    center: SmsCenter
    source: tuple[int, int, str]
    destination: tuple[int, int, str] = field(repr=False)
    parts: tuple[bytes, ...] = field(repr=False)
    data_coding: int = 0
    esm_class: int = 0
    payload: bool = False
    report: bool = False
    service_type: str = ""
    validity: str = ""
    reference: int = 0
    timeout: float = 15.0


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call by name: ``name(*args, **kwargs)``. The arguments may be secret."""

    name: str
    args: tuple[object, ...] = field(default=(), repr=False)
    kwargs: tuple[tuple[str, object], ...] = field(default=(), repr=False)


@quick
@dataclass(frozen=True, slots=True)
class LibraryRequest:
    """A call of an installed library that does its own I/O, in a thread.

    ``make`` names what builds an object, as ``module:name``; it sends nothing. ``call`` is the object's method that
    may ring. ``timeout``: seconds until its answer is no longer waited for; the library itself can not be stopped.
    ``loggers``: those that it writes to. What it says there during the call goes into the answer and nowhere else.
    """

    make: LibraryCall
    call: LibraryCall
    timeout: float = 15.0
    loggers: tuple[str, ...] = ()


Request = HttpRequest | MailRequest | ScriptedRequest | SmsRequest | LibraryRequest


class Fault(StrEnum):
    """What broke. The names are those of the conformance cases' field ``event``."""

    DNS_NXDOMAIN = "dns_nxdomain"
    DNS_TIMEOUT = "dns_timeout"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    TLS_CERT_INVALID = "tls_cert_invalid"
    REFUSED_STREAM = "refused_stream"
    GOAWAY = "goaway"
    WRITE_RESET = "write_reset"
    READ_TIMEOUT = "read_timeout"
    RESET_BEFORE_STATUS = "reset_before_status"
    RESET_AFTER_REPLY = "reset_after_reply"
    TRUNCATED_BODY_AFTER_2XX = "truncated_body_after_2xx"
    ADDRESS_REFUSED = "address_refused"
    NOT_STARTED = "not_started"


@quick
@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete HTTP answer. Header names are lower case. ``truncated``: the body was cut or broke off."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    truncated: bool = False


@quick
@dataclass(frozen=True, slots=True)
class MailAnswer:
    """The SMTP reply that decided. ``stage`` is CONNECT, EHLO, AUTH, MAIL, RCPT, DATA_BODY, DATA_END or QUIT."""

    code: int
    text: str = ""
    enhanced: str | None = None
    stage: str = "DATA_END"


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """What the sandbox's script said, e.g. ``ok``, ``transient``, ``rate_limited:30``."""

    step: str
    reference: str


@quick
@dataclass(frozen=True, slots=True)
class SmsAnswer:
    """The response that decided (SMPP 3.4 section 5.1.3), or the text of a delivery report.

    ``command``: ``submit_sm_resp``, ``bind_transceiver_resp``, ``generic_nack``, or ``deliver_sm`` for a report.
    ``accepted``: parts that were taken before this answer, and with it. ``text``: for a report.
    """

    status: int
    command: str = "submit_sm_resp"
    message_id: str = ""
    accepted: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class SmsDelivered:
    """What a center delivered by itself (SMPP 3.4 section 4.6): a report, or a message of a person.

    ``esm_class``: which of them (section 5.2.12). ``receipted_id`` and ``state`` are those of the optional parameters
    receipted_message_id and message_state; empty and None: it has none.
    """

    text: str = field(repr=False)
    esm_class: int = 0
    receipted_id: str = ""
    state: int | None = None


@dataclass(frozen=True, slots=True)
class LibraryAnswer:
    """What a library returned. ``made`` False: nothing could be built of the arguments, so nothing was called.

    ``text``: its last word on the matter, without what the arguments of ``make`` hold.
    """

    made: bool
    value: bool | None = None
    text: str = ""


@quick
@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The exchange broke. ``sent`` False: certainly nothing reached the provider. True: unknown, it may have.

    ``stage`` is the SMTP stage where it broke, for mail only. ``detail`` is for people and holds no secret.
    """

    fault: Fault
    sent: bool
    detail: str = ""
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a provider was granted to authorise its calls with, for a while.

    ``expires_at``: microseconds UTC; None: it is good until it is refused.
    """

    value: str = field(repr=False)
    expires_at: int | None = None


Answer = HttpAnswer | MailAnswer | ScriptedAnswer | SmsAnswer | LibraryAnswer | NoAnswer
