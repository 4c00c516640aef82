"""What a draft's reader sees, and whether what is published can still be replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.model.draft import Draft, DraftMode, DraftState
from ringonce.model.notification import LastError, State, Status
from ringonce.model.policy import DAY
from ringonce.model.transition import Approved, Regenerated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.notification import Content
    from ringonce.model.policy import Edits
    from ringonce.model.records import AttemptRow
    from ringonce.model.transition import TransitionEvent

_SEEN: Final = {
    Status.DRAFT: DraftState.DRAFT,
    Status.PENDING: DraftState.PENDING,
    Status.IN_DOUBT: DraftState.PENDING,
    Status.SENT: DraftState.SENT,
    Status.CANCELLED: DraftState.REJECTED,
}
MAY_BE_PUBLISHED: Final = frozenset({"accepted", "unknown"})


def state_of(state: State) -> DraftState:
    """``error`` is the end: between two attempts, and while nobody knows, the reader sees ``pending``."""
    if state.status is Status.FAILED and not state.final:
        return DraftState.PENDING
    return _SEEN.get(state.status, DraftState.ERROR)


def calls_of(draft: Draft) -> tuple[AttemptRow, ...]:
    """The attempts with the present text. Those before are history."""
    return tuple(call for call in draft.attempts if call.revision == draft.row.state.revision)


def sent_at(draft: Draft) -> int | None:
    """When it was published, microseconds UTC; None: it is not sent, or nobody knows when."""
    state = draft.row.state
    if state.status is not Status.SENT:
        return None
    rests = [call for call in calls_of(draft) if call.number == state.rests_on]
    return rests[0].ended_at or rests[0].started_at if rests else None


def send_error(draft: Draft) -> LastError | None:
    """What went wrong with the present text, the last time."""
    state = draft.row.state
    seen = state_of(state)
    if seen in {DraftState.DRAFT, DraftState.SENT}:
        return None
    if seen is DraftState.ERROR and state.status is not Status.FAILED:
        return LastError(state.status.value, None, f"it has {state.status.value} before it could be sent")
    return state.last_error


# --- what a PUT does ----------------------------------------------------------------------------------------------


def renewal(
    draft: Draft,
    content: Content,
    mode: DraftMode,
    by: str,
    version: int | None,
    edits: Edits | None,
    now: int,
) -> Sequence[TransitionEvent]:
    """What follows for a draft when its text is put (again).

    The same text changes nothing, however often it is told: it may be the repeat of a call whose answer was lost. Only
    where the last attempt failed it is another beginning. The mode ``auto`` approves what is saved, and never touches
    what is published.
    """
    state = draft.row.state
    same = content == draft.content
    if same and state_of(state) not in {DraftState.DRAFT, DraftState.ERROR}:
        return ()
    events: list[TransitionEvent] = []
    saved = state.version
    if not same or state_of(state) is DraftState.ERROR:
        barred, until = replaceable(draft, edits, now)
        if mode is DraftMode.AUTO:
            barred = "it is sent already, and the mode auto changes nothing that is published"
        events.append(Regenerated(by, version, barred, until))
        saved += 1
    if mode is DraftMode.AUTO:
        # Tied to the text that was just saved: refused, that one waits for nobody's approval.
        events.append(Approved(by, saved, auto=True))
    return events


def replaceable(draft: Draft, edits: Edits | None, now: int) -> tuple[str, int | None]:
    """Why a published text can not be replaced (empty: it can), and until when it can, microseconds UTC."""
    if edits is None:
        return "it is sent already, and its provider changes nothing that is sent", None
    state = draft.row.state
    public = [
        call for call in draft.attempts if call.outcome in MAY_BE_PUBLISHED or call.number == state.rests_on
    ]
    if not public:
        return "it is sent already, and nothing is left that tells when", None
    if len({call.revision for call in public}) > edits.times:
        times = "once" if edits.times == 1 else f"{edits.times} times"
        return f"it is sent already, and was changed as often as its provider allows ({times})", None
    until = None if edits.within is None else min(call.started_at for call in public) + edits.within
    if until is not None and until <= now:
        return f"it is sent already, and could be changed for {(edits.within or 0) // DAY} days", None
    return "", until
