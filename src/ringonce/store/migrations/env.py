"""Alembic's entry: runs on the connection that it is given, in that connection's transaction."""

from __future__ import annotations

from typing import Any

from alembic import context

from ringonce.store.schema import VERSION_TABLE, metadata

options: dict[str, Any] = {"target_metadata": metadata, "version_table": VERSION_TABLE}
if context.is_offline_mode():
    dialect = context.config.attributes["dialect"]
    context.configure(dialect_name=dialect, literal_binds=True, **options)
else:
    context.configure(connection=context.config.attributes["connection"], **options)
with context.begin_transaction():
    context.run_migrations()
