"""What records say of themselves."""

from ringonce.model.policy import SECOND, Rate
from ringonce.model.records import Lease, Lot, Terms


def test_the_number_of_an_attempt() -> None:
    """An attempt that is under way has its own number; where none is, the next one's is told."""
    assert Lease("w", 1, 2, attempt=3, started_at=1).number == 3
    assert Lease("w", 1, 2, attempt=3).number == 4


def test_terms_are_limited_by_any_rate() -> None:
    """Rows may need tokens where all together have a rate, or one of the lots has one."""
    rate = Rate(5, SECOND, 5)
    free, bound = Lot("a", ()), Lot("b", (), rate=rate)
    assert not Terms((free,), SECOND).limited
    assert Terms((free, bound), SECOND).limited
    assert Terms((free,), SECOND, rate).limited
