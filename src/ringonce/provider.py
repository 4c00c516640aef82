"""The provider SPI: all that a plugin author imports.

A provider is one file without I/O. It builds a request from a message and says what an answer means. HTTP,
SMTP, pooling, timeouts, redaction, size caps and the guard against private addresses are written once, in
``ringonce.wire``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ringonce.core import callbacks, dkim, dsn, mime, seal, verp
from ringonce.core.base64url import base64url, from_base64url
from ringonce.core.classify import JSON_API, Rule, classify
from ringonce.core.compact import json_bytes
from ringonce.core.country import country
from ringonce.core.es256 import es256, es256_key
from ringonce.core.mail_server import mail_server
from ringonce.core.signature import ed25519, fresh, hmac_hex, hmac_sha1_base64, hs256, plain, prove, several
from ringonce.core.sms import phone, segments, sms_text, user_data
from ringonce.core.spelling import (
    JSON_HEADERS,
    digest,
    endpoint_key,
    fits,
    json_call,
    secret_text,
    together,
)
from ringonce.core.text import cut, length
from ringonce.core.url import http_url
from ringonce.errors import ConfigError, ForgedError, InputError, NotFoundError, PayloadTooLarge
from ringonce.model.exchange import (
    Answer,
    Credential,
    Fault,
    HttpAnswer,
    HttpRequest,
    LibraryAnswer,
    LibraryCall,
    LibraryRequest,
    MailAnswer,
    MailRequest,
    MailServer,
    NoAnswer,
    Request,
    ScriptedAnswer,
    ScriptedRequest,
    SmsAnswer,
    SmsCenter,
    SmsDelivered,
    SmsRequest,
)
from ringonce.model.looking import Finding, Presence
from ringonce.model.notification import Address, Content, Message
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import DAY, Edits, InDoubt
from ringonce.model.quick import quick
from ringonce.model.receipt import Callback, Report, ReportKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "DAY",
    "JSON_API",
    "JSON_HEADERS",
    "Address",
    "Answer",
    "Callback",
    "Code",
    "ConfigError",
    "Content",
    "Context",
    "Credential",
    "Edits",
    "Fault",
    "Features",
    "Finding",
    "ForgedError",
    "HttpAnswer",
    "HttpRequest",
    "InDoubt",
    "InputError",
    "LibraryAnswer",
    "LibraryCall",
    "LibraryRequest",
    "MailAnswer",
    "MailRequest",
    "MailServer",
    "Message",
    "NoAnswer",
    "NotFoundError",
    "Outcome",
    "OutcomeClass",
    "PayloadTooLarge",
    "Presence",
    "Provider",
    "Report",
    "ReportKind",
    "Request",
    "Rule",
    "ScriptedAnswer",
    "ScriptedRequest",
    "SmsAnswer",
    "SmsCenter",
    "SmsDelivered",
    "SmsRequest",
    "base64url",
    "callbacks",
    "classify",
    "country",
    "cut",
    "digest",
    "dkim",
    "dsn",
    "ed25519",
    "es256",
    "es256_key",
    "fits",
    "fresh",
    "from_base64url",
    "hmac_hex",
    "hmac_sha1_base64",
    "hs256",
    "http_url",
    "json_bytes",
    "json_call",
    "length",
    "mail_server",
    "mime",
    "phone",
    "plain",
    "prove",
    "seal",
    "secret_text",
    "segments",
    "several",
    "sms_text",
    "together",
    "user_data",
    "verp",
]


@dataclass(frozen=True, slots=True)
class Features:
    """What a provider can carry; anything else is refused at acceptance.

    ``max_text`` counts ``unit`` (see ``length``); None: no limit. ``max_bytes`` is the limit
    of the whole request body.
    """

    title: bool = True
    text: bool = True
    html: bool = False
    data: bool = False
    max_text: int | None = None
    unit: str = "chars"
    max_bytes: int | None = None


def _no_entropy(count: int) -> bytes:
    """Zeros would be worse than an error: keys are made of it."""
    raise TypeError(f"this context has no entropy, and {count} bytes were asked for")


@quick
@dataclass(frozen=True, slots=True)
class Context:
    """What a provider may know besides the message. ``now``: microseconds UTC. ``timeout``: seconds.

    ``credential``: what ``granted`` returned, for a provider that needs a grant. ``entropy(count)`` gives random
    bytes that are fit for keys.
    """

    now: int
    timeout: float = 15.0
    registered_at: int | None = None
    credential: str | None = field(default=None, repr=False)
    entropy: Callable[[int], bytes] = _no_entropy


class Provider:
    """Base class of all providers; override what differs from the defaults.

    ``Options`` is a frozen dataclass; its fields are the provider's keys in ``[channels.NAME]`` (a trailing
    underscore is left out: ``from_`` is the key ``from``), a field without default must be set. Their values
    come as plain TOML values with secrets already resolved and of the annotated types; the constructor checks
    them and raises ConfigError. Mark a secret ``field(repr=False)``. A text that may also be given as the path of
    a file is marked ``field(metadata={"file": True})``: the constructor gets the file's text.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    answers_as: ClassVar[tuple[str, ...]] = ()
    """Further names under which ``classify`` knows this provider's answers."""
    features: ClassVar[Features] = Features()
    in_doubt: ClassVar[InDoubt] = InDoubt.ASSUME_SENT
    hold_for: ClassVar[int | None] = None
    """With ``InDoubt.HOLD``: microseconds after which it counts as sent; None: a person or a receipt decides."""
    second_send: ClassVar[str] = "shown again"
    """What the receiver makes of a second send under the same client reference."""
    looks_up: ClassVar[bool] = False
    """It can be asked what became of a call: ``lookup`` and ``looked`` are written, so ``in_doubt`` may be lookup."""
    unknown_budget: ClassVar[int | None] = None
    edits: ClassVar[Edits | None] = None
    """How often what is published can be replaced: ``Message.replaces`` asks for it. None: never."""
    push: ClassVar[bool] = False
    stored: ClassVar[bool] = False
    """Writing it down is all: no call is made, and no address is needed, for the recipient is it."""
    endpoints: ClassVar[bool] = False
    """Its addresses are endpoints of users: what one of them refuses says nothing of the others."""
    reaches: ClassVar[str] = ""
    """What its addresses are, where other providers take the very same ones: ``phone``. Empty: its own."""
    transport: ClassVar[str] = "http"
    """What its answers are: ``http``, ``smtp``, ``smpp``, ``library`` or ``script``."""
    needs: ClassVar[str] = ""
    """The module that carries its requests, where that is optional; the extra is called like the provider."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    receipts_by: ClassVar[str] = ""
    """What its reports name: ``reference`` (ours), ``message_id`` (its own), ``address``, or ``nothing``, where
    callbacks are only proved and answered; empty: there are none."""
    receipts_status: ClassVar[int] = 200
    """The HTTP status with which it wants callbacks to be answered."""
    Options: ClassVar[type[Any]]

    def __init__(self, options: Any) -> None:
        """Keep the options."""
        self.options = options

    @property
    def form(self) -> str:
        """What kind of address it takes; providers of one channel must take the same."""
        return self.reaches or self.name

    @property
    def account(self) -> str:
        """Which credentials these are, as a name without the secret: limits and pauses count per account."""
        return self.name

    def address(self, value: object) -> str:
        """Check an address and bring it to its canonical text. Raises InputError with the mend."""
        if not isinstance(value, str) or not value.strip():
            raise InputError("an address is a non-empty text", field="address")
        return value.strip()

    def identity(self, value: str) -> str:
        """What makes a canonical address the same one: registered again with another value, it is replaced.

        E.g. the endpoint of a subscription, whose keys may change.
        """
        return value

    def unsubscribed(self, token: str) -> tuple[str, str, str] | None:
        """Tenant, recipient and event type of the message in which this token was; None: it is none of ours."""
        return None

    def stops_others(self, event_type: str) -> bool:
        """Reading what it stored stops what is not yet begun on other channels, where the event says nothing."""
        return False

    def check(self, content: Content) -> None:
        """Refuse at acceptance what this provider can not carry. Raises InputError naming the field.

        HTML beside a text is another form of the same message, so a provider without HTML sends the text. HTML
        alone, data, a title or a text that it can not carry are refused: nothing is left out silently.
        """
        features = self.features
        for name in ("title", "text", "html"):
            value = getattr(content, name)
            if value and (trouble := _unfit(value)):
                raise InputError(f"it holds {trouble}", field=f"content.{name}", mend="remove it")
        if content.title and not features.title:
            raise self._refused("title", "put it into the text")
        if content.text and not features.text:
            raise self._refused("text", "leave it out")
        if content.html and not features.html and not content.text:
            raise self._refused("html", "give a content.text as well")
        if content.data and not features.data:
            raise self._refused("data", "leave it out, or send it to a channel that carries data")
        if not (content.title or content.text or content.html or (content.data and features.data)):
            raise InputError("there is nothing to say", field="content", mend="give a content.text")
        if features.max_text is not None and content.text:
            size = length(content.text, features.unit)
            if size > features.max_text:
                raise PayloadTooLarge(
                    f"{size} {features.unit}, and {self.name} carries {features.max_text}",
                    field="content.text",
                    mend="shorten it",
                )

    def _refused(self, field: str, mend: str) -> InputError:
        return InputError(f"{self.name} carries no {field}", field=f"content.{field}", mend=mend)

    def grant(self, context: Context) -> Request | None:
        """Build the call that fetches a credential; None: this provider needs none.

        It is made before any attempt begins, and its answer is kept for all channels of the same ``account``.
        """
        return None

    def granted(self, answer: Answer, context: Context) -> Credential | Outcome:
        """The credential that the answer to ``grant`` brings, or why it brings none.

        A transient or rate-limited outcome is tried again; anything else is a refusal and pauses the channel.
        """
        raise TypeError(f"provider {self.name} asks for no grant")

    def request(self, message: Message, address: Address, context: Context) -> Request:
        """Build the one call. Raises InputError when the content can not be sent (becomes invalid_payload)."""
        raise TypeError(f"provider {self.name} builds no request")

    def scope_key(self, scope: str, content: Content, address: Address) -> str | None:
        """Which part of the provider a message belongs to, for a rule whose ``scope`` is that kind of part.

        ``scope`` is ``template``, ``country``, ``endpoint`` or ``platform``. What such a rule refuses pauses the
        messages with this key, and no others. The key is shown to people, so it holds no secret and no whole
        address. ``''``: all of the channel's messages belong to one part. None: nobody knows beforehand; then what was
        refused waits together (a refused endpoint: by itself), and others learn it by a call of their own.
        """
        known = scope == "endpoint" and self.endpoints
        return endpoint_key(self.identity(address.value)) if known else None

    def lookup(self, message: Message, address: Address, context: Context) -> Request:
        """Build the call that asks what became of ``message``. It changes nothing, and may be made again.

        ``message`` is that of the call without a verdict: its ``reference``, ``revision`` and ``attempt``.
        """
        raise TypeError(f"provider {self.name} can not be asked what became of a call")

    @classmethod
    def looked(cls, answer: Answer, message: Message, context: Context) -> Finding | Outcome:
        """What the answer to ``lookup`` means: a Finding, or the Outcome of a call that failed.

        A transient, rate-limited or auth outcome is asked again later; any other means that the provider does not
        tell. ``absent`` once is no proof: it counts when several looks over minutes have said so.
        """
        raise TypeError(f"provider {cls.name} can not be asked what became of a call")

    @classmethod
    def outcome(cls, answer: Answer, context: Context) -> Outcome:
        """What the answer means: the provider's rules first, then the defaults of the status family.

        A method of the class, because an answer can be understood without options and credentials.
        """
        return classify(answer, cls.rules, push=cls.push, now=context.now)

    def receipts(self, callback: Callback, context: Context) -> Sequence[Report]:
        """What a callback of the vendor reports; nothing, when it is about something else. See ``model.receipt``.

        Raises:
            ForgedError: its signature is missing, wrong or too old. That is looked at before anything else.
            InputError: it was signed, and can not be read all the same.
            NotFoundError: this provider takes no callbacks, or lacks the secret that would prove them.
        """
        raise NotFoundError(f"provider {self.name} takes no receipts", field="channel")

    def handshake(self, callback: Callback, context: Context) -> str | None:
        """What a vendor wants to hear that asks whether the URL is ours; None: it asks nothing. Raises ForgedError."""
        return None

    def hears(self) -> SmsCenter | None:
        """Where reports come from over a connection of ours, which is then kept; None: they come by callbacks."""
        return None

    def heard(self, delivered: SmsDelivered, context: Context) -> Sequence[Report]:
        """What something that came over such a connection reports; nothing, when it is about something else."""
        return ()


def _unfit(text: str) -> str:
    """What no database and no wire format can hold, if anything."""
    if "\0" in text:
        return "the character U+0000"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair, which is no character"
    return ""
