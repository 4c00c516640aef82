"""Drafts at the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Ring

CONFIG = """
[drafts]
channel = "reply"
scenarios = { praise = "auto" }
[channels.reply]
provider = "sandbox"
"""


@pytest.fixture(autouse=True)
def drafts(folder: Path) -> None:
    """Drafts go to ``reply``."""
    (folder / "ringonce.toml").write_text(CONFIG, encoding="utf-8")


def test_a_draft_from_saving_to_sending(ring: Ring) -> None:
    """Put, listed, sent, published, shown with who did what; sent once more it is refused."""
    assert "no drafts" in ring("drafts", "list").out
    assert "draft" in ring("drafts", "put", "feedback:1", "Thank you", "--by", "ann").out
    assert "feedback:1" in ring("drafts", "list", "--state", "draft").out
    sent = ring("drafts", "send", "feedback:1", "--by", "bob", "--version", "1", "--json").json
    assert (sent["state"], sent["key"]) == ("pending", "feedback:1")
    assert ring("worker", "--drain").code == 0
    shown = ring("drafts", "show", "feedback:1").out
    assert "created by ann" in shown
    assert "approved by bob" in shown
    assert "attempt 1 (revision 1): accepted" in shown
    refused = ring("drafts", "send", "feedback:1")
    assert (refused.code, "[already_sent]" in refused.err) == (1, True)
    assert [draft["key"] for draft in ring("drafts", "list", "--state", "sent", "--json").json] == [
        "feedback:1"
    ]


def test_auto(ring: Ring) -> None:
    """Under auto it is queued when it is saved, and skipped when it is sent."""
    assert "approved by its mode for cli" in ring("drafts", "put", "q:1", "Hi", "--scenario", "praise").out
    ring("worker", "--drain")
    skipped = ring("drafts", "put", "q:1", "Hello", "--mode", "auto")
    assert "skipped" in skipped.out
    assert ring("drafts", "put", "q:1", "Hello", "--mode", "auto", "--json").json["skipped"] is True


def test_rejected(ring: Ring) -> None:
    """Put aside with a reason; what is not there is code 3."""
    ring("drafts", "put", "q:1", "Hm")
    assert "rejected by cli: rude" in ring("drafts", "reject", "q:1", "--reason", "rude").out
    assert ring("drafts", "show", "q:1", "--json").json["state"] == "rejected"
    assert ring("drafts", "show", "q:2").code == 3


def test_what_waits_for_a_person_keeps_no_drain(ring: Ring) -> None:
    """A worker that drains ends although a draft waits."""
    ring("drafts", "put", "q:1", "Hm")
    drained = ring("worker", "--drain")
    assert (drained.code, "reply: 1 drafts wait for approval" in drained.out) == (0, True)
    assert ring("worker", "--drain", "--json").json["drafts"] == {"reply": 1}
    assert ring("drafts", "show", "q:1", "--json").json["state"] == "draft"
