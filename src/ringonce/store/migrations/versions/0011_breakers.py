"""The mass-invalidation breaker: quarantined addresses, and where an address has moved to (decision 0013)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

QUARANTINED = sa.text("quarantined_at IS NOT NULL")
REFUSED = sa.text("refused_by IS NOT NULL AND invalidated_at IS NOT NULL")


def upgrade() -> None:
    """Add what is empty at first; no row is rewritten."""
    for name, type_ in (
        ("quarantined_at", sa.BigInteger()),
        ("refused_by", sa.Text()),
        ("moved_to", sa.BigInteger()),
    ):
        op.add_column("ringonce_addresses", sa.Column(name, type_, nullable=True))
    op.create_index(
        "ringonce_addresses_quarantined",
        "ringonce_addresses",
        ["refused_by", "id"],
        postgresql_where=QUARANTINED,
        sqlite_where=QUARANTINED,
    )
    op.create_index(
        "ringonce_addresses_refused",
        "ringonce_addresses",
        ["refused_by", "invalidated_at"],
        postgresql_where=REFUSED,
        sqlite_where=REFUSED,
    )
    op.create_table(
        "ringonce_breakers",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("tripped_at", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
    )
