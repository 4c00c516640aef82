"""Every key of ``ringonce.toml``, as data: the loader reads by it and the reference page is made from it."""

from __future__ import annotations

from ringonce.config import kinds, traffic
from ringonce.config.model import (
    AlertsConfig,
    ApiConfig,
    ApiKey,
    AuditConfig,
    GuardConfig,
    Journal,
    LimitsConfig,
    OutboxConfig,
    OutboxKind,
    Published,
    RetryConfig,
    SecurityConfig,
    SqliteModule,
    StoreConfig,
    Switch,
    Synchronous,
    TemplatesConfig,
    WorkerConfig,
)
from ringonce.config.reader import Key
from ringonce.model.draft import DraftMode, DraftModes
from ringonce.model.policy import DAY, SECOND, BackoffKind, InDoubt, OnAuth
from ringonce.model.retention import JOURNAL_LEAST, STATUSES, Retention

MILLISECOND = 1_000
LATER_OUTBOX = tuple(str(kind) for kind in OutboxKind if kind is not OutboxKind.TABLE)


def tenant_keys() -> kinds.Kind:
    """A table of keys by name."""
    mend = 'write NAME = { key = "…", tenant = "…" }'

    def convert(value: object) -> object:
        table = kinds.inline(value) if isinstance(value, kinds.EnvText) else value
        if not isinstance(table, dict):
            raise kinds.Bad(f"expected a table, found {kinds.shown(value)}", mend)
        made: list[ApiKey] = []
        for name, entry in table.items():
            if not isinstance(entry, dict) or set(entry) != {"key", "tenant"}:
                raise kinds.Bad(f"{name} needs key and tenant, and nothing else", mend)
            key, tenant = entry["key"], entry["tenant"]
            if not (isinstance(key, str) and key.strip() and isinstance(tenant, str) and tenant.strip()):
                raise kinds.Bad(f"key and tenant of {name} are texts that are not empty", mend)
            if any(other.key == key for other in made):
                raise kinds.Bad(f"{name} has the key of another one", "one key for each")
            made.append(ApiKey(str(name), str(key), str(tenant)))
        return tuple(made)

    return kinds.Kind("table", convert)


