"""The rows that ringonce writes for one notification, written by a bare INSERT per table: what cannot be saved."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.rig.fill import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import asyncpg

EPOCH = 5_000_000_000_000
"""Milliseconds: later than all ids of a benchmark."""
KEYS = {
    "events": {"key": "event", "event_id": "name"},
    "event_recipients": {"key": "entry", "event_key": "event", "recipient": "name"},
    "contents": {"id": "content"},
    "addresses": {"id": "address", "key": "entry", "recipient": "name", "value": "name"},
    "notifications": {
        "id": "id",
        "event_key": "event",
        "content_id": "content",
        "address_id": "address",
        "recipient": "name",
    },
    "dispatch": {"id": "id"},
}
"""The columns in which a copy differs, and what it has there."""


@dataclass(slots=True)
class Copies:
    """Makes copies of one notification's rows, table by table.

    Attributes:
        pattern: ``{table: {column: value}}``.
        lite: keys and ids are texts, as SQLite has them.
    """

    pattern: dict[str, dict[str, Any]]
    lite: bool
    made: int = field(default=0)

    def make(self, count: int) -> dict[str, list[list[Any]]]:
        """For each table the values of its columns, in their order: one list per column."""
        own = {kind: [make(number) for number in range(count)] for kind, make in self._kinds().items()}
        self.made += count
        return {
            table: [
                own[KEYS[table][name]] if name in KEYS[table] else [value] * count
                for name, value in self.pattern[table].items()
            ]
            for table in TABLES
        }

    def _kinds(self) -> dict[str, Callable[[int], Any]]:
        def key(_: int) -> Any:
            made = secrets.token_bytes(16)
            return made.hex() if self.lite else made

        def dated(_: int) -> Any:
            # As contents are: the time first.
            made = (self.made + EPOCH).to_bytes(6) + secrets.token_bytes(10)
            return made.hex() if self.lite else made

        def id_(_: int) -> Any:
            # As UUIDv7 are: the time first.
            made = uuid.UUID(bytes=(self.made + EPOCH).to_bytes(6) + secrets.token_bytes(10))
            return made.hex if self.lite else made

        return {
            "event": key,
            "entry": key,
            "content": dated,
            "id": id_,
            "name": lambda number: f"dHIoDxE7Hdg:APA91bH1Zj0kNa{f'bare-{self.made + number}':0>110}",
            # SQLite gives out the highest plus one: ours are below all.
            "address": lambda number: -1 - self.made - number,
        }


async def pattern_of(connection: asyncpg.Connection[Any], id_: str) -> dict[str, dict[str, Any]]:
    """The rows of one notification on PostgreSQL."""
    one = await connection.fetchrow("SELECT * FROM ringonce_notifications WHERE id = $1", uuid.UUID(id_))
    assert one is not None
    where = {"events": ("key", one["event_key"]), "event_recipients": ("event_key", one["event_key"])}
    where |= {"contents": ("id", one["content_id"]), "addresses": ("id", one["address_id"])}
    where |= {"notifications": ("id", one["id"]), "dispatch": ("id", one["id"])}
    found = {}
    for table, (column, value) in where.items():
        row = await connection.fetchrow(f"SELECT * FROM ringonce_{table} WHERE {column} = $1", value)
        assert row is not None
        found[table] = dict(row)
    return found


async def inserts(connection: asyncpg.Connection[Any]) -> dict[str, str]:
    """One INSERT … SELECT from unnest per table."""
    told = {}
    for table in TABLES:
        columns = await connection.fetch(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute"
            " WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            f"ringonce_{table}",
        )
        arrays = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(columns, 1))
        names = ", ".join(name for name, _ in columns)
        told[table] = f"INSERT INTO ringonce_{table} ({names}) SELECT * FROM unnest({arrays})"
    return told


def pattern_of_lite(connection: Any, id_: str) -> dict[str, dict[str, Any]]:
    """The rows of one notification on SQLite."""

    def row(table: str, column: str, value: object) -> dict[str, Any]:
        cursor = connection.execute(f"SELECT * FROM ringonce_{table} WHERE {column} = ?", (value,))
        names = [item[0] for item in cursor.description]
        return dict(zip(names, cursor.fetchone(), strict=True))

    one = row("notifications", "id", uuid.UUID(id_).hex)
    return {
        "events": row("events", "key", one["event_key"]),
        "event_recipients": row("event_recipients", "event_key", one["event_key"]),
        "contents": row("contents", "id", one["content_id"]),
        "addresses": row("addresses", "id", one["address_id"]),
        "notifications": one,
        "dispatch": row("dispatch", "id", one["id"]),
    }


def lines(columns: Sequence[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows instead of columns."""
    return zip(*columns, strict=True)
