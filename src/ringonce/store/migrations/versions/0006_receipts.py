"""What providers report, and the ids by which they do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary().with_variant(sa.Text(), "sqlite")
OPEN = sa.text("look_at IS NOT NULL")
NAMED = sa.text("look_at IS NOT NULL AND ref IS NOT NULL")


def upgrade() -> None:
    """Add two tables; nothing that stands is touched."""
    op.create_table(
        "ringonce_provider_refs",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("notification_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "ringonce_receipts",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("ref", DIGEST, nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("look_at", sa.BigInteger(), nullable=True),
        sa.Column("notification_id", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ringonce_provider_refs_age", "ringonce_provider_refs", ["created_at", "key"])
    op.create_index("ringonce_receipts_age", "ringonce_receipts", ["created_at", "key"])
    op.create_index(
        "ringonce_receipts_open", "ringonce_receipts", ["look_at"], postgresql_where=OPEN, sqlite_where=OPEN
    )
    op.create_index(
        "ringonce_receipts_ref", "ringonce_receipts", ["ref"], postgresql_where=NAMED, sqlite_where=NAMED
    )
