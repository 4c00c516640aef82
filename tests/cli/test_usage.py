"""Exit codes, one-line errors, the configuration that is named, and how fast it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ring


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sned",), 'Did you mean "send"?'),
        (("send", "--txt", "x"), "Did you mean --text?"),
        (("list", "--limit", "many"), "limit"),
        (("list", "--status", "snet"), "one of"),
        (("list", "--since", "yesterday"), "24h"),
        (("report", "--by", "hour"), "day, channel, tenant"),
        (("explain",), "ID"),
        (("list", "--after", "abc"), "ringonce list"),
        (("send", "--to", "ada", "--text", "x"), "channel=address"),
        (("send", "--to", "ok=a", "--to", "ok=b", "--text", "x"), "two addresses"),
        (("send", "--file", "x.jsonl", "--text", "x"), "no other option"),
        (("send", "--file", "not-there.jsonl"), "No such file"),
        (("worker", "--drain", "--only", "dispach"), "dispatch"),
        (("worker", "--processes", "2"), "SQLite has one worker process"),
        (("worker", "--processes", "0"), "1 to 256"),
        (("failures", "retry"), "--channel"),
        (("classify",), "name a provider"),
        (("--config", "other.toml", "list"), "no such file"),
    ],
)
def test_wrong_usage_is_2_with_one_clear_line(ring: Ring, arguments: tuple[str, ...], said: str) -> None:
    """A wrong command line ends with 2 and says in one line on standard error what would be right."""
    done = ring(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


def test_wrong_configuration_is_2_and_lists_all_problems(ring: Ring, folder: Path) -> None:
    """A wrong configuration ends every command with 2 and names file, key and mend."""
    (folder / "ringonce.toml").write_text("[stroe]\n[channels.a]\nprovider='sandbox'\nmax_atempts=3\n")
    done = ring("list")
    assert done.code == 2
    assert "ringonce.toml: stroe: unknown key (did you mean store?)" in done.err


def test_a_misspelt_key_of_a_channel_suggests_the_engines_too(ring: Ring, folder: Path) -> None:
    """A key that its provider does not know suggests the nearest of the channel's own keys."""
    (folder / "ringonce.toml").write_text("[channels.a]\nprovider='sandbox'\nmax_atempts=3\n")
    done = ring("channels", "list")
    assert done.code == 2
    assert "ringonce.toml: channels.a.max_atempts" in done.err
    assert "did you mean max_attempts?" in done.err


def test_an_unknown_provider_suggests_the_nearest(ring: Ring, folder: Path) -> None:
    """A provider that does not exist is named with the nearest one."""
    (folder / "ringonce.toml").write_text("[channels.a]\nprovider='sandbax'\n")
    done = ring("channels", "list")
    assert done.code == 2
    assert "channels.a.provider" in done.err
    assert "sandbox" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "0198c0de-0000-7000-8000-000000000000"),
        ("channels", "enable", "nope"),
        ("policy", "show", "nope"),
        ("classify", "nope", "--status", "200"),
        ("recipients", "address", "remove", "ada", "ok", "x"),
    ],
)
def test_what_is_not_there_is_3(ring: Ring, arguments: tuple[str, ...]) -> None:
    """What was asked for and does not exist ends with 3."""
    ring("migrate")
    done = ring(*arguments)
    assert done.code == 3, done.err


def test_config_before_and_behind_the_command(ring: Ring, folder: Path) -> None:
    """--config is taken anywhere on the line, and from RINGONCE_CONFIG."""
    (folder / "other.toml").write_text("[channels.other]\nprovider='sandbox'\n")
    for arguments in (
        ("--config", "other.toml", "policy", "show"),
        ("policy", "show", "--config", "other.toml"),
    ):
        assert ring(*arguments).out.startswith("other:")


def test_help_starts_fast_and_imports_nothing_heavy() -> None:
    """--help loads neither the database, nor the network, nor the API, nor the event loop."""
    code = (
        "import sys; from ringonce.cli.root import run; run(['--help']); "
        "heavy = {'sqlalchemy', 'pycurl', 'fastapi', 'pydantic', 'alembic', 'cryptography', 'msgspec', 'aiosmtplib', "
        "'asyncio', 'ssl'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_module(folder: Path) -> None:
    """`python -m ringonce --version` is the program too."""
    done = subprocess.run(
        [sys.executable, "-m", "ringonce", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert done.stdout.strip()[0].isdigit()


def test_output_survives_a_narrow_encoding(folder: Path) -> None:
    """In a POSIX locale the output is UTF-8 still."""
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "ringonce", "migrate"],
        capture_output=True,
        check=True,
        cwd=folder,
        env=environ,
    )
    assert "→" in done.stdout.decode("utf-8")
