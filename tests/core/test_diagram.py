"""The page of transitions tells what the table does."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from ringonce.core.diagram import page, transitions
from ringonce.core.machine import ILLEGAL, TABLE
from ringonce.model.notification import Status
from ringonce.model.transition import TransitionEvent

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "transitions.md"


def test_complete() -> None:
    """Exactly the pairs that the table allows are told, in every status."""
    told = {(name.split(",")[0], event) for name, event in transitions()}
    legal = {
        (status.value, event.__name__) for (status, event), handler in TABLE.items() if handler is not ILLEGAL
    }
    assert told == legal


def test_some_facts() -> None:
    """A few transitions that everybody relies on are seen."""
    found = transitions()
    assert found["pending", "Enqueued"] == {"pending", "draft", "suppressed", "cancelled", "expired"}
    assert found["sent", "Retry"] == {"pending", "refused"}
    assert found["sent", "LateAnswer"] == {"stays", "failed, waiting", "failed"}
    assert found["failed", "Cancel"] == {"refused"}
    assert found["suppressed", "Read"] == {"stays"}
    assert found["draft", "Approved"] == {"pending", "refused"}
    assert found["pending", "Approved"] == {"stays"}
    assert found["sent", "Regenerated"] == {"draft", "refused"}
    assert found["pending", "Rejected"] == {"refused"}


def test_page_names_everything() -> None:
    """Every status and every event stands on the page, with the diagram."""
    text = page()
    assert all(status.value in text for status in Status)
    assert all(event.__name__ in text for event in get_args(TransitionEvent))
    assert "[*] --> pending: Enqueued" in text
    assert "failed_waiting --> sent: Answered, LateAnswer" in text


def test_page_is_up_to_date() -> None:
    """The page in the documentation is the generated one."""
    assert PAGE.read_text() == page().rstrip() + "\n"