SECTIONS: dict[str, tuple[type, tuple[Key, ...]]] = {
    "store": (
        StoreConfig,
        (
            Key("url", kinds.text(), "SQLAlchemy URL of the SQLite file or the PostgreSQL database."),
            Key(
                "journal",
                kinds.choice(Journal),
                "SQLite only. `auto`: WAL where this SQLite build is sound, otherwise the rollback journal.",
            ),
            Key(
                "synchronous",
                kinds.choice(Synchronous),
                "SQLite only. `normal` is faster and may lose the last commits when the power fails.",
            ),
            Key(
                "sqlite_module",
                kinds.choice(SqliteModule),
                "SQLite only. `auto`: pysqlite3 where it is installed. Inside an application that opens the same file "
                "itself, name the library that it uses: two of them on one file lose commits.",
            ),
            Key(
                "pool_size",
                kinds.integer(least=1, most=1_000),
                "PostgreSQL only: connections at most; those for hints (`listen`) come on top.",
            ),
            Key(
                "listen",
                kinds.switch(Switch),
                "PostgreSQL only: workers of other processes hear of new work at once (LISTEN, NOTIFY), by two "
                "connections for each worker and one for each process that accepts. `auto`: on, and off where no "
                "hint arrives, as behind PgBouncer in transaction mode: then they look at least every 1.5 s.",
            ),
            Key(
                "pgbouncer",
                kinds.switch(Switch),
                "PostgreSQL only: no statement stays prepared, as a pooler in transaction mode needs it. `auto`: "
                "where somebody stands between ringonce and the server.",
            ),
            Key(
                "timeout",
                kinds.duration(least=SECOND, most=DAY),
                "PostgreSQL only: how long one transaction may take before its connection is given up.",
            ),
            Key(
                "oldest_snapshot",
                kinds.duration_or_none(least=SECOND),
                "PostgreSQL only: alert when a session or slot holds a snapshot for longer.",
            ),
        ),
    ),
    "retry": (
        RetryConfig,
        (
            Key(
                "cycle",
                kinds.duration(least=10 * MILLISECOND, most=DAY),
                "How often due retries are released: a retry starts up to this much after `next_attempt_at`.",
            ),
        ),
    ),
    "worker": (
        WorkerConfig,
        (
            Key(
                "grace",
                kinds.duration(),
                "How long running sends may take to finish when the worker is stopped.",
            ),
            Key(
                "processes",
                kinds.integer(least=1, most=256),
                "PostgreSQL only: how many processes `ringonce worker` starts; one that dies is started again.",
            ),
            Key(
                "metrics",
                kinds.endpoint(),
                "Where `ringonce worker` answers `/metrics`, `/healthz` and `/readyz`, without a key. With several "
                "processes the parent takes this port, and the children those after it. Default: nowhere.",
            ),
            Key(
                "uvloop",
                kinds.switch(Switch),
                "The event loop of `worker` and `up`. `auto`: uvloop where it is installed (extra `fast`).",
            ),
            Key(
                "share_credentials",
                kinds.flag(),
                "One worker fetches a provider's access token for all, and leaves it in the database, sealed with the "
                "account's own secret. `false`: each process fetches its own, and none is stored.",
            ),
        ),
    ),
    "retention": (
        Retention,
        (
            *(
                Key(
                    status,
                    kinds.duration_or_none(least=SECOND),
                    f"Notifications whose life ended as {status}.",
                )
                for status in STATUSES
            ),
            Key(
                "drafts",
                kinds.duration_or_none(least=SECOND),
                "Drafts whose life is over, instead of what their status says. `none`: always, for a key that is "
                "forgotten can be answered once more.",
            ),
            Key(
                "inbox_read",
                kinds.duration_or_none(least=SECOND),
                "In-app copies that were read; never shorter than their status demands.",
            ),
            Key("inbox_unread", kinds.duration_or_none(least=SECOND), "In-app copies that were not read."),
            Key(
                "attempts",
                kinds.duration_or_none(least=SECOND),
                "Attempts of notifications that are over; `none`: as long as the notification.",
            ),
            Key(
                "journal",
                kinds.duration_or_none(least=JOURNAL_LEAST),
                "How long an event that is told again is recognised (90 days at least). Longer than your sources keep "
                "theirs. Also refuses events whose `occurred_at` is older.",
            ),
            Key(
                "outbox",
                kinds.duration_or_none(least=SECOND),
                "Events of ours, since they were published. What is not published stays.",
            ),
            Key(
                "outbox_table",
                kinds.duration_or_none(least=SECOND),
                'The same with `outbox.kind = "table"`, which nobody publishes: since they were made.',
            ),
            Key(
                "audit",
                kinds.duration_or_none(least=SECOND),
                "Rows of the failure audit (`[audit]`), since the failure. Their notifications may be gone before.",
            ),
            Key(
                "addresses",
                kinds.duration_or_none(least=SECOND),
                "Addresses that were dropped, and those that were only named by `to`, when no notification is left "
                "that names them.",
            ),
            Key(
                "cancellations",
                kinds.duration_or_none(least=SECOND),
                "Withdrawn subjects: so long nothing is sent of them, whenever it is accepted.",
            ),
        ),
    ),
    "audit": (
        AuditConfig,
        (
            Key(
                "types",
                kinds.sequence(kinds.text()),
                "Event types whose definitive failures are kept in the table `notification_failures`.",
            ),
        ),
    ),
    "alerts": (
        AlertsConfig,
        (
            Key(
                "channel",
                kinds.text(),
                "The channel that carries alerts. Default: none, log and metrics only.",
            ),
            Key("to", kinds.text(), "The address on that channel."),
            Key("kinds", kinds.sequence(kinds.text()), "Which kinds of alerts are sent. Empty: all of them."),
            Key(
                "window",
                kinds.duration(least=SECOND, most=DAY),
                "Alerts of one kind, channel and code become one notification in so long.",
            ),
            Key(
                "backlog",
                kinds.duration_or_none(least=SECOND),
                "Alert (`stuck_backlog`) when something has been due for longer on a channel that is not stopped.",
            ),
        ),
    ),
    "limits": (
        LimitsConfig,
        (
            Key(
                "max_payload",
                kinds.size(least=1_024, most=16 * 1_048_576),
                "The largest event that is accepted.",
            ),
        ),
    ),
    "templates": (
        TemplatesConfig,
        (
            Key(
                "path",
                kinds.text(),
                "The folder of templates, seen from the configuration's own. It may be missing.",
            ),
            Key("locale", kinds.locale(), "The locale of recipients of whom none is known."),
            Key("timezone", kinds.timezone(), "The time zone of recipients of whom none is known."),
        ),
    ),
    "security": (
        SecurityConfig,
        (
            Key(
                "allow_private_networks",
                kinds.sequence(kinds.network()),
                "Private networks that user-supplied endpoints may reach; others are refused at send time.",
            ),
        ),
    ),
    "outbox": (
        OutboxConfig,
        (
            Key(
                "kind",
                kinds.choice(OutboxKind, later=LATER_OUTBOX),
                "Where events of ours go. `table`: kept for the library and `ringonce outbox list`.",
            ),
            Key(
                "events",
                kinds.sequence(kinds.choice(Published)),
                "Which events of ours are kept or published.",
            ),
        ),
    ),
    "drafts": (
        DraftModes,
        (
            Key("channel", kinds.text(), "The channel of a new draft that names none."),
            Key(
                "mode",
                kinds.choice(DraftMode),
                "`manual`: a draft waits until a person sends it. `auto`: it is queued when it is saved.",
            ),
            Key(
                "scenarios",
                kinds.table_of(kinds.choice(DraftMode)),
                'The mode by scenario, over `mode`: `{ praise = "auto", complaint = "manual" }`.',
            ),
        ),
    ),
    "api": (
        ApiConfig,
        (
            Key("host", kinds.text(), "Where the API listens. Anything but loopback needs `key`."),
            Key("port", kinds.integer(least=0, most=65_535), "The API's port; 0 takes a free one."),
            Key(
                "key",
                kinds.text(),
                "The key that callers present (`Authorization: Bearer …` or `X-API-Key`). It sees all tenants.",
            ),
            Key(
                "keys",
                tenant_keys(),
                'Keys that see one tenant only: `NAME = { key = "…", tenant = "…" }`.',
            ),
            Key(
                "public_url",
                kinds.http_url(),
                "Where providers reach the API, e.g. `https://notify.example.com`, when a proxy stands in front: some "
                "sign the URL that they call. Empty: as the call names it.",
            ),
        ),
    ),
}

