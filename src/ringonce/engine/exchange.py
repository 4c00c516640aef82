"""One call: build the request with the provider, and say what its answer means."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, get_args

from ringonce.core.journal import client_reference
from ringonce.errors import InputError
from ringonce.model.exchange import Request
from ringonce.model.notification import Message
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.ports import AttemptRow
from ringonce.provider import Context

if TYPE_CHECKING:
    from ringonce.engine.channels import Entry
    from ringonce.model.exchange import Answer
    from ringonce.model.notification import Content
    from ringonce.ports import Claimed, Entropy, Row

log = logging.getLogger("ringonce")

_REQUESTS = get_args(Request)  # a tuple of classes is looked through four times as fast as their union

NO_CALL_LEFT = Outcome(
    OutcomeClass.TRANSIENT,
    Code.TRANSIENT,
    text="all calls of max_attempts are used",
    rule="max_attempts was lowered",
)

STORED = Outcome(OutcomeClass.ACCEPTED, rule="stored")


def build(
    entry: Entry, claimed: Claimed, now: int, entropy: Entropy, credential: str | None
) -> Request | Outcome:
    """The request, or the outcome when there is nothing that could be sent."""
    row = claimed.row
    address = row.address
    if address is None or address.invalidated_at is not None:
        reason = "no address" if address is None else address.reason or "invalidated"
        return Outcome(
            OutcomeClass.INVALID_RECIPIENT,
            Code.PUSH_TOKEN_INVALID if entry.provider.push else Code.INVALID_RECIPIENT,
            text=f"the address is not in use any more: {reason}",
            rule="address invalidated before the call",
        )
    content = claimed.content
    if not (content.title or content.text or content.html or content.data):
        return Outcome(
            OutcomeClass.INVALID_PAYLOAD,
            Code.TEMPLATE_INVALID,
            text="it has no text: its template failed when it was accepted; send the event again under a new id",
            rule="empty content",
        )
    message = message_of(row, content, 1 if row.lease is None else row.lease.number)
    try:
        known = Context(
            now, entry.channel.timeout / 1_000_000, address.registered_at, credential, entropy.random_bytes
        )
        request: object = entry.provider.request(message, address, known)
    except InputError as error:
        return _unsendable(str(error))
    except Exception:
        # A provider's bug must not hold up its neighbours: the row ends visibly, the trace is logged.
        log.exception("provider %s could not build a request", entry.channel.provider)
        return _unsendable(f"provider {entry.channel.provider} could not build the request, see the log")
    if isinstance(request, _REQUESTS):
        return request  # type: ignore[no-any-return]
    log.error("provider %s: request() returned %s", entry.channel.provider, type(request).__name__)
    return _unsendable(
        f"provider {entry.channel.provider} is wrong: request() must return one of "
        f"{', '.join(kind.__name__ for kind in _REQUESTS)}, not {type(request).__name__}"
    )


def message_of(row: Row, content: Content, attempt: int) -> Message:
    """What the provider makes a request of."""
    state = row.state
    return Message(
        row.id,
        client_reference(row.id, state.revision),
        state.revision,
        attempt,
        content,
        row.event_id,
        row.event_type,
        row.tenant,
        row.recipient,
        row.created_at,
        row.priority,
        row.collapse,
        state.expires_at,
        state.rests_on is not None,
    )


def context(entry: Entry, row: Row, now: int) -> Context:
    """What the provider may know besides the message."""
    registered = None if row.address is None else row.address.registered_at
    return Context(now, entry.channel.timeout / 1_000_000, registered)


def judge(entry: Entry, row: Row, answer: Answer, now: int) -> Outcome:
    """What the answer means. A provider that fails to say so leaves the attempt without a verdict."""
    try:
        outcome: object = entry.provider.outcome(answer, context(entry, row, now))
    except Exception:
        log.exception("provider %s could not read an answer", entry.channel.provider)
        return unread(entry)
    if isinstance(outcome, Outcome) and isinstance(outcome.cls, OutcomeClass):
        return outcome
    log.error("provider %s: outcome() returned %s", entry.channel.provider, type(outcome).__name__)
    return unread(entry)


def unread(entry: Entry) -> Outcome:
    """The verdict on a call whose answer the provider could not read: it may have arrived."""
    return Outcome(
        OutcomeClass.TRANSIENT,
        Code.TRANSIENT,
        ambiguous=True,
        text=f"provider {entry.channel.provider} could not read the answer, see the log",
        rule="provider error",
    )


def attempt_row(
    row: Row, number: int, outcome: Outcome, *, started_at: int, ended_at: int, account: str
) -> AttemptRow:
    """The call as it is stored."""
    unknown = outcome.cls is OutcomeClass.TRANSIENT and outcome.ambiguous
    return AttemptRow(
        number,
        row.state.revision,
        row.lease.fence if row.lease else 0,
        account,
        started_at,
        ended_at,
        "unknown" if unknown else outcome.cls.value,
        None if outcome.code is None else outcome.code.value,
        outcome.provider_code,
        client_reference(row.id, row.state.revision),
        outcome.message_id,
        outcome.text,
        outcome.rule,
    )


def _unsendable(text: str) -> Outcome:
    return Outcome(OutcomeClass.INVALID_PAYLOAD, Code.INVALID_PAYLOAD, text=text, rule="could not be built")
