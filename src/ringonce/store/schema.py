"""The tables. What migrations build step by step, this says at once; a test compares the two.

Every name carries the prefix ``ringonce_``: the tables may live in the application's own database. No foreign
keys, no triggers. Times are integer microseconds UTC. ``tenant`` is never null, ``''`` stands for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.store.storage import STORAGE
from ringonce.store.values import clean

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect as SqlDialect
    from sqlalchemy.types import TypeEngine

PREFIX = "ringonce_"
VERSION_TABLE = PREFIX + "version"
FENCE = PREFIX + "fence"

metadata = sa.MetaData()


class Digest(sa.types.TypeDecorator[bytes]):
    """Bytes: BYTEA on PostgreSQL, hexadecimal text on SQLite (JSON, by which batches travel, has no bytes)."""

    impl = sa.LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: SqlDialect) -> TypeEngine[Any]:
        """Choose the column type."""
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: SqlDialect) -> Any:
        """Spell the bytes."""
        return value.hex() if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: SqlDialect) -> bytes | None:  # noqa: ARG002
        """Read them back."""
        return bytes.fromhex(value) if isinstance(value, str) else value


class Words(sa.types.TypeDecorator[str]):
    """Text from outside: what no database takes (U+0000, lone surrogates) becomes U+FFFD."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: SqlDialect) -> str | None:  # noqa: ARG002
        """Clean it."""
        return None if value is None else clean(value)


Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Time = sa.BigInteger()


def _column(name: str, type_: Any, **options: Any) -> sa.Column[Any]:
    options.setdefault("nullable", False)
    return sa.Column(name, type_, **options)


def _empty(name: str, type_: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=True)


events = sa.Table(
    PREFIX + "events",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("tenant", Words),
    _column("event_id", Words),
    _column("type", Words),
    _empty("subject", Words),
    _empty("subject_key", Digest),
    _empty("thread", Words),
    _column("priority", Words),
    _empty("collapse", Words),
    _column("body_hash", Digest),
    _column("body", Words),
    _column("total", sa.Integer),
    _column("cursor", sa.Integer),
    _column("expanded", sa.Boolean),
    _column("created_at", Time),
    postgresql_with=STORAGE["events"],
)

journal = sa.Table(
    PREFIX + "event_recipients",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("event_key", Digest),
    _column("recipient", Words),
    _column("created_at", Time),
    postgresql_with=STORAGE["event_recipients"],
)

recipients = sa.Table(
    PREFIX + "recipients",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("tenant", Words),
    _column("id", Words),
    _empty("locale", Words),
    _empty("timezone", Words),
    _column("created_at", Time),
    _column("updated_at", Time),
)

# ``generation`` grows when the value goes to another owner: a notification made for the former one sees it.
# ``refused_by``: the credential whose call got the verdict that dropped it, or set it apart (``quarantined_at``).
# ``moved_to``: the address that took its place.
addresses = sa.Table(
    PREFIX + "addresses",
    metadata,
    _column("id", Id, primary_key=True, autoincrement=True),
    _column("key", Digest),
    _column("tenant", Words),
    _column("recipient", Words),
    _column("channel", Words),
    _column("value", Words),
    _column("registered_at", Time),
    _empty("invalidated_at", Time),
    _empty("reason", Words),
    _column("generation", sa.Integer),
    _empty("quarantined_at", Time),
    _empty("refused_by", Words),
    _empty("moved_to", sa.BigInteger),
)

contents = sa.Table(
    PREFIX + "contents",
    metadata,
    _column("id", Digest, primary_key=True),
    _empty("title", Words),
    _empty("text", Words),
    _empty("html", Words),
    _column("data", Words),
    _column("created_at", Time),
    postgresql_with=STORAGE["contents"],
)