NAMED_SECTIONS: dict[str, tuple[type, tuple[Key, ...]]] = {
    "guards": (
        GuardConfig,
        (
            Key(
                "url",
                kinds.http_url(),
                "Asked before every attempt of a notification whose `subject` begins with `NAME:`. Needed.",
            ),
            Key(
                "timeout",
                kinds.duration(least=10 * MILLISECOND, most=60 * SECOND),
                "How long an answer may take (10 seconds at most); without one the notification waits and is asked "
                "about again.",
            ),
        ),
    ),
}
"""Sections with a table for each name."""

LATER_SECTIONS = {
    "rules": "remove the section",
    "digest": "remove the section",
    "sources": "remove the section",
}

POLICY_KEYS = (
    Key("enabled", kinds.flag(), "Off: notifications wait until it is on again."),
    Key("max_attempts", kinds.integer(least=1, most=1_000), "Calls in all, the first included."),
    Key(
        "in_doubt",
        kinds.choice(InDoubt),
        "What to do about a call that began and got no verdict. Default: the provider's. `lookup` needs a "
        "provider that can be asked.",
    ),
    Key(
        "hold_for",
        kinds.duration(least=SECOND),
        'With `in_doubt = "hold"`, or `"lookup"` when the provider can not tell: assume sent after this long.',
    ),
    Key("on_auth", kinds.choice(OnAuth), "What a refused credential does to the notification."),
    Key(
        "rate_limited_factor",
        kinds.decimal(least=1, most=1_000),
        "How much longer the backoff is after a rate limit; never less than the provider's Retry-After.",
    ),
    Key(
        "max_age",
        kinds.duration_or_none(least=SECOND),
        "A notification that was due longer ago than this expires.",
    ),
    Key("timeout", kinds.duration(least=10 * MILLISECOND, most=DAY), "How long one call may take."),
    Key(
        "lease", kinds.duration(least=100 * MILLISECOND, most=DAY), "How long a dead worker keeps its claims."
    ),
    Key("concurrency", kinds.integer(least=1, most=10_000), "Calls at the same time, per worker."),
    Key(
        "mark",
        kinds.flag(),
        'Off, with `in_doubt = "resend"` only: calls begin with their claim, up to twice `concurrency` at a time. '
        "Faster, and so many more are in doubt after a crash.",
    ),
    Key("account", kinds.text(), "The name of the credential set, when two channels share one."),
    Key(
        "rate",
        traffic.rate(),
        'Calls over time, over all workers: `"50/s"`, `"3000/m"`. Without it: no limit.',
    ),
    Key(
        "burst",
        kinds.integer(least=1, most=1_000_000),
        "With `rate`: calls at once after a pause. Default: a tenth of a second's worth, at least 1.",
    ),
    Key(
        "circuit",
        traffic.circuit(),
        'When the provider counts as down, and for how long it is left alone; `"off"`: never.',
    ),
    Key(
        "mass_invalidation",
        traffic.mass_invalidation(),
        'When so many verdicts against addresses are doubted rather than believed; `"off"`: never.',
    ),
    Key(
        "lanes",
        traffic.shares(),
        'Tenants with a lane of their own: `{ acme = 3 }` or `{ acme = { weight = 3, rate = "10/s" } }`; over '
        "`[lanes]`.",
    ),
)

