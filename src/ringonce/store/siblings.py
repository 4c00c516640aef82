"""What is on its way to the same recipient about the same event as an in-app copy that is being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from ringonce.ports import Sibling
from ringonce.store.rows import OF_EVENT
from ringonce.store.schema import dispatch, events, notifications

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.store.dialect import Dialect

SAID = {value: f'"stop_when_read":{str(value).lower()}}}' for value in (True, False)}
"""How the stored form of an event ends that says yes or no (``model.event``): what is before it need not be read."""


class Siblings:
    """The statement, built once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        n, e, other = notifications.c, events.c, notifications.alias("other")
        says = {value: e.body.endswith(sa.literal_column(f"'{end}'")) for value, end in SAID.items()}
        # The tenant too, so that a planner may go by the person: an event may be for a hundred thousand of them.
        same = sa.and_(
            other.c.tenant == n.tenant, other.c.recipient == n.recipient, other.c.event_key == n.event_key
        )
        self._of = (
            sa.select(other.c.id, n.channel, e.type, says[True], says[False])
            .select_from(
                notifications.join(events, OF_EVENT)
                .join(other, same)
                .join(dispatch, dispatch.c.id == other.c.id)  # only what is not over has a row there
            )
            .where(dialect.among(n.id, "ids"), other.c.id != n.id)
            .order_by(other.c.id)
        )

    def of(self, connection: sa.Connection, ids: Sequence[UUID]) -> list[Sibling]:
        """See ``ports.Store.siblings``."""
        if not ids:
            return []
        found = connection.execute(self._of, {"ids": self._dialect.listed(sorted(ids))})
        return [
            Sibling(id_, channel, type_, asked=True if yes else False if no else None)
            for id_, channel, type_, yes, no in found
        ]
