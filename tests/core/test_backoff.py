"""How long to wait: finite, growing as told, never less than what the provider asked for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.backoff import LONGEST, delay
from ringonce.model.policy import Backoff, BackoffKind, Policy

S = 1_000_000
MINUTE = 60 * S


def policy(**facts: object) -> Policy:
    """A policy with this backoff and no jitter unless told."""
    floors = facts.pop("floors", {"greylist": 300 * S, "rate_limited": 0})
    factor = facts.pop("rate_limited_factor", 4.0)
    backoff = Backoff(**{"jitter": 0, **facts})  # type: ignore[arg-type]
    return Policy(backoff=backoff, floors=floors, rate_limited_factor=factor)  # type: ignore[arg-type]


def test_exponential() -> None:
    """Base times factor to the power n - 1, up to the cap."""
    delays = [delay(policy(base=5 * S, cap=60 * S), n, 0.0) for n in range(1, 7)]
    assert delays == [5 * S, 10 * S, 20 * S, 40 * S, 60 * S, 60 * S]


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_b02_formula(n: int, u: float) -> None:
    """B02: Delay(n) = min(max_delay, base * 2^n + rand(0, 1000 ms)), n from 0; the cap comes after the jitter."""
    ours = delay(policy(base=2 * S, cap=30 * MINUTE, jitter=1 * S), n + 1, u)
    assert ours == int(min(30 * MINUTE, 2 * S * 2**n + u * S))


def test_b02_schedule() -> None:
    """B02: at once, 5 s + jitter, 30 s + jitter, 5 min; the last delay has no jitter, and repeats."""
    literal = policy(kind=BackoffKind.SCHEDULE, delays=(0, 5 * S, 30 * S, 5 * MINUTE), jitter=1 * S)
    assert [delay(literal, n, 0.5) for n in range(1, 7)] == [
        0,
        5_500_000,
        30_500_000,
        5 * MINUTE,
        5 * MINUTE,
        5 * MINUTE,
    ]


def test_fixed() -> None:
    """Always the base, plus jitter; the cap is for what grows."""
    fixed = policy(kind=BackoffKind.FIXED, base=3600 * S, cap=60 * S, jitter=2 * S)
    assert [delay(fixed, n, 0.5) for n in (1, 2, 99)] == [3601 * S] * 3


def test_schedule_without_delays_uses_the_base() -> None:
    """An empty schedule is no hot loop."""
    assert delay(policy(kind=BackoffKind.SCHEDULE, base=7 * S), 3, 0.0) == 7 * S


def test_proportional_jitter() -> None:
    """A share of the delay is added, never taken away."""
    assert delay(policy(base=10 * S, jitter_ratio=0.2), 1, 0.5) == 11 * S


@pytest.mark.parametrize("n", [-1, 0, 1, 46, 47, 63, 64, 1023, 1024, 1025, 10**6, 2**31, 2**31 - 1])
@pytest.mark.parametrize("kind", list(BackoffKind))
@pytest.mark.parametrize("factor", [2.0, 10.0, 1.0, 0.5, 1e300, math.inf])
def test_back_01_always_finite(n: int, kind: BackoffKind, factor: float) -> None:
    """Whatever the number of the retry, the delay is finite and not negative; below 1 it is the first."""
    one = policy(kind=kind, factor=factor, cap=30 * MINUTE, delays=(S, 2 * S))
    assert 0 <= delay(one, n, 0.99) <= 30 * MINUTE
    assert delay(one, n, 0.99, 86_400 * S, extended=True) <= LONGEST
    if n < 1:
        assert delay(one, n, 0.5) == delay(one, 1, 0.5)


def test_extreme_settings_are_clamped() -> None:
    """No setting makes a due time that does not fit, or that lies in the past."""
    assert delay(policy(kind=BackoffKind.FIXED, base=10**30), 1, 0.0) == LONGEST
    assert delay(policy(kind=BackoffKind.FIXED, base=-5), 1, 0.0) == 0
    assert delay(policy(base=S, jitter=2 * S), 1, 7.0) == delay(policy(base=S, jitter=2 * S), 1, 1.0)
    assert delay(policy(base=S, jitter=2 * S), 1, -7.0) == S


def test_rate_limited_is_extended() -> None:
    """The same policy times a setting, and never below the floor for rate limits."""
    assert delay(policy(base=5 * S), 2, 0.0, extended=True) == 40 * S
    assert delay(policy(base=5 * S, rate_limited_factor=1.0), 2, 0.0, extended=True) == 10 * S
    floors = {"rate_limited": 60 * S}
    assert delay(policy(base=5 * S, floors=floors), 1, 0.0, extended=True) == 60 * S
    assert delay(policy(base=5 * S, floors=floors), 1, 0.0) == 5 * S


def test_floor_by_name() -> None:
    """A floor applies where the outcome names it; an unknown name is none."""
    assert delay(policy(base=5 * S), 1, 0.0, floor="greylist") == 300 * S
    assert delay(policy(base=5 * S), 1, 0.0, floor="no such floor") == 5 * S
    assert delay(policy(base=600 * S), 1, 0.0, floor="greylist") == 600 * S


@given(st.integers(1, 86_400), st.floats(0, 1), st.booleans())
def test_never_less_than_retry_after(seconds: int, u: float, extended: bool) -> None:
    """The hint is a lower bound for every class of failure."""
    assert delay(policy(base=S), 1, u, seconds * S, extended=extended) >= seconds * S


def test_a_hint_of_nothing_is_none() -> None:
    """Retry-After: 0 leaves the policy's own delay."""
    assert delay(policy(base=5 * S), 1, 0.5, 0) == 5 * S


@pytest.mark.parametrize(("seconds", "within"), [(600, 60), (5, 1)])
def test_scal_03_spread_over_seconds(seconds: int, within: int) -> None:
    """Those who were told the same moment spread after it: a tenth of the hint, at least a second."""
    delays = [delay(policy(base=S), 1, i / 20, seconds * S) for i in range(20)]
    assert len({d // (within * S // 20) for d in delays}) == 20
    assert max(delays) <= (seconds + within) * S
