"""The page "Write a template" is true: its files are written, its program is run, its lines are rendered."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.writing import shown

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-template.md").read_text()
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^(\{.*\}) → (.+)$", re.MULTILINE)
SPACES = str.maketrans("\u202f\xa0", "  ")


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """The files of the page, checked by the command, and its program."""
    program = expected = ""
    for language, title, text in BLOCK.findall(PAGE):
        if language == "toml":
            (tmp_path / title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / title).write_text(text)
        elif language == "python":
            program = text
        elif language == "text":
            expected = text
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.translate(SPACES) == expected
    checked = subprocess.run(
        [sys.executable, "-m", "ringonce", "check"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert "ok   template order-shipped: en, ru" in checked.stdout
    broken = tmp_path / "templates" / "order-shipped" / "en.toml"
    broken.write_text(broken.read_text().replace("| date }}", "| dates }}"))
    checked = subprocess.run(
        [sys.executable, "-m", "ringonce", "check"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 1
    assert "BAD  template order-shipped: order-shipped/en.toml, line 5 (text): there is no filter dates" in (
        checked.stdout
    )


@pytest.mark.parametrize(("source", "result"), ROW.findall(PAGE))
def test_the_filters(source: str, result: str) -> None:
    """Each line of the page renders to what stands beside it."""
    data = {
        "lines": [{"name": "tea", "price": 3}, {"name": "coffee", "price": 4.5}],
        "prices": [3, 4.5],
        "sizes": {"small": 1, "large": 2},
    }
    assert shown(source, data, locale="en-us").translate(SPACES).strip() == result


def test_there_are_lines() -> None:
    """The page shows every filter."""
    from ringonce.core.filters import FILTERS

    assert len(ROW.findall(PAGE)) >= 15
    assert {name for name in FILTERS if not re.search(rf"\b{name}\b", PAGE)} == set()
