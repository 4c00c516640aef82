"""Event -> notifications: the rules of ``core.plan``, with ids, stepped through the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.machine import step
