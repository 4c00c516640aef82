"""Runs the examples of a page, in order, in one empty folder.

A comment before a fenced block says what it is; a block of shell, Python or TOML without one is an error.

- ``<!-- run -->``: a shell or Python block is run and must succeed; ``<!-- run, fails -->``: must not.
- ``<!-- file NAME -->``: the block is written to that file.
- ``<!-- shows -->``: a block of text; each of its lines must be in what the last run printed. ``…``: anything.
- ``<!-- tested by PATH -->``: another test has this very example; ``<!-- page tested by PATH -->``: all of the page.
- ``<!-- generated: … -->``: `tools.docs` writes it from a file that has tests of its own.
- ``<!-- not run: WHY -->``.

A program started with ``&`` lives until the page ends. Well-known ports of the examples are replaced by free ones, so
that pages can run beside anything.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
WHOLE_PAGE = re.compile(r"^<!-- page (tested by \S+) -->$", re.MULTILINE)
MUST_RUN = {"sh", "bash", "python", "toml", "ini", "dockerfile"}
PORTS = ("2525", "8025", "8070")


@dataclass(frozen=True)
class Block:
    """One fenced block with the comment before it."""

    mark: str
    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page."""
    text = page.read_text("utf-8")
    whole = WHOLE_PAGE.search(text)
    for found in BLOCK.finditer(text):
        mark = found["mark"] or (whole[1] if whole else "")
        yield Block(mark, found["language"], found["text"], text.count("\n", 0, found.start("text")))


def pages() -> list[Path]:
    """The pages whose examples run."""
    written = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in written if page.parent.name != "decisions"]


def problem(block: Block) -> str | None:
    """Why a block could not be checked, or None."""
    if block.language not in MUST_RUN or block.mark.startswith(("run", "file ", "not run: ", "generated: ")):
        return None
    path = block.mark.removeprefix("tested by ")
    if path == block.mark:
        return "says neither run, file NAME, tested by PATH nor not run: WHY"
    return None if (ROOT / path).exists() else f"{path} does not exist"


class Session:
    """A folder, free ports, and what was started in the background."""

    def __init__(self, folder: Path) -> None:
        """Choose the ports."""
        self.folder = folder
        self.output = ""
        self._groups: list[int] = []
        self._ports = {port: str(free_port()) for port in PORTS}

    def port(self, name: str) -> str:
        """What stands for a port of the examples."""
        return self._ports[name]

    def run(self, block: Block) -> None:
        """Do what the block's mark says. Raises AssertionError."""
        text = re.sub(rf"\b({'|'.join(PORTS)})\b", lambda port: self._ports[port[1]], block.text)
        word, _, rest = block.mark.partition(" ")
        if word == "file":
            path = self.folder / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif word == "shows":
            self._check_output(text, block.line)
        elif word.rstrip(",") == "run":
            self._run(block, text, succeeds=not rest)

    def _run(self, block: Block, text: str, *, succeeds: bool) -> None:
        shell = ["bash", "-eu", "-o", "pipefail", "-c", text]
        command = [sys.executable, "-c", text] if block.language == "python" else shell
        # A file, not a pipe: what runs on in the background keeps it open.
        log = self.folder.parent / f"{self.folder.name}.log"
        with log.open("wb") as file:
            started = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._groups.append(started.pid)
            try:
                code = started.wait(timeout=200)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                code = started.wait()
        for port in re.findall(r"--port (\d+)[^\n]*&", text):
            _await(int(port))
        self.output = log.read_text("utf-8", "replace")
        assert (code == 0) is succeeds, f"line {block.line}: ended with {code}\n{text}\n{self.output}"

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "NO_COLOR": "1"}

    def _check_output(self, wanted: str, line: int) -> None:
        for text in filter(None, map(str.strip, wanted.splitlines())):
            pattern = ".*".join(r"\s+".join(map(re.escape, part.split())) for part in text.split("…"))
            assert re.search(pattern, self.output), f"line {line}: not shown: {text}\n{self.output}"

    def close(self) -> None:
        """End what was started here, and only that."""
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                continue


def _await(port: int) -> None:
    """A server in the background says that it is ready by answering."""
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
        except OSError:
            assert time.monotonic() < end, f"nobody listens on port {port}"
            time.sleep(0.05)
        else:
            return
