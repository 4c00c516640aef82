"""What became of apps and browsers that were dead, as pure functions: part of the verdict of ``ringonce demo``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.vendors.verdict import Check, listed

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Story:
    """One address of a push service that died. Times: microseconds UTC, by the clock of the database.

    ``refused``: the service said so, and the answer came. ``dropped_at``: when ringonce dropped it; None: never.
    ``back_at``: when the device registered again; None: it did not. ``begun``: when each call to it began;
    ``requests``: how many the server received. ``told``: the device that came back was told of the next event.
    """

    channel: str
    recipient: str
    refused: bool
    dropped_at: int | None
    back_at: int | None = None
    begun: tuple[int, ...] = ()
    requests: int = 0
    told: bool = False

    @property
    def called_again(self) -> bool:
        """A call began after it had been dropped and before it came back, or the server knows of more calls."""
        dropped, back = self.dropped_at, self.back_at
        if dropped is None:
            late = False
        elif back is None or back < dropped:
            # What came back earlier is another address, that of a new subscription.
            late = any(at > dropped for at in self.begun)
        else:
            late = any(dropped < at < back for at in self.begun)
        return late or self.requests > len(self.begun)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.recipient} ({self.channel})"


def device_checks(stories: Sequence[Story]) -> tuple[Check, Check]:
    """Dead devices are dropped and not called again; one that registers again gets the next event."""
    dropped = [story for story in stories if story.dropped_at is not None]
    back = [story for story in stories if story.back_at is not None]
    called = [
        story.name for story in stories if story.called_again or (story.refused and story.dropped_at is None)
    ]
    silent = [story.name for story in back if not story.told]
    return (
        listed("a dead device is dropped and not called again", called, f"{len(dropped)} of {len(stories)}"),
        listed("a device that registers again is told again", silent, f"{len(back)} of {len(back)}"),
    )
