"""Parameters that many routes share."""

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query, Request
from pydantic import AwareDatetime, BeforeValidator, Field

from ringonce.api.paths import Segment
from ringonce.errors import InputError

TEXT = r"^[^\x00]*$"
"""No database keeps U+0000."""
Tenant = Annotated[
    str | None,
    Query(max_length=128, pattern=TEXT, description="Only of this tenant; a tenant's key needs none."),
]
RecipientId = Annotated[Segment, Path(min_length=1, max_length=256, pattern=TEXT)]
Name = Annotated[str | None, Query(max_length=256, pattern=TEXT)]
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
REPEATED = frozenset({"status", "state", "by"})
"""Parameters that are lists."""


def _moment(value: object) -> object:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError("a time is written with its offset, e.g. 2026-12-01T09:00:00Z")
    return value


async def once(request: Request) -> None:
    """A dependency, awaited so that no thread is asked for it: two values of one parameter contradict.

    Raises InputError.
    """
    if not request.scope.get("query_string"):
        return
    names = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in names.items():
        if count > 1 and name not in REPEATED:
            raise InputError("is given more than once", field=name, mend="give it once")


# A time as RFC 3339 writes it (section 5.6), never a number of seconds.
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
Since = Annotated[Moment | None, Query(description="Accepted at this time or later.")]
Until = Annotated[Moment | None, Query(description="Accepted before this time.")]
FailedSince = Annotated[Moment | None, Query(description="Failed at this time or later.")]
FailedUntil = Annotated[Moment | None, Query(description="Failed before this time.")]
By = Annotated[str, Field(min_length=1, max_length=128, pattern=TEXT, description="Who decided it.")]
Limit = Annotated[int, Query(ge=1, le=500)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(when: datetime | None) -> int | None:
    """Microseconds UTC."""
    if when is None:
        return None
    past = when - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds
