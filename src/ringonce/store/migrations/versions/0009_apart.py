"""One index for all that waits for something other than a call: a person, and now also a look at the provider."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Put the new index in the place of the old one, so that nothing costs more than before."""
    op.create_index(
        "ringonce_dispatch_apart",
        "ringonce_dispatch",
        ["purpose", "due_at"],
        postgresql_where=sa.text("purpose <> 'send' AND NOT leased"),
        sqlite_where=sa.text("purpose != 'send' AND leased = 0"),
    )
    op.drop_index("ringonce_dispatch_hold", "ringonce_dispatch")
