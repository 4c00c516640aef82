"""How long to wait before the next call: one pure function for every kind of backoff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.model.policy import DAY, SECOND, BackoffKind

if TYPE_CHECKING:
    from ringonce.model.policy import Backoff, Policy

LONGEST = 365 * DAY
"""No delay is longer, whatever the settings say, so that a due time always fits its column."""


def delay(
    policy: Policy,
    n: int,
    jitter: float,
    hint: int | None = None,
    *,
    extended: bool = False,
    floor: str | None = None,
) -> int:
    """The delay before retry ``n`` in microseconds: finite and never negative, whatever the arguments.

    Args:
        policy: The channel's settings.
        n: Number of the retry, from 1; it counts the failures of one class. Anything below 1 means the first.
        jitter: Uniform in [0, 1); what lies outside is clamped.
        hint: The provider's Retry-After in microseconds. The delay is never less, and some positive jitter comes
            on top, so that those who were told the same moment do not all return in the same second.
        extended: The answer was a rate limit: the policy's delay times ``rate_limited_factor``.
        floor: Name of the setting in ``policy.floors`` that the delay may not fall below.
    """
    unit = min(max(jitter, 0.0), 1.0)
    wait = _plain(policy.backoff, max(n, 1), unit)
    if extended:
        wait = max(wait * policy.rate_limited_factor, policy.floors.get("rate_limited", 0))
    if floor is not None:
        wait = max(wait, policy.floors.get(floor, 0))
    if hint is not None and hint > 0:
        spread = max(policy.backoff.jitter, SECOND, hint // 10)
        wait = max(wait, hint + spread * unit)
    return int(min(max(wait, 0), LONGEST))


def _plain(backoff: Backoff, n: int, unit: float) -> float:
    """The delay by the settings alone."""
    if backoff.kind is BackoffKind.EXPONENTIAL:
        try:
            grown = backoff.base * float(backoff.factor) ** (n - 1)
        except OverflowError:
            return backoff.cap
        return min(backoff.cap, _jittered(backoff, grown, unit))
    if backoff.kind is BackoffKind.FIXED:
        return _jittered(backoff, backoff.base, unit)
    delays = backoff.delays or (backoff.base,)
    if n >= len(delays):
        return delays[-1]
    # A delay of nothing means "at once", and jitter would belie it.
    return _jittered(backoff, delays[n - 1], unit) if delays[n - 1] else 0


def _jittered(backoff: Backoff, wait: float, unit: float) -> float:
    """Additive and proportional jitter; both only ever add."""
    return wait + backoff.jitter * unit + wait * backoff.jitter_ratio * unit
