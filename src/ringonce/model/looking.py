"""What a provider says when it is asked what became of a call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Presence(StrEnum):
    """Is it there? ``UNSURE``: the provider answered, and the answer does not tell."""

    ARRIVED = "arrived"
    ABSENT = "absent"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Finding:
    """The meaning of one answer. ``text``: why, for people; it holds neither secrets nor addresses."""

    presence: Presence
    message_id: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One look of before. ``told`` None: the provider could not be asked. ``at``: microseconds UTC."""

    at: int
    told: Presence | None
