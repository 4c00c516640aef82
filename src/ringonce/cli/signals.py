"""Signals that ask a process to end, at every moment of its life."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ringonce.cli.session import note

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """The first signal stops gracefully; a second one, of either kind, ends the process at once."""
    import asyncio

    loop = asyncio.get_running_loop()

    def once(number: signal.Signals) -> None:
        hand_over(loop, signal.SIG_DFL)
        note(f"{number.name}: finishing what has begun")
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, once, number)
    try:
        yield
    finally:
        if not stop.is_set():
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def hand_over(loop: asyncio.AbstractEventLoop, to: signal.Handlers) -> None:
    """From the loop to the system, until the process has ended: SIG_DFL kills it, SIG_IGN does nothing.

    Never back to Python's own: its KeyboardInterrupt is raised wherever the program happens to be. In a callback of
    the loop it breaks what runs there and the process may hang; while the interpreter ends it is a traceback.
    """
    # What arrives meanwhile waits, and finds the new way.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, to)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
