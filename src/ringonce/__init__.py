"""ringonce: a notification reaches the person once, or you can see exactly why it did not.

``Ringonce`` is the library; every name here is imported when it is first used, so that ``import ringonce`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringonce.app import Ringonce
    from ringonce.errors import (
        ConfigError,
        ConflictError,
        InputError,
        NotFoundError,
        PayloadTooLarge,
        RingonceError,
        SchemaError,
        SqliteBuildError,
        StoreError,
        StoreUnavailable,
        TemplateError,
    )
    from ringonce.model.notification import Status
    from ringonce.model.records import Accepted, Life, Row
    from ringonce.model.transition import Verdict
    from ringonce.provider import Provider

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "ConfigError",
    "ConflictError",
    "InputError",
    "Life",
    "NotFoundError",
    "PayloadTooLarge",
    "Provider",
    "Ringonce",
    "RingonceError",
    "Row",
    "SchemaError",
    "SqliteBuildError",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "TemplateError",
    "Verdict",
]

_HOMES = {
    "Ringonce": "ringonce.app",
    "Status": "ringonce.model.notification",
    "Accepted": "ringonce.model.records",
    "Life": "ringonce.model.records",
    "Row": "ringonce.model.records",
    "Verdict": "ringonce.model.transition",
    "Provider": "ringonce.provider",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "ringonce.errors")), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
