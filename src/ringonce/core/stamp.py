"""How times are spelled for others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def spell_time(micros: int) -> str:
    """Microseconds UTC as RFC 3339 (section 5.6), e.g. ``2026-12-01T09:00:00.000000Z``."""
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
