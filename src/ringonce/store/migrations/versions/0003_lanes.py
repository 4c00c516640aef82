"""Circuits that open again and again, and token buckets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; nothing that stands is touched."""
    op.add_column("ringonce_lanes", sa.Column("opened", sa.Integer(), nullable=True))
    op.create_table(
        "ringonce_rates",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("full_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
