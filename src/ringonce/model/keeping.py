"""What is kept in the database for all workers that is no notification."""

from __future__ import annotations

from dataclasses import dataclass, field

REFUSED = 0
"""The end of a credential that was refused before its time."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A credential as it is stored: readable only by who has the account's own secret.

    Times are microseconds UTC; ``expires_at`` None: it is good until it is refused.
    """

    text: str = field(repr=False)
    made_at: int
    expires_at: int | None = None
