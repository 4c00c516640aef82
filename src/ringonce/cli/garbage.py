"""Python's garbage collector in a process that is ringonce's own: it need not look at what stays for good."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

YOUNG = 20_000
"""New objects after which it looks for cycles among them; Python's own 700 are less than one batch makes."""


@contextmanager
def rarely() -> Iterator[None]:
    """Collect once, leave out what is there now, and look at what is new more rarely; as before at the end.

    What ringonce makes for a notification has no cycles and goes by itself, so this costs no memory.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
