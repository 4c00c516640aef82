"""Bring a database to the schema that this program needs. Alembic is imported here, and only when called."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ringonce.errors import SchemaError
from ringonce.store.backend import revisions, stored_version

if TYPE_CHECKING:
    from alembic.config import Config

LOCK = 0x72696E67  # "ring": transaction advisory lock, so that two programs do not migrate at once


def _config(**attributes: Any) -> Config:
    from alembic.config import Config

    config = Config(output_buffer=attributes.pop("output_buffer", None))
    config.set_main_option("script_location", "ringonce.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes.update(attributes)
    return config


def upgrade(connection: sa.Connection) -> tuple[str | None, str]:
    """Apply what is missing, in the connection's transaction: (revision before, revision now).

    Raises:
        SchemaError: The database is newer than this program.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    before, known = stored_version(connection), revisions()
    if before is not None and before not in known:
        raise SchemaError(
            f"the schema {before} is newer than this program knows ({known[-1]})", mend="upgrade ringonce"
        )
    if before != known[-1]:
        from alembic import command

        command.upgrade(_config(connection=connection), "head")
    return before, known[-1]


def script(dialect: str) -> str:
    """The statements that an empty database needs, for a DBA to read and run (``postgresql`` or ``sqlite``)."""
    from alembic import command

    buffer = io.StringIO()
    command.upgrade(_config(dialect=dialect, output_buffer=buffer), "head", sql=True)
    return buffer.getvalue()
