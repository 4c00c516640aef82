"""The ledger: what was received, in memory and in a file."""

from pathlib import Path

import pytest

from ringonce.vendors.ledger import Ledger, read_ledger


def test_accepted_and_repeats() -> None:
    """Only what was accepted counts, and what was accepted twice for the same address is a repeat."""
    ledger = Ledger()
    for reference, address, accepted in [
        ("a", "x", True),
        ("a", "y", True),
        ("a", "x", True),
        ("b", "x", False),
    ]:
        ledger.record(reference, address, "200", accepted=accepted)
    assert ledger.accepted() == {("a", "x"): 2, ("a", "y"): 1}
    assert ledger.repeats() == {("a", "x"): 2}
    assert len(ledger.entries) == 4


@pytest.mark.parametrize("fsync", [False, True])
def test_the_file_says_the_same(tmp_path: Path, fsync: bool) -> None:
    """Another process reads the entries while the ledger is open; a half line is left out; a new one appends."""
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, fsync=fsync) as ledger:
        ledger.record("ä\n", "x", "hang", accepted=True)
        assert read_ledger(path) == ledger.entries
    with Ledger(path) as ledger:
        ledger.record("b", "x", "200", accepted=False)
    with path.open("ab") as file:
        file.write(b'{"reference": "c"')
    assert [entry.reference for entry in read_ledger(path)] == ["ä\n", "b"]