# No index may name a column that a step changes: every final update stays inside its page (HOT).
notifications = sa.Table(
    PREFIX + "notifications",
    metadata,
    _column("id", sa.Uuid, primary_key=True),
    _column("tenant", Words),
    _column("event_key", Digest),
    _column("recipient", Words),
    _column("channel", Words),
    _column("account", Words),
    _empty("address_id", sa.BigInteger),
    _column("address_generation", sa.Integer),
    _column("content_id", Digest),
    _column("created_at", Time),
    _column("changed_at", Time),
    _column("status", Words),
    _column("version", sa.Integer),
    _column("revision", sa.Integer),
    _column("attempts", sa.Integer),
    _column("spent_base", sa.Integer),
    _column("spent_transient", sa.Integer),
    _column("spent_rate_limited", sa.Integer),
    _column("spent_unknown", sa.Integer),
    _column("unknown", Words),
    _empty("next_attempt_at", Time),
    _empty("error_code", Words),
    _empty("error_provider_code", Words),
    _empty("error_text", Words),
    _empty("message_id", Words),
    _empty("rests_on", sa.Integer),
    _empty("expires_at", Time),
    _column("last_attempt", sa.Integer),
    _empty("read_at", Time),
    # That of the event. It came later, so the tables allow null; there is none.
    _empty("event_at", Time),
    postgresql_with=STORAGE["notifications"],
)

# In-app copies in the order in which they became visible: ``last`` is drawn under the row's lock and held until
# the commit, so no smaller number appears later. The key is that of the recipient. ``marked``: the number of the
# change by which the copy was read.
inboxes = sa.Table(
    PREFIX + "inboxes",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("last", sa.BigInteger),
)

inbox = sa.Table(
    PREFIX + "inbox",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    _column("notification_id", sa.Uuid),
    _column("unread", sa.Boolean),
    _empty("marked", sa.BigInteger),
)

# ``due_at`` is the end of the lease while ``leased``. ``version`` repeats that of the notification, so that the
# mark is guarded by one row. ``owner`` is set exactly while leased.
dispatch = sa.Table(
    PREFIX + "dispatch",
    metadata,
    _column("id", sa.Uuid, primary_key=True),
    _column("lane", Words),
    _column("priority", sa.SmallInteger),
    _empty("due_at", Time),
    _column("purpose", Words),
    _column("armed", sa.Boolean),
    _column("leased", sa.Boolean),
    _empty("started_at", Time),
    _empty("owner", Words),
    _column("fence", sa.BigInteger),
    _column("attempt", sa.Integer),
    _column("version", sa.Integer),
    _column("rescued", sa.Integer),
    _empty("expires_at", Time),
    _column("created_at", Time),
    _empty("subject_key", Digest),
    _empty("collapse_key", Digest),
    postgresql_with=STORAGE["dispatch"],
)

# ``doubt``: it was ever without a verdict; a late answer does not take that back.
attempts = sa.Table(
    PREFIX + "attempts",
    metadata,
    _column("notification_id", sa.Uuid, primary_key=True),
    _column("number", sa.Integer, primary_key=True, autoincrement=False),
    _column("revision", sa.Integer),
    _column("fence", sa.BigInteger),
    _column("account", Words),
    _column("started_at", Time),
    _empty("ended_at", Time),
    _column("outcome", Words),
    _empty("code", Words),
    _empty("provider_code", Words),
    _empty("reference", Words),
    _empty("message_id", Words),
    _column("answer", Words),
    _column("rule", Words),
    _column("late", sa.Boolean),
    _column("doubt", sa.Boolean),
    postgresql_with=STORAGE["attempts"],
)

timeline = sa.Table(
    PREFIX + "timeline",
    metadata,
    _column("id", Id, primary_key=True, autoincrement=True),
    _column("notification_id", sa.Uuid),
    _column("at", Time),
    _column("kind", Words),
    _column("detail", Words),
    postgresql_with=STORAGE["timeline"],
)

outbox = sa.Table(
    PREFIX + "outbox",
    metadata,
    _column("id", Id, primary_key=True, autoincrement=True),
    _column("event_key", Digest),
    _column("event_id", Words),
    _column("kind", Words),
    _column("key", Words),
    _column("payload", Words),
    _column("created_at", Time),
    _empty("published_at", Time),
    postgresql_with=STORAGE["outbox"],
)

# Definitive failures of the audited types, one row for each revision that ended so.
failures = sa.Table(
    PREFIX + "notification_failures",
    metadata,
    _column("id", sa.Uuid, primary_key=True),
    _column("tenant", Words),
    _column("notification_id", sa.Uuid),
    _column("revision", sa.Integer),
    _column("channel", Words),
    _column("driver_id", Words),
    _column("push_type", Words),
    _column("payload", Words),
    _column("error_code", Words),
    _column("code", Words),
    _column("retry_count", sa.Integer),
    _column("failed_at", Time),
)

