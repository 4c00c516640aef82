"""What can happen to a notification (events) and what follows from it (effects)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringonce.model.quick import quick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.looking import Finding, Look
    from ringonce.model.notification import State
    from ringonce.model.outcome import Outcome


@quick
@dataclass(frozen=True, slots=True)
class Enqueued:
    """The notification is created: due at ``due_at``, or kept from being sent by the rule ``suppressed_by``.

    ``invalid``: why it has no text (its template failed); it has failed for good before it began.
    ``stored``: writing it down is all that its channel does, so it is sent as soon as it is due.
    ``drafted_by``: who wrote it, as a draft that waits for approval.
    """

    due_at: int
    suppressed_by: str | None = None
    expires_at: int | None = None
    cancelled: bool = False
    invalid: str | None = None
    stored: bool = False
    drafted_by: str | None = None


@dataclass(frozen=True, slots=True)
class Approved:
    """The draft may be sent: a person said so, or (``auto``) its mode. ``version``: that of the text that was seen."""

    by: str
    version: int | None = None
    auto: bool = False


@dataclass(frozen=True, slots=True)
class Regenerated:
    """The draft's text was written anew. ``version``: that of the text that it replaces, if the writer knows it.

    ``barred``: why an answer that is published can not be replaced; empty: it can, until ``until`` (microseconds).
    """

    by: str
    version: int | None = None
    barred: str = ""
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A person decided against the draft."""

    by: str
    reason: str = ""
    version: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Answered:
    """The attempt ``attempt``, begun under a lease that we still hold, came to ``outcome``.

    ``begun`` False: no call was made (an address found dead before the mark, a refused render), so it counts
    nothing against any budget. ``excused``: the provider was down as a whole, as a probe of it or a circuit that
    has just opened tells; a transient failure then speaks of the provider, and burns nothing of the notification.
    ``elsewhere``: another provider of the channel can be asked at once.
    """

    attempt: int
    outcome: Outcome
    begun: bool = True
    excused: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """The answer to an attempt whose lease was lost meanwhile."""

    attempt: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The worker that had begun ``attempt`` is gone; no verdict will come from it in time."""

    attempt: int
    crashed_too_often: bool = False


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The provider was asked at ``at`` whether ``attempt`` had arrived. ``before``: the looks of before, in order.

    An Outcome as ``answer``: it could not be asked, or refused to tell.
    """

    attempt: int
    answer: Finding | Outcome
    at: int
    before: tuple[Look, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The provider reports on ``attempt``: ``sent``, ``delivered``, ``read`` or ``failed``.

    ``outcome``: what a failure means; of the others, an accepted one with the provider's message id. ``at``: the
    vendor's time, microseconds UTC. ``confirmed``: it was reported before that this attempt arrived.
    """

    attempt: int
    kind: str
    outcome: Outcome | None = None
    at: int | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """The person read it."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its subject was withdrawn, a newer one of its collapse key came, or a person stopped it."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Expire:
    """``expires_at`` or the channel's ``max_age`` has passed."""

    reason: str = "expires_at"


class Verdict(StrEnum):
    """What a person (or the end of ``hold_for``) says about a doubt."""

    SENT = "sent"
    NOT_SENT = "not_sent"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Resolve:
    """A doubt is decided, by a person or by the end of ``hold_for`` (``by`` is then ``hold_for``)."""

    verdict: Verdict
    by: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A person wants it sent again. ``force`` also from sent (not a ``reply``), and over attempts without a verdict."""

    by: str
    force: bool = False
    reply: bool = False


@dataclass(frozen=True, slots=True)
class Discard:
    """A person has looked at a failure and lets it be: it is not offered to be sent again.

    ``draft``: it is one, and is rejected by this; whoever follows drafts is told.
    """

    by: str
    reason: str = ""
    draft: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """It was folded into a digest."""

    digest_id: str


TransitionEvent = (
    Enqueued
    | Approved
    | Regenerated
    | Rejected
    | Answered
    | LateAnswer
    | LeaseLost
    | LookedUp
    | Receipt
    | Read
    | Cancel
    | Expire
    | Resolve
    | Retry
    | Discard
    | Fold
)


@dataclass(frozen=True, slots=True)
class Send:
    """Send at ``due_at``. ``armed`` False: the holder of the retry lease must release it first."""

    due_at: int
    armed: bool


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask the provider at ``due_at`` what became of the attempt."""

    due_at: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Nothing to send; look again at ``due_at`` (None: only a person or a receipt decides)."""

    due_at: int | None


@dataclass(frozen=True, slots=True)
class Emit:
    """Publish an event of ours. ``data`` are the facts; the engine adds the notification's own."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Invalidate:
    """The answer proves that the address is dead.

    ``proof_at`` None: when the call began. ``replace_with``: its new form. ``doubted``: it is set apart, not dropped.
    """

    reason: str
    proof_at: int | None = None
    replace_with: str | None = None
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """A scope must stop: until ``until``, or until somebody resumes it (None)."""

    scope: str
    reason: str
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """A person must look."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Audit:
    """It failed for good: where failures of its type are audited, a row tells of it."""


Effect = Send | Lookup | WakeAt | Emit | Invalidate | Pause | Alert | Audit


@dataclass(frozen=True, slots=True)
class Note:
    """One entry of the timeline, for what no other row tells."""

    kind: str
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event changes nothing, e.g. ``too_late`` or ``already_final``."""

    code: str
    text: str


@quick
@dataclass(frozen=True, slots=True)
class Step:
    """What the table says. ``refused`` set: ``state`` is the old one, nothing else follows.

    At most one of Send, Lookup, WakeAt is among the effects. With none of them a final state has no more due
    work, and one that is not final keeps the due work that it has.
    """

    state: State
    effects: tuple[Effect, ...] = ()
    notes: tuple[Note, ...] = ()
    refused: Refusal | None = None
