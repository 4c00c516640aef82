"""Event -> notifications: the rules of ``core.plan``, with ids, stepped through the table."""

from __future__ import annotations
