"""CONTRIBUTING's recipe for a provider, followed word for word in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

# It runs the tests, the linter and the documentation's tools of a whole tree.
pytestmark = pytest.mark.timeout(900)

ADDED = {Path("src/ringonce/providers/acme.py"), Path("tests/providers/test_acme.py")}
GENERATED = Path("docs/reference/providers.md")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the files that belong to the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run(tree: Path, *command: str) -> str:
    """Run a module in the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tree,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(tree: Path) -> dict[Path, bytes]:
    """Every file but what tools leave behind."""
    return {
        path.relative_to(tree): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file() and not {"__pycache__", ".ruff_cache"} & set(path.parts)
    }


def test_a_provider_is_two_files(tree: Path) -> None:
    """Two files are added, the reference follows by itself, and every rule of the house holds."""
    before = contents(tree)
    copying = next(block for block in blocks(tree / "CONTRIBUTING.md") if "cp examples/" in block.text)
    subprocess.run(["bash", "-e", "-c", copying.text], cwd=tree, check=True)
    run(
        tree,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/providers/test_acme.py",
        "tests/arch/test_rules.py",
    )
    run(tree, "ruff", "check", "--no-cache", *map(str, ADDED))
    run(tree, "tools.docs")
    after = contents(tree)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed == ADDED | {GENERATED}
    assert "acme.no_such_pager" in after[GENERATED].decode()
