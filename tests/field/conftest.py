"""What the tests of field reports share: a running library on each database, and a folder of templates."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ringonce.app import Ringonce
from tests.crash.conftest import url  # noqa: F401 - fixture
from tests.requirements.conftest import migrated, receiver, start, store_url  # noqa: F401 - fixtures
from tests.requirements.test_push import api, browsers  # noqa: F401 - fixtures
from tests.wire.conftest import http  # noqa: F401 - fixture

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a template."""

    def keep(text: str, name: str = "t", file: str = "en.toml") -> None:
        path = tmp_path / "templates" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return keep


@pytest.fixture(params=["sqlite", "postgres"])
async def ringonce(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ringonce]:
    """Channels: ``box`` (sandbox), ``mail`` (smtp) and ``chat`` (4,096 UTF-16 units)."""
    database = f"sqlite:///{tmp_path}/ringonce.db"
    if request.param == "postgres":
        database = request.getfixturevalue("pg_database").url("asyncpg")
    library = Ringonce(
        {
            "store": {"url": database},
            "templates": {"path": str(tmp_path / "templates")},
            "retry": {"cycle": "10ms"},
            "channels": {
                "box": {"provider": "sandbox"},
                "mail": {"provider": "smtp", "url": "smtp://127.0.0.1:1", "from": "shop@example.com"},
                "chat": {"provider": "telegram", "token": "1:abc"},
            },
        }
    )
    await library.migrate()
    async with library:
        yield library