BACKOFF_KEYS = (
    Key("kind", kinds.choice(BackoffKind), "How delays grow."),
    Key("base", kinds.duration(), "The delay of `fixed`, the first one of `exponential`."),
    Key(
        "factor", kinds.decimal(least=1, most=1_000), "`exponential`: each delay is this many times the last."
    ),
    Key("cap", kinds.duration(), "The longest delay."),
    Key(
        "delays", kinds.sequence(kinds.duration(), least=1), "The delays of `schedule`; the last one repeats."
    ),
    Key("jitter", kinds.jitter(), 'Random addition: `"1s"` at most, or `"10%"` of the delay.'),
)

BUDGET_KEYS = (
    Key("transient", kinds.integer(most=1_000), "Retries after 5xx, timeouts and broken connections."),
    Key("rate_limited", kinds.integer(most=1_000), "Retries after rate limits."),
    Key(
        "unknown",
        kinds.integer(most=1_000),
        "Retries after calls without a verdict. Default: the provider's.",
    ),
)

FLOOR_KEYS = (
    Key("greylist", kinds.duration(), "The shortest delay after greylisting."),
    Key("rate_limited", kinds.duration(), "The shortest delay after a rate limit."),
)

LANES = traffic.shares()
"""``[lanes]``: the tenants that have a lane of their own on every channel."""

TABLES_OF_A_CHANNEL = {"backoff": BACKOFF_KEYS, "budgets": BUDGET_KEYS, "floors": FLOOR_KEYS}
