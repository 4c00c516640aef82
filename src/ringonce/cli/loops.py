"""The event loop of what runs long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.config.model import Switch
from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from ringonce.config import Config


def fast_loop(config: Config) -> Callable[[], AbstractEventLoop] | None:
    """uvloop, for what runs long; None: asyncio's own. Raises ConfigError: wanted, and not installed."""
    wanted = config.worker.uvloop
    if wanted is Switch.FALSE:
        return None
    try:
        import uvloop
    except ModuleNotFoundError:
        if wanted is Switch.TRUE:
            raise ConfigError(
                "uvloop is not installed", field="worker.uvloop", mend='pip install "ringonce[fast]"'
            ) from None
        return None
    make: Callable[[], AbstractEventLoop] = uvloop.new_event_loop
    return make
