"""What the audit keeps of a definitive failure, and what it leaves out."""

from uuid import UUID

import pytest

from ringonce.core.failures import failure_of, payload_of
from ringonce.model.notification import Content, LastError, State, Status

ID = UUID(int=7)


def failed(error: LastError | None, revision: int = 1) -> State:
    """A state that has come to its end."""
    return State(Status.FAILED, 3, revision, 1, last_error=error)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (LastError("NTF_PROVIDER_BLOCKED", "E403"), ("E403", "NTF_PROVIDER_BLOCKED")),
        (LastError("NTF_WORKER_CRASH"), ("NTF_WORKER_CRASH", "NTF_WORKER_CRASH")),
        (None, ("NTF_PROVIDER_TRANSIENT", "NTF_PROVIDER_TRANSIENT")),
    ],
)
def test_the_provider_s_code_else_ours(error: LastError | None, kept: tuple[str, str]) -> None:
    """``error_code`` is the provider's own word where there is one, and our code is never lost."""
    failure = failure_of(ID, "ALARM", failed(error))
    assert (failure.error_code, failure.code) == kept


def test_the_end_of_a_revision_has_one_id() -> None:
    """Told again, the same end has the same id; another revision, and another notification, have their own."""
    first = failure_of(ID, "ALARM", failed(None))
    assert first == failure_of(ID, "ALARM", failed(None))
    others = {failure_of(ID, "ALARM", failed(None, 2)).id, failure_of(UUID(int=8), "ALARM", failed(None)).id}
    assert first.id not in others
    assert len(others) == 2


def test_the_address_is_left_out() -> None:
    """Wherever the text names the address, as a word of its own, it is hidden; what is empty is left out."""
    content = Content(
        text="to ada@example.com!",
        data={"mail": ["ada@example.com", 4], "at": {"x": "gada@example.com"}},
    )
    assert payload_of(content, "ada@example.com") == {
        "text": "to (address)!",
        "data": {"mail": ["(address)", 4], "at": {"x": "gada@example.com"}},
    }


@pytest.mark.parametrize("address", [None, "42"])
def test_a_short_address_could_be_any_number(address: str | None) -> None:
    """An order's number is not taken for an address of two digits."""
    assert payload_of(Content(title="Order 42"), address) == {"title": "Order 42"}
