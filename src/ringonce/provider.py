"""The provider SPI: all that a plugin author imports.

A provider is one file without I/O. It builds a request from a message and says what an answer means. HTTP,
SMTP, pooling, timeouts, redaction, size caps and the guard against private addresses are written once, in
``ringonce.wire``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ringonce.core.classify import Rule, classify
from ringonce.errors import ConfigError, InputError
from ringonce.model.exchange import (
    Answer,
    Fault,
    HttpAnswer,
    HttpRequest,
    MailAnswer,
    MailRequest,
    MailServer,
    NoAnswer,
    Request,
    ScriptedAnswer,
    ScriptedRequest,
)
from ringonce.model.notification import Address, Content, Message
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.policy import InDoubt

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Address",
    "Answer",
    "Code",
    "ConfigError",
    "Content",
    "Context",
    "Fault",
    "Features",
    "HttpAnswer",
    "HttpRequest",
    "InDoubt",
    "InputError",
    "MailAnswer",
    "MailRequest",
    "MailServer",
    "Message",
    "NoAnswer",
    "Outcome",
    "OutcomeClass",
    "Provider",
    "Request",
    "Rule",
    "ScriptedAnswer",
    "ScriptedRequest",
    "classify",
]


@dataclass(frozen=True, slots=True)
class Features:
    """What a provider can carry; anything else is refused at acceptance.

    ``max_text`` counts ``unit`` (``chars``, ``bytes`` or ``utf16``); None: no limit. ``max_bytes`` is the limit
    of the whole request body.
    """

    title: bool = True
    text: bool = True
    html: bool = False
    data: bool = False
    max_text: int | None = None
    unit: str = "chars"
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a provider may know besides the message. ``now``: microseconds UTC. ``timeout``: seconds."""

    now: int
    timeout: float = 15.0
    registered_at: int | None = None


class Provider:
    """Base class of all providers; override what differs from the defaults.

    ``Options`` is a frozen dataclass; its fields are the provider's keys in ``[channels.NAME]``. Their values
    come as plain TOML values with secrets already resolved; the constructor checks them and raises ConfigError.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    answers_as: ClassVar[tuple[str, ...]] = ()
    """Further names under which ``classify`` knows this provider's answers."""
    features: ClassVar[Features] = Features()
    in_doubt: ClassVar[InDoubt] = InDoubt.ASSUME_SENT
    second_send: ClassVar[str] = "shown again"
    """What the receiver makes of a second send under the same client reference."""
    unknown_budget: ClassVar[int | None] = None
    push: ClassVar[bool] = False
    rules: ClassVar[tuple[Rule, ...]] = ()
    Options: ClassVar[type[Any]]

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - each provider has its own Options
        """Keep the options."""
        self.options = options

    @property
    def account(self) -> str:
        """Which credentials these are, as a name without the secret: limits and pauses count per account."""
        return self.name

    def address(self, value: object) -> str:
        """Check an address and bring it to its canonical text. Raises InputError with the mend."""
        if not isinstance(value, str) or not value.strip():
            raise InputError("an address is a non-empty text", field="address")
        return value.strip()

    def check(self, content: Content) -> None:
        """Refuse at acceptance what this provider can not carry. Raises InputError naming the field."""

    def request(self, message: Message, address: Address, context: Context) -> Request:
        """Build the one call. Raises InputError when the content can not be sent (becomes invalid_payload)."""
        raise TypeError(f"provider {self.name} builds no request")

    def outcome(self, answer: Answer, context: Context) -> Outcome:
        """What the answer means: the provider's rules first, then the defaults of the status family."""
        return classify(answer, self.rules, push=self.push, now=context.now)


def required(options: Mapping[str, object], key: str, provider: str) -> str:
    """A text option that must be there. Raises ConfigError naming it."""
    value = options.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"provider {provider} needs {key}", field=key, mend=f'set {key} = "…" in the channel'
        )
    return value
