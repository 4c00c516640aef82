"""Read marks in the order in which they became visible, so that other devices learn of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is new; what was read before stays without a number, and no stream tells of it again."""
    op.add_column("ringonce_inbox", sa.Column("marked", sa.BigInteger(), nullable=True))
    op.create_index(
        "ringonce_inbox_marked",
        "ringonce_inbox",
        ["key", "marked"],
        postgresql_where=sa.text("marked IS NOT NULL"),
        sqlite_where=sa.text("marked IS NOT NULL"),
    )
