"""Bad configurations, databases, files and answers: a clear error with its mend, the right exit code, nothing lost."""

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ringonce.app import Ringonce
from ringonce.errors import ConfigError, SqliteBuildError, StoreError, StoreUnavailable
from ringonce.vendors.script import Fault, Plan, Rule
from ringonce.vendors.webhook import WebhookReceiver
from tests.api.asgi import Caller
from tests.bad_input.conftest import CONFIG, LIMIT, Ring
from tests.servers.ports import closed_port
from tests.servers.postgres import Database, fresh_database

GOOD = {"to": {"ok": "ada"}, "content": {"text": "hello"}}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def line(event_id: str, **changes: object) -> bytes:
    """A good line with changes."""
    return json.dumps({**GOOD, "event_id": event_id, **changes}).encode()


def stored(ring: Ring) -> list[str]:
    """The ids of all accepted events."""
    return sorted(item["event_id"] for item in ring("list", "--json").json)


# --- configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[stroe]\n", "stroe: unknown key (did you mean store?)"),
        (b"[store]\nulr = 'x'\n", "store.ulr: unknown key (did you mean url?)"),
        (b"[channels.a]\nprovider = 'sandbox'\nmax_atempts = 3\n", "did you mean max_attempts?"),
        (b"[channels.a]\nprovider = 'webhok'\n", "webhook"),
        (b"[channels.a]\nprovider = 'webhook'\nsecert = 'x'\n", "did you mean secret?"),
        (b"[channels.a]\nprovider = 'sandbox'\nbackoff = { bse = '1s' }\n", "did you mean base?"),
        (b"[channels.a]\nprovider = 'sandbox'\ntimeout = 'soon'\n", "channels.a.timeout"),
        (b"[channels.a]\n", "provider"),
        (b"[store\n", "no TOML"),
        (b"\xff\xfe", "UTF-8"),
        (b"[store]\nurl = 'mysql://x'\n", "store.url"),
        (b"[store]\nurl = 5\n", "store.url"),
    ],
)
@pytest.mark.parametrize("command", ["check", "list", "worker"])
def test_a_wrong_configuration_ends_with_2(
    ring: Ring, folder: Path, text: bytes, said: str, command: str
) -> None:
    """Every command names the file's key and the nearest one, and ends with 2 (`check` with 1: it reports)."""
    (folder / "ringonce.toml").write_bytes(text)
    done = ring(command)
    assert done.code in ({1, 2} if command == "check" else {2})
    assert said in done.out + done.err
    assert "Traceback" not in done.err


