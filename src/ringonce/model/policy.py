"""How a channel retries, what it does about doubt, and its limits. Times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE


class InDoubt(StrEnum):
    """What to do about an attempt that began and got no verdict."""

    RESEND = "resend"
    ASSUME_SENT = "assume_sent"
    HOLD = "hold"
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True)
class Edits:
    """How often, and for how long (microseconds, None: always), a provider changes what it has published."""

    times: int
    within: int | None = None


class OnAuth(StrEnum):
    """What a refused credential does to the notification: wait for a good one, or fail."""

    WAIT = "wait"
    FAIL = "fail"


class BackoffKind(StrEnum):
    """How delays grow."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Backoff:
    """``base``, ``cap``, ``delays``, ``jitter`` in microseconds; ``jitter_ratio`` is a share of the delay (0..1).

    Additive jitter is ``jitter * u``, proportional is ``delay * jitter_ratio * u``, with u in [0, 1).
    """

    kind: BackoffKind = BackoffKind.EXPONENTIAL
    base: int = 5 * SECOND
    factor: float = 2.0
    cap: int = 30 * MINUTE
    delays: tuple[int, ...] = ()
    jitter: int = SECOND
    jitter_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Budgets:
    """Retries (not calls) allowed after failures of a class; ``unknown`` None means the transient budget."""

    transient: int = 3
    rate_limited: int = 5
    unknown: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that ``core.machine.step`` needs to know about a channel."""

    max_attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)
    budgets: Budgets = field(default_factory=Budgets)
    in_doubt: InDoubt = InDoubt.ASSUME_SENT
    hold_for: int | None = None
    on_auth: OnAuth = OnAuth.WAIT
    rate_limited_factor: float = 4.0
    floors: Mapping[str, int] = field(default_factory=lambda: {"greylist": 300 * SECOND, "rate_limited": 0})
    max_age: int | None = 7 * DAY


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` calls per ``period`` (microseconds) over time, and ``burst`` at once after a pause."""

    count: int
    period: int
    burst: int


@dataclass(frozen=True, slots=True)
class Circuit:
    """It opens when ``share`` (0..1) of at least ``calls`` answers within ``window`` failed.

    It stays open for ``open``, twice as long after each probe that failed, at most for ``cap`` (microseconds).
    """

    calls: int = 20
    window: int = 30 * SECOND
    share: float = 0.8
    open: int = 10 * SECOND
    cap: int = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class MassInvalidation:
    """When verdicts against addresses are doubted: more than ``share`` of the answers that speak of good addresses.

    It looks at the last ``proposals`` within ``within`` (microseconds); fewer are believed.
    """

    proposals: int = 20
    within: int = 10 * MINUTE
    share: float = 0.3


@dataclass(frozen=True, slots=True)
class Share:
    """What a tenant with a lane of its own gets: a weight among the lanes of the channel, and limits of its own."""

    weight: int = 1
    rate: Rate | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """A configured way out. ``account`` names the credential set; ``settings`` are the provider's own options.

    ``mark`` False: also a call that waits for a free slot counts as begun, so a crash leaves more doubts.
    ``rate`` holds for the whole channel over all workers, ``concurrency`` per worker; ``circuit`` None: it is off.
    ``shares``: the tenants that have a lane of their own. ``mass_invalidation`` None: every verdict is believed.
    ``ways``: the other providers, in their order, each as a channel of its own; of one of these ``way_of`` is the
    channel that it belongs to.
    """

    name: str
    provider: str
    enabled: bool = True
    policy: Policy = field(default_factory=Policy)
    timeout: int = 15 * SECOND
    lease: int = 15 * SECOND
    concurrency: int = 20
    mark: bool = True
    account: str = ""
    rate: Rate | None = None
    circuit: Circuit | None = field(default_factory=Circuit)
    mass_invalidation: MassInvalidation | None = field(default_factory=MassInvalidation)
    shares: Mapping[str, Share] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    ways: tuple[Channel, ...] = ()
    way_of: str = ""
