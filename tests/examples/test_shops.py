"""The example applications as their readers run them: a server, a worker, a mail server, real HTTP."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ringonce.vendors.smtp import MailServer
from tests.servers.postgres import fresh_database

EXAMPLES = Path(__file__).parents[2] / "examples"
WSGI = """
from wsgiref.simple_server import make_server
from {module} import {name} as application
with make_server("127.0.0.1", 0, application) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""
ASGI = """
import socket, uvicorn
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config("app:app", log_level="error")).run(sockets=[server])
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One example: what its reader types before it serves, how it is served, its drivers, who delivers."""

    folder: str
    setup: tuple[tuple[str, ...], ...]
    server: str
    sqlite: str = "sqlite"
    postgres: str = "postgresql"
    own_worker: bool = False


RINGONCE = ("-m", "ringonce")
MIGRATE = (*RINGONCE, "migrate")
RECIPES = {
    "django": Recipe(
        "django_shop",
        (("manage.py", "migrate"), MIGRATE),
        WSGI.format(module="shop.wsgi", name="application"),
    ),
    "fastapi": Recipe(
        *("fastapi_app", (MIGRATE,), ASGI, "sqlite+aiosqlite", "postgresql+asyncpg"),
        own_worker=True,
    ),
    "flask": Recipe(
        "flask_app",
        (("-m", "flask", "--app", "app", "create-tables"), MIGRATE),
        WSGI.format(module="app", name="app"),
        postgres="postgresql+psycopg",
    ),
}


@dataclass(slots=True)
class Shop:
    """A running example."""

    recipe: Recipe
    folder: Path
    environment: dict[str, str]
    mail: MailServer
    port: int = 0
    errors: list[str] = field(default_factory=list)

    def python(self, *arguments: str) -> str:
        """Run a program in the example's folder; its standard output."""
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Run its server, which must end with nothing to complain of."""
        with subprocess.Popen(
            [sys.executable, "-c", self.recipe.server],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                self.port = int(line)
                yield
            finally:
                process.terminate()
                _, complaints = process.communicate(timeout=120)
            assert "Traceback" not in complaints
            assert "Warning" not in complaints

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        """One request: status and answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urlopen(request, timeout=120) as answer:  # noqa: S310 - to loopback
                return answer.status, json.load(answer)
        except HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}

    def deliver(self, count: int) -> list[str]:
        """Let a worker do its work; who got mail."""
        if self.recipe.own_worker:
            assert self.mail.ledger.wait_for(lambda entries: len(entries) >= count, 120)
        else:
            self.python(*RINGONCE, "worker", "--drain")
        return sorted(entry.address for entry in self.mail.ledger.entries)


@pytest.fixture(
    params=[
        "django-sqlite",
        "django-postgres",
        "fastapi-sqlite",
        "fastapi-postgres",
        "flask-sqlite",
        # Differs from the others only in the driver, which the tests of the store have tried.
        pytest.param("flask-postgres", marks=pytest.mark.slow),
    ]
)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An example on a fresh database, set up as its page says, and served."""
    name, _, kind = request.param.partition("-")
    recipe = RECIPES[name]
    folder = Path(shutil.copytree(EXAMPLES / recipe.folder, tmp_path / recipe.folder))
    with ExitStack() as stack:
        mail = stack.enter_context(MailServer())
        if kind == "sqlite":
            url = f"{recipe.sqlite}:///shop.db"
        else:
            server = request.getfixturevalue("pg_server")
            database = stack.enter_context(fresh_database(server))
            url = database.url().replace("postgresql", recipe.postgres, 1)
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "SMTP_URL": f"smtp://127.0.0.1:{mail.port}",
            "PYTHONWARNINGS": "error",
        }
        shop = Shop(recipe, folder, environment, mail)
        for arguments in recipe.setup:
            shop.python(*arguments)
        stack.enter_context(shop.serve())
        yield shop


@pytest.mark.timeout(600)
def test_an_order_is_confirmed_once_or_never_happened(shop: Shop) -> None:
    """A placed order is confirmed by one mail; a refused one, and one that can not be confirmed, by none."""
    status, placed = shop.call("POST", "/orders", {"email": "ada@example.com", "item": "tea", "quantity": 2})
    assert status == 201
    many = {"email": "bob@example.com", "item": "tea", "quantity": 11}
    assert shop.call("POST", "/orders", many)[0] == 409
    status, answer = shop.call("POST", "/orders", {"email": "nobody", "item": "tea", "quantity": 1})
    assert status == 400
    assert "to.email" in str(answer)
    assert shop.deliver(1) == ["ada@example.com"]
    # The worker in the server writes the result after the mail server's reply.
    path = f"/orders/{placed['order']}/mails"
    while (found := shop.call("GET", path)) != (200, {"mails": ["sent"]}):
        assert found == (200, {"mails": ["pending"]})
    assert [entry.accepted for entry in shop.mail.ledger.entries] == [True]
    if shop.recipe.folder != "django_shop":
        assert shop.call("POST", "/invitations", {"email": "eve@example.com"})[0] == 202
        assert shop.deliver(2) == ["ada@example.com", "eve@example.com"]
