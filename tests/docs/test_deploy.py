"""The files for deployment are those on the page, and name commands and keys that exist."""

import subprocess
import sys
from pathlib import Path

from ringonce.config import load
from tests.docs.pages import ROOT, blocks

FOLDER = ROOT / "examples" / "deploy"


def test_the_page_shows_the_files() -> None:
    """What is on the page is what is in the folder."""
    shown = [block.text for block in blocks(ROOT / "docs" / "how-to" / "deploy.md")]
    assert (FOLDER / "ringonce.service").read_text() in shown
    assert (FOLDER / "Containerfile").read_text() in shown


def test_the_unit_waits_long_enough_and_runs_what_exists(tmp_path: Path) -> None:
    """Systemd waits longer than the worker's grace, and the commands exist."""
    lines = [line for line in (FOLDER / "ringonce.service").read_text().splitlines() if "=" in line]
    unit = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    assert int(unit["TimeoutStopSec"]) * 1_000_000 > load(None, overrides={}).worker.grace
    for key in ("ExecStartPre", "ExecStart"):
        command = unit[key].split()[1:]
        done = subprocess.run(
            [sys.executable, "-m", "ringonce", *command, "--help"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert f"ringonce {command[0]}" in done.stdout
