"""``ringonce.toml`` and ``RINGONCE_*`` → a frozen Config.

``keys`` lists every key, ``sources`` tells how variables and references to secrets are written.
"""

from __future__ import annotations

from ringonce.config.channels import CHANGEABLE, CHANNEL_KEYS, change, refuse_lookup, with_provider_defaults
from ringonce.config.load import from_mapping, load
from ringonce.config.model import DEFAULT_FILE, Config, Settings, without_password

__all__ = [
    "CHANGEABLE",
    "CHANNEL_KEYS",
    "DEFAULT_FILE",
    "Config",
    "Settings",
    "change",
    "from_mapping",
    "load",
    "refuse_lookup",
    "with_provider_defaults",
    "without_password",
]