# The provider's ids of messages whose reports will name nothing else. The key is that of (account, message id).
provider_refs = sa.Table(
    PREFIX + "provider_refs",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("notification_id", sa.Uuid),
    _column("attempt", sa.Integer),
    _column("created_at", Time),
)

# Every report once. ``look_at`` null: nothing more follows from it. ``ref``: its key in ``provider_refs``, if any.
receipts = sa.Table(
    PREFIX + "receipts",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("channel", Words),
    _column("account", Words),
    _column("kind", Words),
    _empty("reference", Words),
    _empty("message_id", Words),
    _empty("ref", Digest),
    _empty("at", Time),
    _column("outcome", Words),
    _column("created_at", Time),
    _empty("look_at", Time),
    _empty("notification_id", sa.Uuid),
    _empty("attempt", sa.Integer),
)

cancellations = sa.Table(
    PREFIX + "cancellations",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("tenant", Words),
    _column("subject", Words),
    _column("by", Words),
    _column("at", Time),
)

# Which notification answers what. The key is a digest of tenant, channel and name; facts are the notification's.
# ``waiting`` leads to those that wait for approval; one that was cancelled in another way keeps it, and is passed by.
drafts = sa.Table(
    PREFIX + "drafts",
    metadata,
    _column("key", Digest, primary_key=True),
    _column("tenant", Words),
    _column("channel", Words),
    _column("name", Words),
    _column("notification_id", sa.Uuid),
    _empty("scenario", Words),
    _column("mode", Words),
    _column("created_at", Time),
    _column("updated_at", Time),
    # It came later, so the table allows null; there is none.
    _empty("waiting", sa.Boolean),
)

lanes = sa.Table(
    PREFIX + "lanes",
    metadata,
    _column("lane", Words, primary_key=True),
    _column("paused", sa.Boolean),
    _empty("paused_until", Time),
    _empty("reason", Words),
    _column("changed_at", Time),
    _empty("opened", sa.Integer),
)

# Verdicts against addresses, weighed by credential: a row is written only when one is proposed.
breakers = sa.Table(
    PREFIX + "breakers",
    metadata,
    _column("name", Words, primary_key=True),
    _column("steps", Words),
    _empty("tripped_at", Time),
    _column("why", Words),
    _column("changed_at", Time),
)

# Token buckets: ``full_at`` is when one is full again.
rates = sa.Table(
    PREFIX + "rates",
    metadata,
    _column("name", Words, primary_key=True),
    _column("full_at", Time),
)

# ``sealed``: with the account's own secret, which is not in the database.
credentials = sa.Table(
    PREFIX + "credentials",
    metadata,
    _column("name", Words, primary_key=True),
    _column("sealed", Words),
    _column("made_at", Time),
    _empty("expires_at", Time),
)

leases = sa.Table(
    PREFIX + "leases",
    metadata,
    _column("name", Words, primary_key=True),
    _column("holder", Words),
    _column("term", sa.BigInteger),
    _column("expires_at", Time),
)

channel_overrides = sa.Table(
    PREFIX + "channel_overrides",
    metadata,
    _column("channel", Words, primary_key=True),
    _column("settings", Words),
    _column("changed_at", Time),
)

counters = sa.Table(
    PREFIX + "counters",
    metadata,
    _column("day", sa.Integer, primary_key=True, autoincrement=False),
    _column("tenant", Words, primary_key=True),
    _column("channel", Words, primary_key=True),
    _column("name", Words, primary_key=True),
    _column("value", sa.BigInteger),
)

# SQLite has no sequences: one row with the last fence, and the latest time that the store has given out.
ticks = sa.Table(
    PREFIX + "ticks",
    metadata,
    _column("id", sa.Integer, primary_key=True, autoincrement=False),
    _column("fence", sa.BigInteger),
    _column("at", Time),
    info={"only": "sqlite"},
)

