"""The database: one implementation of ``ports.Store`` for SQLite and PostgreSQL. The only room with SQL."""

from ringonce.store.callers import enqueue_on, enqueue_on_async
from ringonce.store.factory import StoreOptions, make_store, make_wakeup, migrate, open_store, schema_version
from ringonce.store.migrate import script as migration_script
from ringonce.store.store import SqlStore

__all__ = [
    "SqlStore",
    "StoreOptions",
    "enqueue_on",
    "enqueue_on_async",
    "make_store",
    "make_wakeup",
    "migrate",
    "migration_script",
    "open_store",
    "schema_version",
]
