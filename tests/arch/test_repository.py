"""What the repository's files may not contain."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In pieces, so that this file passes its own test.
HOSTS = [
    "pypi" + ".org",
    "python" + "hosted",
    "registry.npm" + "js",
    "registry.yarn" + "pkg",
    "deb.deb" + "ian",
]
INDEX_ADDRESS = re.compile(
    "|".join(map(re.escape, HOSTS)) + "|--(?:extra-)?index" + r"-url[ =]\S|--find" + r"-links[ =]\S"
)
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:wo" + r"rk|ro" + r"ot|opt/(?:pypi|wheels)|home/\w+)/")
NODE_LOCK = ROOT / "benchmarks" / "peers" / "node" / "package-lock.json"
LOCK_FILES = {"uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"}


def _tracked() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_index_address() -> None:
    """No file names a package index: pins work with whatever index the reader uses."""
    assert _lines_with(INDEX_ADDRESS) == []


def test_no_machine_path() -> None:
    """No file names a folder of the machine that it was written on."""
    assert _lines_with(MACHINE_PATH) == []


def test_no_foreign_lock_file() -> None:
    """Pins live in requirements/, with hashes and without addresses; for Node in the one file that npm reads."""
    found = [path for path in _tracked() if path.name in LOCK_FILES]
    assert found == [NODE_LOCK]


def test_every_module_for_node_has_a_hash() -> None:
    """Each module that the benchmarks' peers need is pinned with a hash, and comes from whatever registry is set."""
    packages = json.loads(NODE_LOCK.read_text())["packages"]
    assert [
        name for name, pin in packages.items() if name and not ("integrity" in pin and "version" in pin)
    ] == []
    assert [name for name, pin in packages.items() if "resolved" in pin] == []


@pytest.mark.parametrize("name", ["uv.txt", "run.txt", "dev.txt", "bench.txt"])
def test_every_requirement_has_a_hash(name: str) -> None:
    """Each pinned requirement names an exact version and a hash."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    pins = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert pins
    assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


def test_requirements_follow_the_package() -> None:
    """What pyproject.toml asks for, extras included, is what requirements/run.in pins."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {*project["dependencies"]}
    for extra, names in project["optional-dependencies"].items():
        if extra != "all":
            asked.update(names)
    pinned = (ROOT / "requirements" / "run.in").read_text().splitlines()
    assert asked == {line for line in pinned if line and not line.startswith(("#", "-r"))}