def test_an_unknown_variable_suggests_the_nearest(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGONCE_STORE_ULR is an error like the key in the file."""
    monkeypatch.setenv("RINGONCE_STORE_ULR", "x")
    done = ring("list")
    assert done.code == 2
    assert "RINGONCE_STORE_ULR" in done.err
    assert "url" in done.err


def test_the_library_says_the_same(folder: Path) -> None:
    """ConfigError, before anything is opened."""
    with pytest.raises(ConfigError, match="did you mean store"):
        Ringonce({"stroe": {}})
    with pytest.raises(ConfigError, match="did you mean max_attempts"):
        Ringonce({"channels": {"a": {"provider": "sandbox", "max_atempts": 3}}})


# --- databases -----------------------------------------------------------------------------------------------------


def use(folder: Path, url: str, **store: str) -> None:
    """Point the configuration at another database."""
    more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in store.items())
    (folder / "ringonce.toml").write_text(f"[store]\nurl = {json.dumps(url)}\n{more}{CONFIG}")


COMMANDS = (("list",), ("worker", "--drain"), ("send", "--to", "ok=ada", "--text", "x"), ("migrate",))


def refused(ring: Ring, *said: str, commands: tuple[tuple[str, ...], ...] = COMMANDS) -> None:
    """Each command ends with 1 and one line that says this; `check` reports it."""
    for arguments in commands:
        done = ring(*arguments)
        assert (done.code, done.out) == (1, ""), arguments
        assert done.err.count("\n") == 1, done.err
        for words in said:
            assert words in done.err, arguments
    done = ring("check")
    assert done.code == 1
    assert all(words in done.out for words in said)


def test_an_unreachable_database(ring: Ring, folder: Path) -> None:
    """Host and port are named, the password is not, and it ends with 1 within moments."""
    use(folder, f"postgresql+asyncpg://ring:geheim@127.0.0.1:{closed_port()}/ring")
    refused(ring, "127.0.0.1", "reached")
    assert "geheim" not in ring("list").err + ring("check").out


async def test_an_unreachable_database_is_503(ringonce: Ringonce, api: Caller) -> None:
    """HTTP answers 503 with Retry-After while the database is away, and says nothing of ours; then it works again."""
    await ringonce.store.close()
    answer = await api.post("/v1/notifications", GOOD)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "nothing was stored" in answer.json["detail"]
    assert "ringonce.db" not in answer.body.decode()
    assert (await api.get("/readyz")).status == 503
    await ringonce.store.open()
    assert (await api.post("/v1/notifications", GOOD)).status == 202


def test_a_read_only_database(ring: Ring, folder: Path, pg_database: Database) -> None:
    """PostgreSQL that takes no writes: refused with the mend, readable all the same, nothing is lost."""
    use(folder, pg_database.url("asyncpg"))
    assert ring("migrate").code == 0
    assert ring("send", "--to", "ok=ada", "--text", "x", "--event-id", "e1").code == 0
    with pg_database.connect() as connection:
        connection.execute(f'ALTER DATABASE "{pg_database.name}" SET default_transaction_read_only = on')
    done = ring("send", "--to", "ok=ada", "--text", "x")
    assert done.code == 1
    assert "read-only" in done.err
    assert done.err.count("\n") == 1
    with pg_database.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f'ALTER DATABASE "{pg_database.name}" RESET default_transaction_read_only')
    assert stored(ring) == ["e1"]


def as_nobody(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user to whom the modes of files mean something; root may write everywhere.

    What it needs of Python is loaded before, for that user may not be able to reach it.
    """
    warm = folder.parent / f"{folder.name}-warm"
    warm.mkdir(exist_ok=True)
    shutil.copy(folder / "ringonce.toml", warm)
    for parent in folder.parents:
        if parent != Path("/") and not parent.stat().st_mode & 1:
            parent.chmod(parent.stat().st_mode | 0o011)
    nobody = pwd.getpwnam("nobody")
    drop = (
        f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})"
        if os.getuid() == 0
        else ""
    )
    code = f"""
import contextlib, io, os
from ringonce.cli.root import run
os.chdir({str(warm)!r})
with contextlib.redirect_stdout(io.StringIO()):
    assert run(["migrate"]) == run(["send", "--to", "ok=ada", "--text", "x"]) == 0
    open("x", "w").close()
    run(["send", "--file", "x"])
os.chdir({str(folder)!r})
{drop}
raise SystemExit(run({list(arguments)!r}))
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("read_only", ["file", "folder"])
def test_a_read_only_sqlite_file(folder: Path, read_only: str) -> None:
    """A file or folder that this user may not write: one line with the mend, exit 1, no traceback."""
    if read_only == "file":
        (folder / "ringonce.db").chmod(0o444)
        folder.chmod(0o777)
    else:
        (folder / "ringonce.db").unlink()
        folder.chmod(0o555)
    done = as_nobody(folder, "send", "--to", "ok=ada", "--text", "x")
    folder.chmod(0o755)
    assert done.returncode == 1, done.stderr
    assert "ringonce.db" in done.stderr
    assert "write" in done.stderr or "read-only" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_database_that_is_not_utf8(ring: Ring, folder: Path, pg_server: Database) -> None:
    """A PostgreSQL database in another encoding is refused, with the command that makes a right one."""
    name = f"latin_{os.getpid()}"
    with pg_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        from dataclasses import replace

        use(folder, replace(pg_server, name=name).url("asyncpg"))
        refused(ring, "UTF8")
    finally:
        with pg_server.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_an_affected_sqlite_build_on_a_wal_file(
    ring: Ring, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SQLite build that could lose commits in a WAL file is refused, with what to do; the file is not touched."""
    with sqlite3.connect(folder / "ringonce.db") as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    before = (folder / "ringonce.db").read_bytes()
    monkeypatch.setattr("ringonce.store.sqlite.SOUND", (99, 0, 0))
    ringonce = Ringonce(folder / "ringonce.toml")
    with pytest.raises(SqliteBuildError, match=r"ringonce\[sqlite\]"):
        await ringonce.open()
    assert (folder / "ringonce.db").read_bytes() == before


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///not/there/ringonce.db", "folder"),
        ("sqlite:///garbage.db", "not an SQLite database"),
        ("sqlite:///directory", "directory"),
    ],
)
def test_an_impossible_sqlite_file(ring: Ring, folder: Path, url: str, said: str) -> None:
    """A missing folder, a file of something else, a folder: named, exit 1, and left as they are."""
    (folder / "garbage.db").write_bytes(os.urandom(4096))
    (folder / "directory").mkdir()
    before = (folder / "garbage.db").read_bytes()
    use(folder, url)
    refused(ring, said)
    assert (folder / "garbage.db").read_bytes() == before
    assert not (folder / "not").exists()


def test_a_database_without_tables(ring: Ring, folder: Path, pg_database: Database) -> None:
    """An empty PostgreSQL: the mend is `ringonce migrate`, and that is all it takes."""
    use(folder, pg_database.url("psycopg"))
    refused(ring, "ringonce migrate", commands=(("list",), ("worker", "--drain")))
    assert ring("migrate").code == 0
    assert ring("list").code == 0


# --- files ---------------------------------------------------------------------------------------------------------