# Predicates of partial indexes are literals, or neither planner would see that a statement implies them.
SEND = dispatch.c.purpose == sa.literal_column("'send'")
APART = dispatch.c.purpose != sa.literal_column("'send'")
"""What waits for something other than a call. Few rows do, so that one index serves them all."""
HOLD = dispatch.c.purpose == sa.literal_column("'hold'")
LOOKUP = dispatch.c.purpose == sa.literal_column("'lookup'")
LEASED = dispatch.c.leased == sa.true()
FREE = sa.not_(dispatch.c.leased)
ARMED = dispatch.c.armed == sa.true()
UNREAD = inbox.c.unread == sa.true()
WAITING = drafts.c.waiting == sa.true()
UNARMED = sa.not_(dispatch.c.armed)
QUARANTINED = addresses.c.quarantined_at.is_not(None)
REFUSED = sa.and_(addresses.c.refused_by.is_not(None), addresses.c.invalidated_at.is_not(None))
OPEN = receipts.c.look_at.is_not(None)


def _index(name: str, *columns: Any, where: Any = None, unique: bool = False) -> None:
    partial = {} if where is None else {"postgresql_where": where, "sqlite_where": where}
    sa.Index(PREFIX + name, *columns, unique=unique, **partial)


_index("events_event_id", events.c.event_id)
_index("events_subject", events.c.subject_key, where=events.c.subject_key.is_not(None))
_index("events_open", events.c.created_at, where=sa.not_(events.c.expanded))
_index("events_age", events.c.created_at, events.c.key, unique=True)
_index("event_recipients_age", journal.c.created_at, journal.c.key)
_index("addresses_key", addresses.c.key, unique=True)
_index("addresses_recipient", addresses.c.tenant, addresses.c.recipient)
_index("addresses_quarantined", addresses.c.refused_by, addresses.c.id, where=QUARANTINED)
_index("addresses_refused", addresses.c.refused_by, addresses.c.invalidated_at, where=REFUSED)
_index("notifications_event", notifications.c.event_key)
_index("notifications_created", notifications.c.created_at, notifications.c.id)
_index("notifications_recipient", notifications.c.tenant, notifications.c.recipient)
_index(
    "dispatch_claim",
    dispatch.c.lane,
    dispatch.c.priority,
    dispatch.c.due_at,
    dispatch.c.id,
    where=sa.and_(SEND, ARMED, FREE),
)
_index("dispatch_lease", dispatch.c.due_at, where=LEASED)
_index("dispatch_arm", dispatch.c.due_at, where=sa.and_(SEND, UNARMED, FREE))
_index("dispatch_apart", dispatch.c.purpose, dispatch.c.due_at, where=sa.and_(APART, FREE))
_index("dispatch_expiry", dispatch.c.expires_at, where=sa.and_(dispatch.c.expires_at.is_not(None), FREE))
_index("dispatch_age", dispatch.c.lane, dispatch.c.created_at, where=FREE)
_index("dispatch_collapse", dispatch.c.collapse_key, where=dispatch.c.collapse_key.is_not(None))
_index("inbox_notification", inbox.c.notification_id, unique=True)
_index("inbox_unread", inbox.c.key, inbox.c.seq, where=UNREAD)
_index("inbox_marked", inbox.c.key, inbox.c.marked, where=inbox.c.marked.is_not(None))
_index("timeline_notification", timeline.c.notification_id, timeline.c.id)
_index("notification_failures_age", failures.c.failed_at, failures.c.id)
_index("notification_failures_driver", failures.c.tenant, failures.c.driver_id)
_index("provider_refs_age", provider_refs.c.created_at, provider_refs.c.key)
_index("receipts_age", receipts.c.created_at, receipts.c.key)
_index("receipts_open", receipts.c.look_at, where=OPEN)
_index("receipts_ref", receipts.c.ref, where=sa.and_(OPEN, receipts.c.ref.is_not(None)))
_index("outbox_event", outbox.c.event_key, unique=True)
_index("drafts_notification", drafts.c.notification_id, unique=True)
_index("drafts_name", drafts.c.tenant, drafts.c.name)
_index("drafts_created", drafts.c.created_at, drafts.c.notification_id)
_index("drafts_waiting", drafts.c.created_at, drafts.c.notification_id, where=WAITING)
