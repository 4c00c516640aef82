"""The first schema: accept, expand, claim, mark, send, settle, cancel, report."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary().with_variant(sa.Text(), "sqlite")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SQLITE = (("NOT leased", "leased = 0"), ("NOT armed", "armed = 0"), ("NOT expanded", "expanded = 0"))


def _where(predicate: str) -> dict[str, Any]:
    """A partial index's predicate; SQLite's booleans are 0 and 1, and its planner matches by form."""
    lite = predicate
    for ours, theirs in SQLITE:
        lite = lite.replace(ours, theirs)
    lite = " AND ".join(
        f"{part} = 1" if part in {"armed", "leased"} else part for part in lite.split(" AND ")
    )
    return {"postgresql_where": sa.text(predicate), "sqlite_where": sa.text(lite)}


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "ringonce_addresses",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("invalidated_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ringonce_addresses_key", "ringonce_addresses", ["key"], unique=True)
    op.create_index("ringonce_addresses_recipient", "ringonce_addresses", ["tenant", "recipient"])
    op.create_table(
        "ringonce_attempts",
        sa.Column("notification_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("provider_code", sa.Text(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("doubt", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("notification_id", "number"),
    )
    op.create_table(
        "ringonce_cancellations",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "ringonce_channel_overrides",
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("channel"),
    )
    op.create_table(
        "ringonce_contents",
        sa.Column("id", DIGEST, nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "ringonce_counters",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "tenant", "channel", "name"),
    )
    op.create_table(
        "ringonce_dispatch",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("armed", sa.Boolean(), nullable=False),
        sa.Column("leased", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rescued", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("subject_key", DIGEST, nullable=True),
        sa.Column("collapse_key", DIGEST, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
            "autovacuum_analyze_scale_factor": "0.1",
        },
    )
    op.create_index(
        "ringonce_dispatch_age", "ringonce_dispatch", ["lane", "created_at"], **_where("NOT leased")
    )
    op.create_index(
        "ringonce_dispatch_arm",
        "ringonce_dispatch",
        ["due_at"],
        **_where("purpose = 'send' AND NOT armed AND NOT leased"),
    )
    op.create_index(
        "ringonce_dispatch_claim",
        "ringonce_dispatch",
        ["lane", "priority", "due_at", "id"],
        **_where("purpose = 'send' AND armed AND NOT leased"),
    )
    op.create_index(
        "ringonce_dispatch_collapse",
        "ringonce_dispatch",
        ["collapse_key"],
        **_where("collapse_key IS NOT NULL"),
    )
    op.create_index(
        "ringonce_dispatch_expiry",
        "ringonce_dispatch",
        ["expires_at"],
        **_where("expires_at IS NOT NULL AND NOT leased"),
    )
    op.create_index(
        "ringonce_dispatch_hold", "ringonce_dispatch", ["due_at"], **_where("purpose = 'hold' AND NOT leased")
    )
    op.create_index("ringonce_dispatch_lease", "ringonce_dispatch", ["due_at"], **_where("leased"))
    op.create_table(
        "ringonce_event_recipients",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("event_key", DIGEST, nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "ringonce_events",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("subject_key", DIGEST, nullable=True),
        sa.Column("thread", sa.Text(), nullable=True),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("collapse", sa.Text(), nullable=True),
        sa.Column("body_hash", DIGEST, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("cursor", sa.Integer(), nullable=False),
        sa.Column("expanded", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ringonce_events_event_id", "ringonce_events", ["event_id"])
    op.create_index("ringonce_events_open", "ringonce_events", ["created_at"], **_where("NOT expanded"))
    op.create_index(
        "ringonce_events_subject", "ringonce_events", ["subject_key"], **_where("subject_key IS NOT NULL")
    )
    op.create_table(
        "ringonce_lanes",
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("paused_until", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lane"),
    )
    op.create_table(
        "ringonce_leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "ringonce_notifications",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("event_key", DIGEST, nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("address_id", sa.BigInteger(), nullable=True),
        sa.Column("address_generation", sa.Integer(), nullable=False),
        sa.Column("content_id", DIGEST, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("spent_base", sa.Integer(), nullable=False),
        sa.Column("spent_transient", sa.Integer(), nullable=False),
        sa.Column("spent_rate_limited", sa.Integer(), nullable=False),
        sa.Column("spent_unknown", sa.Integer(), nullable=False),
        sa.Column("unknown", sa.Text(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_provider_code", sa.Text(), nullable=True),
        sa.Column("error_text", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("rests_on", sa.Integer(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_attempt", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index("ringonce_notifications_created", "ringonce_notifications", ["created_at", "id"])
    op.create_index("ringonce_notifications_event", "ringonce_notifications", ["event_key"])
    op.create_index("ringonce_notifications_recipient", "ringonce_notifications", ["tenant", "recipient"])
    op.create_table(
        "ringonce_outbox",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("event_key", DIGEST, nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ringonce_outbox_event", "ringonce_outbox", ["event_key"], unique=True)
    op.create_table(
        "ringonce_recipients",
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("locale", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "ringonce_timeline",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("notification_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ringonce_timeline_notification", "ringonce_timeline", ["notification_id", "id"])
    if op.get_context().dialect.name == "sqlite":
        op.create_table(
            "ringonce_ticks",
            sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("fence", sa.BigInteger(), nullable=False),
            sa.Column("at", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("id"),
            info={"only": "sqlite"},
        )
        op.execute("INSERT INTO ringonce_ticks (id, fence, at) VALUES (1, 0, 0)")
    else:
        op.execute("CREATE SEQUENCE ringonce_fence AS bigint")
