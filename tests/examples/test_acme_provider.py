"""The example of a third party's provider: installed as a package, found, checked and used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "acme_provider"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is installed; the copy keeps the checkout clean."""
    folder = tmp_path_factory.mktemp("acme")
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    command += ["--disable-pip-version-check", "--target", str(folder / "site"), str(folder / "source")]
    subprocess.run(command, check=True, timeout=280)
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "COLUMNS": "200"}


def run(installed: dict[str, str], *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a module in that environment."""
    return subprocess.run(
        [sys.executable, "-m", *command], env=installed, cwd=cwd, check=False, capture_output=True, text=True
    )


def test_its_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    """Its tests need nothing but ringonce and a test runner."""
    done = run(
        installed,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(EXAMPLE / "tests"),
        "--rootdir",
        str(tmp_path),
        "-c",
        os.devnull,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_channel_uses_it(installed: dict[str, str], tmp_path: Path) -> None:
    """A channel names it, `check` knows it, a wrong address is refused in its words, its answers are classified."""
    (tmp_path / "ringonce.toml").write_text('[channels.pager]\nprovider = "acme"\nkey = "acme-key-1"\n')
    done = run(installed, "ringonce", "check", cwd=tmp_path)
    assert "channel pager: acme, account acme:" in done.stdout
    done = run(installed, "ringonce", "send", "--to", "pager=12", "--text", "x", cwd=tmp_path)
    assert "4 to 12 digits" in done.stderr
    body = '{"error": "no_such_pager"}'
    done = run(installed, "ringonce", "classify", "acme", "--status", "400", "--body", body, cwd=tmp_path)
    assert "acme.no_such_pager" in done.stdout
