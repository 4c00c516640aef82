"""The garbage collector of a process that is ringonce's own."""

import gc

import pytest

from ringonce.cli.garbage import YOUNG, rarely


def test_it_looks_rarely_and_never_at_what_stays() -> None:
    """Within, what was there is left out and new objects are looked at rarely; afterwards nothing is left out."""
    before = gc.get_threshold()
    with rarely():
        assert gc.get_threshold()[0] == YOUNG
        assert gc.get_freeze_count() > 1000
    # An interpreter may leave out some of its own from the start (CPython 3.12 does): those are looked at as well then.
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_it_is_as_before_after_an_error() -> None:
    """What goes wrong within leaves nothing behind."""
    before = gc.get_threshold()
    with pytest.raises(KeyError), rarely():
        raise KeyError
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