def test_good_and_bad_lines_mixed(ring: Ring, folder: Path) -> None:
    """Good lines are accepted, each bad one is listed with its number, field and mend, and the end is 1."""
    lines = [
        line("e1"),
        b"not json",
        line("e2", contnet={}),
        b"",
        line("e3", to={"emial": "a@b.org"}),
        line("e4", data={"x": "y" * LIMIT}),
        b'{"event_id":"e5","to":{"ok":"ada"},"content":{"text":"\xff"}}',
        b"\x00\x01\x02",
        line("e6"),
        line("e1"),
        line("e1", content={"text": "other"}),
        line("e7"),
    ]
    (folder / "x.jsonl").write_bytes(b"\n".join(lines))
    done = ring("send", "--file", "x.jsonl")
    assert done.code == 1
    for words in (
        "line 2: ",
        "line 3: [invalid_input] contnet: unknown field (did you mean content?)",
        "line 5: [unknown_channel] to: unknown channel 'emial' (did you mean email?)",
        "line 6: ",
        "line 7: ",
        "line 8: ",
        "line 11: [conflict] event_id: ",
    ):
        assert words in done.err + done.out
    assert "accepted 3 events (3 notifications), 1 known already, 7 bad" in done.out
    assert "Traceback" not in done.err
    assert stored(ring) == ["e1", "e6", "e7"]
    view = ring("send", "--file", "x.jsonl", "--json")
    assert (view.code, view.json["accepted"], view.json["duplicates"]) == (1, 0, 4)
    assert [item["line"] for item in view.json["problems"]] == [2, 3, 5, 6, 7, 8, 11]
    assert stored(ring) == ["e1", "e6", "e7"]


def test_a_file_of_garbage(ring: Ring, folder: Path) -> None:
    """A binary file ends with 1 and a list of its lines, and stores nothing; so does one endless line."""
    (folder / "garbage").write_bytes(bytes(range(256)) * 2_000)
    done = ring("send", "--file", "garbage")
    assert done.code == 1
    (folder / "endless").write_bytes(b"x" * 3_000_000)
    done = ring("send", "--file", "endless")
    assert done.code == 1
    assert "line 1" in done.err + done.out
    assert stored(ring) == []


@pytest.mark.parametrize(
    ("name", "said"), [("missing", "No such file"), (".", "directory"), ("secret", "denied")]
)
def test_a_file_that_can_not_be_read_is_2(folder: Path, name: str, said: str) -> None:
    """A missing file, a folder, and one that this user may not read: one line, exit 2, nothing stored."""
    (folder / "secret").touch(mode=0o000)
    folder.chmod(0o777)
    (folder / "ringonce.db").chmod(0o666)
    done = as_nobody(folder, "send", "--file", name)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_classify_with_bad_cases(ring: Ring, folder: Path) -> None:
    """A file of cases that is none: one line, no traceback; a bad case among good ones is a row that says so."""
    for content in (b"", b"{", b"{}", b"\xff"):
        (folder / "cases.json").write_bytes(content)
        done = ring("classify", "--cases", "cases.json")
        assert done.code in {1, 2}, content
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err
    good = {"id": "a", "provider": "telegram", "http_status": 200, "body": '{"ok": true}'}
    (folder / "cases.json").write_text(
        json.dumps([1, {"id": "b", "provider": "telegram", "http_status": "x"}, good])
    )
    rows = ring("classify", "--cases", "cases.json").json
    assert [(row["id"], row["class"]) for row in rows] == [(None, None), ("b", None), ("a", "accepted")]
    assert all(row["error"] for row in rows[:2])


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [b"a\x00b", b"\xff\xfe\xfa", b'{"error":"\\ud800 \\u0000"}', b"\x1b[31m" + b"x" * 200_000]
)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_odd_answers_are_stored_cleaned(
    folder: Path, pg_server: Database, store: str, answer: bytes
) -> None:
    """U+0000, invalid UTF-8, lone surrogates, floods in an answer: the verdict is stored, the loop goes on."""
    plan = Plan((Rule(Fault("status", 410, body=answer), first=1),))
    with WebhookReceiver([SECRET], plan=plan) as server, fresh_database(pg_server) as database:
        url = f"sqlite:///{folder}/ringonce.db" if store == "sqlite" else database.url("asyncpg")
        config = {
            "store": {"url": url},
            "security": {"allow_private_networks": ["127.0.0.0/8"]},
            "channels": {"hook": {"provider": "webhook", "secret": SECRET}},
        }
        ring = Ringonce(config)
        await ring.migrate()
        async with ring:
            ids = []
            for n in range(2):
                accepted = await ring.notify(to={"hook": f"{server.url}/{n}"}, content={"text": "x"})
                ids.append(accepted.notifications[0].id)
                await ring.run_worker(drain=True)
            refused_, sent = [await ring.get(id_) for id_ in ids]
            assert (refused_.row.state.status.value, refused_.row.state.final) == ("failed", True)
            stored_answer = refused_.attempts[0].answer
            assert "\x00" not in stored_answer
            assert "\x1b" not in stored_answer
            assert len(stored_answer) < 10_000
            assert stored_answer.encode()
            assert sent.row.state.status.value == "sent"


async def test_errors_of_the_store_have_one_base(folder: Path) -> None:
    """Whatever is wrong with the database, the caller catches StoreError."""
    assert issubclass(StoreUnavailable, StoreError)
    ringonce = Ringonce(folder / "ringonce.toml")
    with pytest.raises(StoreError):
        await ringonce.notify(GOOD)
