"""Who may call, and that nothing is loaded from elsewhere."""

from pathlib import Path

import pytest

from ringonce.api.access import is_loopback
from ringonce.api.app import create_app
from ringonce.api.server import listen
from ringonce.app import Ringonce
from ringonce.errors import ConfigError
from tests.api.asgi import Caller


@pytest.fixture
def locked(ringonce: Ringonce) -> Caller:
    """The API with a key."""
    return Caller(create_app(ringonce, key="s3cret"), host="notify.example.com")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic s3cret"},
        {"x-api-key": ""},
        {"x-api-key": "s3cret "},
        {"x-api-key": "schlüssel"},
    ],
)
async def test_without_the_key_it_is_401(locked: Caller, headers: dict[str, str]) -> None:
    """With a key set, every other key is refused, on every route that shows or changes something."""
    for target in ("/v1/notifications", "/v1/channels", "/metrics", "/v1/report"):
        answer = await locked.get(target, headers=headers)
        assert (answer.status, answer.json["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("headers", [{"authorization": "Bearer s3cret"}, {"x-api-key": "s3cret"}])
async def test_the_key_opens(locked: Caller, headers: dict[str, str]) -> None:
    """The key is taken as a bearer token or as X-API-Key, under any host name."""
    assert (await locked.get("/v1/notifications", headers=headers)).status == 200


async def test_health_needs_no_key(locked: Caller) -> None:
    """Health checks work without the key."""
    assert (await locked.get("/healthz")).status == 200
    assert (await locked.get("/readyz")).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8070", 200), ("localhost", 200), ("[::1]:8070", 200), ("evil.example", 403), ("", 403)],
)
async def test_without_a_key_only_loopback_names_are_served(
    ringonce: Ringonce, host: str, status: int
) -> None:
    """A foreign name that resolves to this machine (DNS rebinding) is refused."""
    assert (await Caller(create_app(ringonce), host=host).get("/v1/channels")).status == status


async def test_without_a_key_no_foreign_page_is_served(api: Caller) -> None:
    """A request that a page of another origin sends is refused; one of the same origin is not."""
    foreign = await api.post("/v1/cancel", {"subject": "x"}, headers={"origin": "https://evil.example"})
    own = await api.post("/v1/cancel", {"subject": "x"}, headers={"origin": "http://127.0.0.1:8070"})
    assert (foreign.status, own.status) == (403, 200)


async def test_no_page_that_loads_from_foreign_hosts(api: Caller) -> None:
    """There is no /docs and no /redoc, which would load scripts from a content delivery network."""
    assert {(await api.get(path)).status for path in ("/docs", "/redoc")} == {404}


def test_listening_beyond_loopback_needs_a_key() -> None:
    """Without a key the server refuses to listen on anything but loopback."""
    with pytest.raises(ConfigError, match="RINGONCE_API_KEY"):
        listen("0.0.0.0", 0, key=None)
    listen("127.0.0.1", 0, key=None).close()
    listen("0.0.0.0", 0, key="k").close()


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    """A taken port is an error that names it and the mend."""
    with listen("127.0.0.1", 0, key=None) as taken:
        taken.listen()
        with pytest.raises(ConfigError, match="RINGONCE_API_PORT"):
            listen("127.0.0.1", taken.getsockname()[1], key=None)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    """Only what no other machine reaches is loopback."""
    assert is_loopback(host) is loopback


async def test_not_ready_when_the_database_is_away(tmp_path: Path) -> None:
    """/readyz is 503 when the database does not answer, /healthz stays 200, and no path of ours leaks."""
    ringonce = Ringonce({"store": {"url": f"sqlite:///{tmp_path}/ringonce.db"}})
    async with ringonce:
        api = Caller(create_app(ringonce))
        assert (await api.get("/readyz")).status == 200
    for target in ("/readyz", "/v1/notifications"):
        answer = await api.get(target)
        assert answer.status == 503
        assert str(tmp_path) not in answer.body.decode()
    assert (await api.get("/healthz")).status == 200
