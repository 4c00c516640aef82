"""The token bucket, against a plain one that counts."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ringonce.core import bucket
from ringonce.model.policy import Rate

S = 1_000_000
NOW = 1_800_000_000 * S
RATES = st.builds(
    Rate, st.integers(1, 10_000), st.sampled_from([S, 60 * S, 3_600 * S, 7 * S]), st.integers(1, 500)
)


@given(RATES, st.lists(st.tuples(st.integers(0, 5 * S), st.integers(1, 600)), max_size=30))
def test_never_more_than_the_rate(rate: Rate, asks: list[tuple[int, int]]) -> None:
    """Over any time from the start, no more goes out than the burst and what the rate brings."""
    full_at, now, sent = 0, NOW, 0
    for passed, wanted in asks:
        now += passed
        count = min(wanted, bucket.tokens(rate, full_at, now))
        full_at = bucket.taken(rate, full_at, now, count)
        sent += count
        assert sent <= rate.burst + Fraction((now - NOW) * rate.count, rate.period)


@given(RATES, st.integers(1, 50))
def test_nothing_is_lost(rate: Rate, blocks: int) -> None:
    """Who takes a token whenever one is there has the rate, but for a microsecond each."""
    full_at, now = 0, NOW
    full_at = bucket.taken(rate, full_at, now, bucket.tokens(rate, full_at, now))
    for _ in range(blocks):
        now += bucket.wait(rate, full_at, now)
        assert bucket.tokens(rate, full_at, now) >= 1
        full_at = bucket.taken(rate, full_at, now, 1)
    assert now - NOW <= Fraction(blocks * rate.period, rate.count) + 2 * blocks + 1


@given(RATES, st.integers(0, 600))
def test_the_wait_is_long_enough_and_not_longer(rate: Rate, count: int) -> None:
    """When it is over the tokens are there; a microsecond less and some are not."""
    full_at = bucket.taken(rate, 0, NOW, rate.burst)
    wait = bucket.wait(rate, full_at, NOW, count)
    assert bucket.tokens(rate, full_at, NOW + wait) >= min(count, rate.burst)
    if wait > 1 and rate.period > rate.count:
        assert bucket.tokens(rate, full_at, NOW + wait - 2) < max(1, min(count, rate.burst))


@given(RATES, st.integers(-(10**12), 10**15))
def test_no_clock_empties_it_for_long(rate: Rate, full_at: int) -> None:
    """Whatever the column says, after the time of one burst all of it is there again."""
    once = -(-rate.burst * rate.period // rate.count)
    assert 0 <= bucket.tokens(rate, NOW + full_at, NOW) <= rate.burst
    again = bucket.taken(rate, NOW + full_at, NOW, 0)
    assert bucket.tokens(rate, again, NOW + once) == rate.burst
    assert bucket.wait(rate, NOW + full_at, NOW, rate.burst) <= once


def test_a_full_bucket_needs_no_wait() -> None:
    """A bucket that nobody has used gives its burst at once."""
    rate = Rate(50, S, 5)
    assert (bucket.tokens(rate, 0, NOW), bucket.wait(rate, 0, NOW, 5)) == (5, 0)
    assert bucket.tokens(rate, bucket.taken(rate, 0, NOW, 5), NOW) == 0
    assert bucket.wait(rate, bucket.taken(rate, 0, NOW, 5), NOW) == 20_000
