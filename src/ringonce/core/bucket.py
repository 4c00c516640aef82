"""A token bucket as one number: when it will be full again.

One integer is the whole state, so that it fits a column, and nothing has to run while nobody looks. It is the
generic cell rate algorithm (ITU-T I.371, annex A; "theoretical arrival time") with the roles of time and tokens
swapped back: ``full_at`` is now when all of ``burst`` is there, and lies one token's time later for each that is
missing. Rounding goes against the sender, by less than a microsecond for each block taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringonce.model.policy import Rate


def tokens(rate: Rate, full_at: int, now: int) -> int:
    """How many tokens are there at ``now`` (microseconds), 0 … ``burst``."""
    missing = -(-_debt(rate, full_at, now) * rate.count // rate.period)
    return max(0, rate.burst - missing)


def taken(rate: Rate, full_at: int, now: int, count: int) -> int:
    """``full_at`` after ``count`` tokens were taken."""
    return now + _debt(rate, full_at, now) - (-count * rate.period // rate.count)


def wait(rate: Rate, full_at: int, now: int, count: int = 1) -> int:
    """Microseconds until ``count`` tokens (at most ``burst``) are there; 0: they are."""
    there = (rate.burst - min(count, rate.burst)) * rate.period // rate.count
    return max(0, _debt(rate, full_at, now) - there)


def _debt(rate: Rate, full_at: int, now: int) -> int:
    """The time that is missing to a full bucket: never more than it holds, whatever a clock or an old rate said."""
    return min(max(0, full_at - now), -(-rate.burst * rate.period // rate.count))
