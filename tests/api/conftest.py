"""A running library on a file of its own, with scripted channels, and the API around it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ringonce.api.app import create_app
from ringonce.app import Ringonce
from tests.api.asgi import Caller

LIMIT = 4_096


@pytest.fixture
async def ringonce(tmp_path: Path) -> AsyncIterator[Ringonce]:
    """Channels: ``ok`` accepts everything, ``dead`` refuses the recipient, ``doubt`` never gives a verdict."""
    config = {
        "store": {"url": f"sqlite:///{tmp_path}/ringonce.db"},
        "retry": {"cycle": "10ms"},
        "limits": {"max_payload": LIMIT},
        "channels": {
            "ok": {"provider": "sandbox"},
            "dead": {"provider": "sandbox", "script": ["invalid_recipient"]},
            "doubt": {"provider": "sandbox", "script": ["timeout"], "in_doubt": "hold"},
        },
    }
    async with Ringonce(config) as ringonce:
        yield ringonce


@pytest.fixture
def api(ringonce: Ringonce) -> Caller:
    """A caller of the API without a key."""
    return Caller(create_app(ringonce, max_payload=LIMIT))
