"""Parameters that many routes share."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import AwareDatetime, Field

from ringonce.api.paths import Segment

TEXT = r"^[^\x00]*$"
"""No database keeps U+0000."""
Tenant = Annotated[
    str | None,
    Query(max_length=128, pattern=TEXT, description="Only of this tenant; a tenant's key needs none."),
]
RecipientId = Annotated[Segment, Path(min_length=1, max_length=256, pattern=TEXT)]
Name = Annotated[str | None, Query(max_length=256, pattern=TEXT)]
Since = Annotated[AwareDatetime | None, Query(description="Accepted at this time or later.")]
Until = Annotated[AwareDatetime | None, Query(description="Accepted before this time.")]
By = Annotated[str, Field(min_length=1, max_length=128, pattern=TEXT, description="Who decided it.")]
Limit = Annotated[int, Query(ge=1, le=500)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(when: datetime | None) -> int | None:
    """Microseconds UTC."""
    if when is None:
        return None
    past = when - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
