"""Which attempt a provider's report is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.records import AttemptRow


def attempt_of(
    attempts: Sequence[AttemptRow],
    *,
    revision: int,
    message_id: str | None,
    running: int | None = None,
    rests_on: int | None = None,
) -> int | None:
    """The number of the attempt of ``revision`` that is meant; None: there was none.

    The provider's id decides where an answer gave it. Else it is the one without a verdict; or one that is under way
    (``running``), or the one that the status rests on, or the latest of all: one that seemed refused, or a part of a
    text that was cut into several messages, each with an id of its own.
    """
    ours = [one for one in attempts if one.revision == revision]
    named = [one.number for one in ours if message_id is not None and one.message_id == message_id]
    unknown = [one.number for one in ours if one.outcome == "unknown"]
    numbers = [one.number for one in ours]
    rested = [number for number in numbers if number == rests_on]
    for choice in (named, unknown, [] if running is None else [running], rested, numbers):
        if choice:
            return max(choice)
    return None
