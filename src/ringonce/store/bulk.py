"""INSERT of many rows in one statement, in which what all rows share travels once instead of as an array."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ringonce.store.dialect import Dialect


class Bulk:
    """One statement for a table, built once.

    Drivers encode arrays element by element, so of a new notification's 29 columns only those that differ are sent
    for each row.
    """

    def __init__(
        self,
        dialect: Dialect,
        table: sa.Table,
        names: Sequence[str],
        shared: Sequence[str] = (),
        **computed: sa.ColumnElement[Any],
    ) -> None:
        """``names``: the columns in the order of the rows.

        ``shared``: those of them that are mostly equal in all rows. ``computed``: further columns, which the
        database fills.
        """
        own = [name for name in names if name not in shared]
        self._rows = dialect.given("r", **{name: table.c[name].type for name in own})
        picks = [
            sa.bindparam(f"b_{name}", type_=table.c[name].type) if name in shared else self._rows.c[name]
            for name in names
        ]
        select = sa.select(*picks, *computed.values()).select_from(self._rows.table).where(sa.true())
        self.insert = dialect.insert(table).from_select([*names, *computed], select)
        self._names = [f"b_{name}" for name in names if name in shared]
        self._shared = _picker([index for index, name in enumerate(names) if name in shared])
        self._own = _picker([index for index, name in enumerate(names) if name not in shared])

    def bind(self, rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
        """Parameters, once for each run of rows that have the shared columns in common. The order stays."""
        for shared, some in groupby(rows, self._shared):
            yield self._rows.bind(list(map(self._own, some))) | dict(zip(self._names, shared, strict=True))

    def execute(
        self, connection: sa.Connection, rows: Sequence[Sequence[Any]], statement: Any = None, **more: Any
    ) -> list[Any]:
        """Insert all; what ``statement``, made of ``insert``, returns. ``more``: parameters besides the rows."""
        found: list[Any] = []
        for parameters in self.bind(rows):
            result = connection.execute(self.insert if statement is None else statement, parameters | more)
            if result.returns_rows:
                found += result.all()
        return found


def _picker(indexes: list[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes these items out of a row, as a tuple whatever their number."""
    match indexes:
        case []:
            return lambda _: ()
        case [index]:
            return lambda row: (row[index],)
        case _:
            return itemgetter(*indexes)
