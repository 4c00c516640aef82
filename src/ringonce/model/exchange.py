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


Request = HttpRequest | MailRequest | ScriptedRequest


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


Answer = HttpAnswer | MailAnswer | ScriptedAnswer | NoAnswer
