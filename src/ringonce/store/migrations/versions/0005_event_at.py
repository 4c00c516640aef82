"""When a notification's event was accepted, so that the event is found among its neighbours (decision 0010)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TOLD = """
UPDATE ringonce_notifications SET event_at =
    (SELECT e.created_at FROM ringonce_events AS e WHERE e.key = ringonce_notifications.event_key)
"""


def upgrade() -> None:
    """Add the column and fill it; the index by age is for events under way as well. Each notification is rewritten."""
    op.add_column("ringonce_notifications", sa.Column("event_at", sa.BigInteger(), nullable=True))
    op.execute(TOLD)
    op.drop_index("ringonce_events_age", "ringonce_events")
    op.create_index("ringonce_events_age", "ringonce_events", ["created_at", "key"], unique=True)
