"""The inbox: in-app copies in their order, read and unread."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary().with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Add what is new; nothing that stands is touched."""
    op.add_column("ringonce_notifications", sa.Column("read_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "ringonce_inboxes",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "ringonce_inbox",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("notification_id", sa.Uuid(), nullable=False),
        sa.Column("unread", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("key", "seq"),
    )
    op.create_index("ringonce_inbox_notification", "ringonce_inbox", ["notification_id"], unique=True)
    op.create_index(
        "ringonce_inbox_unread",
        "ringonce_inbox",
        ["key", "seq"],
        postgresql_where=sa.text("unread"),
        sqlite_where=sa.text("unread = 1"),
    )
