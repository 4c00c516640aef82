"""The page of field reports agrees with the tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([A-Z0-9]+-\d\d) \| [^|]+ \| (\S[^|]*?) \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def test_([a-z0-9]+)_(\d\d)_", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "reference" / "field-reports.md").read_text())


def ids_by_file() -> dict[str, set[str]]:
    """The ids that the tests of each file carry."""
    return {
        path.relative_to(ROOT).as_posix(): {
            f"{area.upper()}-{number}" for area, number in TEST.findall(path.read_text())
        }
        for path in sorted((ROOT / "tests" / "field").glob("test_*.py"))
    }


def test_every_report_is_listed_once() -> None:
    """113 reports, each with a state."""
    ids = [id_ for id_, _, _ in ROWS]
    assert len(ids) == len(set(ids)) == 113
    assert {state for _, state, _ in ROWS} <= {"**by id**", "tried", "open", "waits", "no"}


def test_what_has_tests_says_so() -> None:
    """A report whose id a test carries is listed as such, with the file; and no other is."""
    files = ids_by_file()
    listed = {
        (id_, path)
        for id_, state, where in ROWS
        if state == "**by id**"
        for path in re.findall(r"`(\S+)`", where)
    }
    assert {id_ for id_, _ in listed} == set().union(*files.values())
    for id_, path in listed:
        assert id_ in files[path], f"{path} has no test of {id_}"


def test_what_is_tried_elsewhere_exists() -> None:
    """The file that is said to try a report exists."""
    for id_, state, where in ROWS:
        if state == "tried":
            assert (ROOT / where.strip("`")).is_file(), id_
