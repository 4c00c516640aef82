"""Why a person's wish is refused: what the caller is told, and the notification stays as it is.

Nothing here chooses a status: ``core.machine`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.model.notification import State, Status
from ringonce.model.transition import Refusal

if TYPE_CHECKING:
    from ringonce.model.transition import Approved, Regenerated, Rejected, Retry

WAITING: Final = frozenset({Status.PENDING, Status.IN_DOUBT})


def over(s: State) -> Refusal:
    """It has ended."""
    return Refusal("already_final", f"it is {s.status.value} already")


def retry(s: State, e: Retry, now: int) -> Refusal | None:
    """What keeps a failed, doubtful or sent one from being sent (again)."""
    if s.status is Status.SENT and e.reply:
        return Refusal("already_sent", "it is sent already, and a reply is not published twice")
    if s.status is Status.SENT and not e.force:
        return Refusal("conflict", "it is sent already; force sends it once more")
    if s.open:
        return _begun(s)
    if s.unknown and e.reply:
        return Refusal("in_doubt", f"attempt {_numbers(s)} may have been published; resolve the doubt first")
    if s.unknown and not e.force:
        return Refusal(
            "in_doubt", f"attempt {_numbers(s)} may have arrived; force sends it again all the same"
        )
    if s.expires_at is not None and s.expires_at <= now:
        return Refusal("expired", "its expires_at has passed; accept a new event instead")
    return None


# --- drafts -------------------------------------------------------------------------------------------------------


def approve(s: State, e: Approved, now: int) -> Refusal | None:
    """What keeps a draft from being queued. One that waits to be sent already is no case of it."""
    if s.status is Status.SENT:
        return _published()
    if s.status in {Status.CANCELLED, Status.MERGED} or (
        s.status is Status.EXPIRED and s.rests_on is not None
    ):
        return Refusal("already_final", f"it is {s.status.value}; a new text opens it again")
    if e.version not in {None, s.version}:
        return _stale(s)
    if s.unknown:
        return Refusal("in_doubt", f"attempt {_numbers(s)} may have been published; look at it first")
    if s.expires_at is not None and s.expires_at <= now:
        return Refusal("expired", "the time in which it could be sent is over")
    return None


def regenerate(s: State, e: Regenerated) -> Refusal | None:
    """What keeps a draft's text from being replaced."""
    if s.status is Status.MERGED:
        return over(s)
    if s.open:
        return _begun(s)
    if s.unknown:
        return Refusal(
            "in_doubt", f"attempt {_numbers(s)} may have been published; its text stays until that is known"
        )
    if e.barred and (s.status is Status.SENT or s.rests_on is not None):
        return Refusal("already_sent", e.barred)
    return None if e.version in {None, s.version} else _stale(s)


def reject(s: State, e: Rejected) -> Refusal | None:
    """What keeps a draft from being put aside: it is decided already."""
    if s.status is Status.SENT:
        return _published()
    if s.status in WAITING or not (s.final or s.status is Status.DRAFT):
        return Refusal("conflict", "it is approved and waits to be sent; cancel the notification to stop it")
    if s.status is Status.FAILED and s.unknown:
        return Refusal("in_doubt", f"attempt {_numbers(s)} may have been published; look at it first")
    if s.status not in {Status.DRAFT, Status.FAILED}:
        return over(s)
    return None if e.version in {None, s.version} else _stale(s)


def _published() -> Refusal:
    return Refusal("already_sent", "it is sent already")


def _stale(s: State) -> Refusal:
    return Refusal("stale_version", f"it was changed meanwhile: its version is {s.version}")


def _begun(s: State) -> Refusal:
    return Refusal("too_late", f"attempt {s.attempts + 1} has started")


def _numbers(s: State) -> str:
    return ", ".join(str(number) for number in s.unknown)
