"""Drafts that wait for approval are found among many that are published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index. Every draft counts as waiting until it is decided anew; who is not is passed by."""
    op.add_column("ringonce_drafts", sa.Column("waiting", sa.Boolean(), nullable=True))
    op.execute("UPDATE ringonce_drafts SET waiting = true")
    op.create_index(
        "ringonce_drafts_waiting",
        "ringonce_drafts",
        ["created_at", "notification_id"],
        postgresql_where=sa.text("waiting"),
        sqlite_where=sa.text("waiting = 1"),
    )
