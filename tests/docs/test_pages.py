"""Every example of the documentation runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, Session, blocks, pages, problem

RUNNING = [page for page in pages() if any(b.mark.startswith(("run", "file ")) for b in blocks(page))]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """An empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()
    session = Session(folder)
    yield session
    session.close()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_is_checked(page: Path) -> None:
    """A block of shell, Python or TOML says how it is tested, or why not."""
    wrong = [f"{page.name}:{block.line}: {text}" for block in blocks(page) if (text := problem(block))]
    assert wrong == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, session: Session) -> None:
    """From top to bottom, in an empty folder, a page does what it says."""
    for block in blocks(page):
        session.run(block)


def test_a_broken_example_is_found(session: Session) -> None:
    """A command that fails, one that should have, and words that were not shown are errors."""
    session.run(Block("run", "sh", "echo one two\n", 1))
    session.run(Block("shows", "text", "one …\n", 2))
    with pytest.raises(AssertionError, match="not shown: three"):
        session.run(Block("shows", "text", "three\n", 3))
    with pytest.raises(AssertionError, match="ended with 3"):
        session.run(Block("run", "sh", "exit 3\n", 4))
    with pytest.raises(AssertionError, match="ended with 0"):
        session.run(Block("run, fails", "python", "pass\n", 5))
    assert problem(Block("", "sh", "", 6))
    assert problem(Block("tested by tests/none.py", "sh", "", 7)) == "tests/none.py does not exist"
