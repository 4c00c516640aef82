"""The command line on PostgreSQL, with either driver."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.postgres import Database

CONFIG = """
[retry]
cycle = "10ms"
[channels.ok]
provider = "sandbox"
[channels.flaky]
provider = "sandbox"
script = ["transient", "ok"]
backoff = { kind = "fixed", base = "10ms", jitter = 0 }
"""


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_migrate_send_drain_report(tmp_path: Path, pg_database: Database, driver: str) -> None:
    """Without its tables the database is refused with the mend; after migrate everything is delivered."""
    (tmp_path / "ringonce.toml").write_text(f'[store]\nurl = "{pg_database.url(driver)}"\n{CONFIG}')

    def ring(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ringonce", *arguments]
        return subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, text=True, check=False)

    refused = ring("list")
    assert refused.returncode == 1
    assert "ringonce migrate" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert ring("migrate").returncode == 0
    lines = "".join(
        json.dumps({"event_id": f"e{n}", "to": {channel: "ada"}, "content": {"text": "x"}}) + "\n"
        for n, channel in enumerate(["ok", "flaky"] * 20)
    )
    sent = ring("send", "--file", "-", "--json", stdin=lines)
    assert json.loads(sent.stdout)["accepted"] == 40, sent.stderr
    drained = ring("worker", "--drain")
    assert drained.returncode == 0, drained.stderr
    report = json.loads(ring("report", "--json").stdout)
    assert (report["accepted"], report["sent"], report["pending"]) == (40, 40, 0)
    assert ring("check").returncode == 0


def test_unreachable_is_one_line(tmp_path: Path) -> None:
    """A database that does not answer ends with 1 and one clear line, without the password."""
    (tmp_path / "ringonce.toml").write_text('[store]\nurl = "postgresql://u:hidden@127.0.0.1:1/x"\n')
    done = subprocess.run(
        [sys.executable, "-m", "ringonce", "list"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "store_unavailable" in done.stderr
    assert "hidden" not in done.stderr
    assert done.stderr.count("\n") == 1
