"""Deliveries per second of one process, through the provider ``fcm``, and of others that do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.kit.ringonce import on_postgres

if TYPE_CHECKING:
    from benchmarks.kit.context import Context


def run(context: Context) -> dict[str, Any]:
    """Alternate all variants."""
    count = context.size(20_000)
    rounds = context.alternate(
        {"ringonce": lambda: on_postgres(context, count)}, ("rate", "cpu", "cpu_postgres")
    )
    return {"title": "Deliveries", "rounds": rounds}
