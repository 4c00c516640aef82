"""Shares by weight."""

from hypothesis import given
from hypothesis import strategies as st

from ringonce.core.fair import divide

NAMES = st.sampled_from("abcdef")
WAITING = st.dictionaries(NAMES, st.integers(0, 1_000), max_size=6)
WEIGHTS = st.fixed_dictionaries({name: st.integers(1, 20) for name in "abcdef"})


@given(st.integers(0, 500), WAITING, WEIGHTS, st.dictionaries(NAMES, st.floats(-1, 1), max_size=6))
def test_all_places_are_used_and_no_more(
    limit: int, waiting: dict[str, int], weights: dict[str, int], credit: dict[str, float]
) -> None:
    """No place stays empty while somebody waits, and nobody gets more than he wants."""
    owed = {name: credit.get(name, 0.0) for name in waiting}
    given_ = divide(limit, waiting, weights, owed)
    assert sum(given_.values()) == min(limit, sum(waiting.values()))
    assert all(0 <= given_[name] <= count for name, count in waiting.items())


@given(st.integers(0, 500), WAITING, WEIGHTS)
def test_who_wants_less_than_his_share_gets_it(
    limit: int, waiting: dict[str, int], weights: dict[str, int]
) -> None:
    """However much the others have waiting."""
    total = sum(weights[name] for name, count in waiting.items() if count)
    given_ = divide(limit, waiting, weights, {})
    for name, count in waiting.items():
        if count and count * total <= limit * weights[name]:
            assert given_[name] == count


@given(WEIGHTS, st.integers(1, 7))
def test_small_rounds_add_up_to_the_weights(weights: dict[str, int], limit: int) -> None:
    """With batches of one, too, everybody has his share in the end, within a place or two of it at any time."""
    total, credit = sum(weights.values()), dict[str, float]()
    got = dict.fromkeys(weights, 0)
    for turn in range(1, 200):
        for name, count in divide(limit, dict.fromkeys(weights, 10_000), weights, credit).items():
            got[name] += count
        for name, weight in weights.items():
            assert abs(got[name] - turn * limit * weight / total) <= len(weights)


def test_who_does_not_wait_saves_nothing_up() -> None:
    """Credit is for those who wait: an hour of silence buys no flood."""
    credit: dict[str, float] = {}
    divide(1, {"a": 5, "b": 5}, {"a": 1, "b": 1}, credit)
    assert set(credit) == {"a", "b"}
    assert divide(1, {"a": 5}, {"a": 1, "b": 1}, credit) == {"a": 1}
    assert set(credit) == {"a"}


def test_a_flood_leaves_the_small_one_its_turn() -> None:
    """A tenant with 100,000 waiting can not keep another one's single row back."""
    assert divide(20, {"flood": 100_000, "small": 1}, {"flood": 9, "small": 1}, {}) == {
        "flood": 19,
        "small": 1,
    }
