"""Drafts: which notification answers what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary().with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Add a table; touch no other."""
    op.create_table(
        "ringonce_drafts",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("notification_id", sa.Uuid(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=True),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ringonce_drafts_notification", "ringonce_drafts", ["notification_id"], unique=True)
    op.create_index("ringonce_drafts_name", "ringonce_drafts", ["tenant", "name"])
    op.create_index("ringonce_drafts_created", "ringonce_drafts", ["created_at", "notification_id"])
