"""What the audit keeps of a definitive failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from ringonce.model.audit import LONGEST_CODE, Failure
from ringonce.model.outcome import Code

if TYPE_CHECKING:
    from ringonce.model.notification import Content, State

HIDDEN = "(address)"
SHORTEST = 6
"""An address of fewer characters could be any number of the text, and stays."""


def failure_of(id_: UUID, event_type: str, state: State) -> Failure:
    """The end of the revision that ``state`` has come to. Its id is the same whenever it is told again."""
    error = state.last_error
    code = error.code if error is not None else Code.TRANSIENT.value
    own = error.provider_code if error is not None else None
    return Failure(
        id=uuid5(id_, f"failure.r{state.revision}"),
        revision=state.revision,
        push_type=event_type,
        error_code=(own or code)[:LONGEST_CODE],
        code=code,
    )


def payload_of(content: Content, address: str | None) -> dict[str, Any]:
    """What was said, without the address that it went to; what is empty is left out."""
    said = {"title": content.title, "text": content.text, "html": content.html, "data": dict(content.data)}
    payload = {name: value for name, value in said.items() if value}
    if address is None or len(address) < SHORTEST:
        return payload
    found = re.compile(rf"(?<!\w){re.escape(address)}(?!\w)")
    scrubbed: dict[str, Any] = _scrubbed(payload, found)
    return scrubbed


def _scrubbed(value: Any, found: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return found.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {key: _scrubbed(item, found) for key, item in value.items()}
    return [_scrubbed(item, found) for item in value] if isinstance(value, list) else value
