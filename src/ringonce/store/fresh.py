"""All tables at once, in a database that is new and lives as long as its process."""

from __future__ import annotations

import sqlalchemy as sa

from ringonce.store.schema import VERSION_TABLE, metadata, ticks


def create(connection: sa.Connection, revision: str) -> None:
    """Build everything in SQLite's memory, without migrations (and without Alembic): nothing there outlives us."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(ticks.insert().values(id=1, fence=0, at=0))
    version = sa.Table(VERSION_TABLE, sa.MetaData(), sa.Column("version_num", sa.Text, primary_key=True))
    version.create(connection)
    connection.execute(version.insert().values(version_num=revision))
