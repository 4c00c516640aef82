"""``migrate`` and ``check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts import App


def register(app: App) -> None:
    """Add the commands."""
