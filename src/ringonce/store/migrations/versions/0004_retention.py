"""Retention: the paths to what is old enough to be removed, and autovacuum in small runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# A copy, not an import: a migration says what it did, whatever later versions want.
FEW = {"autovacuum_vacuum_scale_factor": "0.02"}
INSERTED = {"autovacuum_vacuum_insert_scale_factor": "0.1"}
SOON, LATER = {"autovacuum_vacuum_threshold": "1000"}, {"autovacuum_vacuum_threshold": "5000"}
TENTH, TWENTIETH = {"autovacuum_analyze_scale_factor": "0.1"}, {"autovacuum_analyze_scale_factor": "0.05"}
STORAGE = {
    "notifications": FEW | LATER | INSERTED | TWENTIETH,
    "attempts": FEW | LATER | INSERTED | TENTH,
    "timeline": FEW | LATER | INSERTED | TENTH,
    "events": FEW | SOON | INSERTED | TWENTIETH,
    "event_recipients": FEW | LATER | INSERTED,
    "contents": FEW
    | SOON
    | INSERTED
    | {"toast.autovacuum_vacuum_scale_factor": "0.02", "toast.autovacuum_vacuum_threshold": "1000"},
    "outbox": {"fillfactor": "85"} | FEW | SOON | TENTH,
}
"""The reasons stand in ``store/storage.py``."""


def upgrade() -> None:
    """Add two indexes; change no row."""
    op.create_index(
        "ringonce_events_age",
        "ringonce_events",
        ["created_at", "key"],
        postgresql_where=sa.text("expanded"),
        sqlite_where=sa.text("expanded = 1"),
    )
    op.create_index("ringonce_event_recipients_age", "ringonce_event_recipients", ["created_at", "key"])
    if op.get_context().dialect.name == "postgresql":
        for table, parameters in STORAGE.items():
            listed = ", ".join(f"{name} = {value}" for name, value in parameters.items())
            op.execute(f"ALTER TABLE ringonce_{table} SET ({listed})")
