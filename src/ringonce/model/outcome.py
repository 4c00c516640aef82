"""What a provider's answer means: a closed set of classes, a code each, and two orthogonal facts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ringonce.model.quick import quick


class OutcomeClass(StrEnum):
    """The nine meanings that an answer can have. Dispatch over them ends in ``assert_never``."""

    ACCEPTED = "accepted"
    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    INVALID_RECIPIENT = "invalid_recipient"
    INVALID_PAYLOAD = "invalid_payload"
    BLOCKED = "blocked"
    AUTH = "auth"
    DISABLED = "disabled"
    NOT_IMPLEMENTED = "not_implemented"


class Code(StrEnum):
    """The ``NTF_`` codes that ``last_error.code`` can hold."""

    TRANSIENT = "NTF_PROVIDER_TRANSIENT"
    RATE_LIMITED = "NTF_PROVIDER_RATE_LIMITED"
    INVALID_RECIPIENT = "NTF_PROVIDER_INVALID_RECIPIENT"
    PUSH_TOKEN_INVALID = "NTF_PUSH_TOKEN_INVALID"  # noqa: S105 - an error code, not a secret
    INVALID_PAYLOAD = "NTF_PROVIDER_INVALID_PAYLOAD"
    TEMPLATE_INVALID = "NTF_TEMPLATE_INVALID"
    BLOCKED = "NTF_PROVIDER_BLOCKED"
    AUTH = "NTF_PROVIDER_AUTH"
    CHANNEL_DISABLED = "NTF_CHANNEL_DISABLED"
    NOT_IMPLEMENTED = "NTF_PROVIDER_NOT_IMPLEMENTED"
    WORKER_CRASH = "NTF_WORKER_CRASH"


CODE_OF: dict[OutcomeClass, Code | None] = {
    OutcomeClass.ACCEPTED: None,
    OutcomeClass.TRANSIENT: Code.TRANSIENT,
    OutcomeClass.RATE_LIMITED: Code.RATE_LIMITED,
    OutcomeClass.INVALID_RECIPIENT: Code.INVALID_RECIPIENT,
    OutcomeClass.INVALID_PAYLOAD: Code.INVALID_PAYLOAD,
    OutcomeClass.BLOCKED: Code.BLOCKED,
    OutcomeClass.AUTH: Code.AUTH,
    OutcomeClass.DISABLED: Code.CHANNEL_DISABLED,
    OutcomeClass.NOT_IMPLEMENTED: Code.NOT_IMPLEMENTED,
}


@quick
@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer, classified.

    ``code`` is None for an accepted answer only. ``retry_after_s`` is in whole seconds, clamped to a day.
    ``ambiguous``: the request may have been accepted although no verdict says so. ``drop_address``: the answer
    proves that the address is dead (a proposal: the engine may hold it back). ``proof_at`` is the moment of the
    proof in microseconds when the provider tells it. ``scope`` says how far a limit or a bad credential
    reaches (``address``, ``channel``, ``endpoint`` …). ``floor`` names the setting of ``floors`` that applies.
    ``doubted``: too many addresses are called dead, so this verdict is believed by a person or not at all.
    ``refresh``: the credential may only have expired, so it is fetched anew and the call tried once more before
    this counts as a refusal.
    ``rule`` and ``source`` say why this class was chosen.
    """

    cls: OutcomeClass
    code: Code | None = None
    provider_code: str | None = None
    message_id: str | None = None
    retry_after_s: int | None = None
    drop_address: bool = False
    proof_at: int | None = None
    ambiguous: bool = False
    scope: str | None = None
    re_address: str | None = None
    floor: str | None = None
    refresh: bool = False
    doubted: bool = False
    text: str = ""
    rule: str = ""
    source: str = ""
