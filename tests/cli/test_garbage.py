"""The garbage collector of a process that is ringonce's own."""

import gc

import pytest

from ringonce.cli.garbage import YOUNG, rarely


def test_it_looks_rarely_and_never_at_what_stays() -> None:
    """Within, what was there is left out and new objects are looked at rarely; afterwards all is as before."""
    before = gc.get_threshold(), gc.get_freeze_count()
    with rarely():
        assert gc.get_threshold()[0] == YOUNG
        assert gc.get_freeze_count() > 1000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_it_is_as_before_after_an_error() -> None:
    """What goes wrong within leaves nothing behind."""
    before = gc.get_threshold(), gc.get_freeze_count()
    with pytest.raises(KeyError), rarely():
        raise KeyError
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
