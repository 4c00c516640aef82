"""The configuration as the program sees it: frozen, with microseconds for times and no secret in its repr."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ringonce.model.draft import DraftModes
from ringonce.model.policy import SECOND
from ringonce.model.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.model.policy import Channel

DEFAULT_FILE = "ringonce.toml"


class Journal(StrEnum):
    """How SQLite keeps its journal."""

    AUTO = "auto"
    WAL = "wal"
    DELETE = "delete"


class Synchronous(StrEnum):
    """How far SQLite waits for the disk."""

    FULL = "full"
    NORMAL = "normal"


class Switch(StrEnum):
    """Decided by what is found, or said."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


class SqliteModule(StrEnum):
    """Which SQLite library is loaded."""

    AUTO = "auto"
    STDLIB = "stdlib"
    PYSQLITE3 = "pysqlite3"


class Published(StrEnum):
    """Events of ours."""

    DISPATCHED = "notification.dispatched"
    STATUS_CHANGED = "notification.status_changed"
    ADDRESS_INVALIDATED = "address.invalidated"
    DRAFT_CREATED = "draft.created"
    DRAFT_REGENERATED = "draft.regenerated"
    DRAFT_APPROVED = "draft.approved"
    DRAFT_REJECTED = "draft.rejected"


class OutboxKind(StrEnum):
    """Where events of ours go."""

    TABLE = "table"
    KAFKA = "kafka"
    REDIS = "redis"
    NATS = "nats"
    RABBITMQ = "rabbitmq"
    WEBHOOK = "webhook"


class Settings(dict[str, object]):
    """A provider's own keys. Its repr shows no text, because any of them may be or hold a secret."""

    def __repr__(self) -> str:
        return repr({key: "***" if _may_be_secret(value) else value for key, value in self.items()})


def _may_be_secret(value: object) -> bool:
    return not isinstance(value, (bool, int, float))


def without_password(url: str) -> str:
    """A URL as it may be shown: the password and the query replaced."""
    shown = re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", url)
    return re.sub(r"\?.*", "?***", shown)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The database."""

    url: str = field(default="sqlite:///ringonce.db", repr=False)
    journal: Journal = Journal.AUTO
    synchronous: Synchronous = Synchronous.FULL
    sqlite_module: SqliteModule = SqliteModule.AUTO
    pool_size: int = 5
    listen: Switch = Switch.AUTO
    pgbouncer: Switch = Switch.AUTO
    timeout: int = 30 * SECOND
    oldest_snapshot: int | None = 30 * SECOND

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return without_password(self.url)

    @property
    def sqlite(self) -> bool:
        """The database is an SQLite file or memory."""
        return self.url.startswith("sqlite")

    @property
    def sqlite_file(self) -> Path | None:
        """The SQLite file."""
        name = self.url.partition(":///")[2].partition("?")[0] if self.sqlite else ""
        return Path(name) if name and name != ":memory:" else None

    @property
    def new_file(self) -> bool:
        """The SQLite file does not exist yet, or is empty."""
        file = self.sqlite_file
        return file is not None and file.parent.is_dir() and not (file.exists() and file.stat().st_size)


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """The retry cycle."""

    cycle: int = SECOND


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The worker process. ``uvloop``: the event loop, also of ``up``. ``share_credentials``: by way of the database."""

    grace: int = 30 * SECOND
    processes: int = 1
    metrics: tuple[str, int] | None = None
    uvloop: Switch = Switch.AUTO
    share_credentials: bool = True


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """High-priority types: each definitive failure of one is written to the failure audit."""

    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """Where alerts are sent besides the log and the metrics: over a channel, through the engine itself."""

    channel: str | None = None
    to: str | None = field(default=None, repr=False)
    kinds: tuple[str, ...] = ()
    window: int = 600 * SECOND
    backlog: int | None = 900 * SECOND


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What is accepted at most."""

    max_payload: int = 262_144


@dataclass(frozen=True, slots=True)
class TemplatesConfig:
    """Where texts come from, and for whom they are written when nothing is known of the recipient."""

    path: str = "templates"
    locale: str = "en"
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """What user-supplied endpoints may reach."""

    allow_private_networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutboxConfig:
    """Where events of ours go."""

    kind: OutboxKind = OutboxKind.TABLE
    events: tuple[Published, ...] = (Published.DISPATCHED,)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of the API that sees one tenant only."""

    name: str
    key: str = field(repr=False)
    tenant: str


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """Where the application answers whether a subject is still wanted. ``timeout`` in microseconds."""

    url: str = field(default="", repr=False)
    timeout: int = 2 * SECOND


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """The HTTP API. ``key`` sees all tenants, each of ``keys`` one."""

    host: str = "127.0.0.1"
    port: int = 8070
    key: str | None = field(default=None, repr=False)
    keys: tuple[ApiKey, ...] = ()
    public_url: str = ""

    @property
    def locked(self) -> bool:
        """Nobody calls it without a key."""
        return self.key is not None or bool(self.keys)


@dataclass(frozen=True, slots=True)
class Config:
    """All of it. ``given``: the keys that were written for each channel; what is not comes from its provider.

    ``file`` is None when there was none.
    """

    store: StoreConfig = field(default_factory=StoreConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    retention: Retention = field(default_factory=Retention)
    audit: AuditConfig = field(default_factory=AuditConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    templates: TemplatesConfig = field(default_factory=TemplatesConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    outbox: OutboxConfig = field(default_factory=OutboxConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    drafts: DraftModes = field(default_factory=DraftModes)
    guards: Mapping[str, GuardConfig] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    given: Mapping[str, frozenset[str]] = field(default_factory=dict)
    file: Path | None = None
