"""The documentation's own tool."""

from pathlib import Path

import pytest

from tools import docs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small documentation."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Read me\n\n[docs](docs/index.md#second-part)\n")
    (tmp_path / "docs" / "index.md").write_text("# First\n\n## Second `part`\n\n```\n[no](link.md)\n```\n")
    return tmp_path


def test_sound_pages_have_no_problem(root: Path) -> None:
    """Links to pages and headings are followed, code blocks are not."""
    assert [*docs.broken_links(root), *docs.unreachable_pages(root)] == []


def test_broken_links_are_found(root: Path) -> None:
    """A missing page and a missing heading are named with file and line."""
    (root / "docs" / "index.md").write_text("# First\n\n[a](b.md)\n[c](index.md#nothing)\n")
    assert list(docs.broken_links(root)) == [
        "README.md:3: docs/index.md#second-part has no such heading",
        "docs/index.md:3: b.md does not exist",
        "docs/index.md:4: index.md#nothing has no such heading",
    ]


def test_link_out_of_the_site_is_found(root: Path) -> None:
    """A page of the site does not link to a file that the site does not have."""
    with (root / "docs" / "index.md").open("a") as file:
        file.write("[readme](../README.md)\n")
    assert list(docs.broken_links(root)) == ["docs/index.md:8: ../README.md is not part of the site"]


def test_unreachable_page_is_found(root: Path) -> None:
    """A page that nobody links to is named."""
    (root / "docs" / "lost.md").write_text("# Lost\n")
    assert list(docs.unreachable_pages(root)) == ["docs/lost.md is linked from nowhere"]


def test_generated_part_is_checked_and_written(root: Path) -> None:
    """A generated part replaces what stands between its marks, and only that."""
    page = root / "docs" / "index.md"
    page.write_text("# First\n<!-- generated: table -->\nold\n<!-- end -->\nby hand\n")
    generators = [docs.Generator("table", "docs/index.md", lambda: "new")]
    assert list(docs.generate(check=True, generators=generators, root=root)) == [
        "docs/index.md: table is not up to date; run `make docs`"
    ]
    assert list(docs.generate(check=False, generators=generators, root=root)) == []
    assert page.read_text() == "# First\n<!-- generated: table -->\nnew\n<!-- end -->\nby hand\n"
    assert list(docs.generate(check=True, generators=generators, root=root)) == []


def test_generated_page_is_written_whole(root: Path) -> None:
    """A page without marks is generated as a whole."""
    generators = [docs.Generator("page", "docs/reference/page.md", lambda: "# Page\n\n\n")]
    assert list(docs.generate(check=False, generators=generators, root=root)) == []
    assert (root / "docs" / "reference" / "page.md").read_text() == "# Page\n"


def test_part_without_end_is_refused(root: Path) -> None:
    """A start mark without its end would swallow the rest of the page."""
    (root / "docs" / "index.md").write_text("<!-- generated: table -->\nold\n")
    generators = [docs.Generator("table", "docs/index.md", lambda: "new")]
    with pytest.raises(ValueError, match="has no <!-- end -->"):
        list(docs.generate(check=False, generators=generators, root=root))
