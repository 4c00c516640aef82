"""Asks providers what became of calls without a verdict (``in_doubt = "lookup"``), and settles what they say.

A look changes nothing at the provider, so it needs no mark: it runs under a lease, and after a crash it is made again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from ringonce.core import looking
from ringonce.engine.credentials import Missing
from ringonce.engine.exchange import context, message_of
from ringonce.engine.holding import fence_of
from ringonce.engine.settle import report
from ringonce.errors import InputError, StoreError
from ringonce.model.exchange import Request
from ringonce.model.looking import Finding, Presence
from ringonce.model.outcome import Code, Outcome, OutcomeClass
from ringonce.model.transition import LookedUp
from ringonce.ports import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.common import Shared
    from ringonce.engine.settle import Decider
    from ringonce.model.exchange import Answer
    from ringonce.model.notification import Address
    from ringonce.ports import AttemptRow, Life, Telemetry

log = logging.getLogger("ringonce")

AT_ONCE = 5
"""So many looks at a time: they share the provider's limits with the calls that send."""
BUSY = 0.5
IDLE = 1.0
RARELY = 60.0
"""Seconds between two turns where no provider can be asked: a changed configuration may have left doubts behind."""
_REQUESTS = get_args(Request)
_GONE = Finding(Presence.UNSURE, text="there is no address that could be asked about")
_MUTE = Finding(Presence.UNSURE, text="the provider of the channel can not be asked")


class Looker:
    """One turn looks at a few doubts. Its leases are its own: nobody prolongs them, and they outlast a call."""

    def __init__(self, shared: Shared, decide: Decider, telemetry: Telemetry) -> None:
        """Nothing happens before the first turn."""
        self._shared = shared
        self._decide = decide
        self._telemetry = telemetry
        self._owner = shared.entropy.token()
        self._next = shared.clock.monotonic()

    async def turn(self) -> float:
        """Ask about what is due, and settle the answers. Returns the seconds to wait before the next turn."""
        shared = self._shared
        entries = {name: entry for name, entry in shared.channels.all().items() if entry.channel.enabled}
        now = shared.clock.monotonic()
        if not any(entry.provider.looks_up for entry in entries.values()) and now < self._next:
            return min(IDLE, self._next - now)
        self._next = now + RARELY
        free = [name for name, entry in entries.items() if not shared.credentials.blocked(entry)]
        if not free:
            return IDLE
        longest = max(entries[name].channel.timeout + entries[name].channel.lease for name in free)
        at, lives = await shared.store.claim_lookups(self._owner, free, AT_ONCE, longest)
        if not lives:
            return IDLE
        began = shared.clock.monotonic()
        changes = await asyncio.gather(
            *(self._look(entries[life.row.channel], life, at, began) for life in lives)
        )
        await self._settle([change for change in changes if change is not None])
        return BUSY if len(lives) >= AT_ONCE else IDLE

    async def _settle(self, changes: list[Change]) -> None:
        """All together; should a bug stand in the way of one, the others by themselves. It is looked at again."""
        try:
            settled = await self._shared.store.settle(changes, self._decide)
        except StoreError:
            raise
        except Exception:
            if len(changes) > 1:
                for change in changes:
                    await self._settle([change])
                return
            log.exception("bug: the look at notification %s can not be written", changes[0].id)
            self._telemetry.alert(
                "bug", f"notification {changes[0].id}: its look can not be written, see the log"
            )
            return
        report(self._telemetry, *settled)

    async def _look(self, entry: Entry, life: Life, at: int, began: float) -> Change | None:
        """Ask once; None: it could not be asked for want of a credential, and the lease is given back."""
        row, attempt = life.row, life.row.state.unknown[-1]
        shared = self._shared
        answer: Finding | Outcome = _MUTE
        if row.address is None:
            answer = _GONE
        elif entry.provider.looks_up:
            held = shared.credentials.get(entry, _nothing)
            if isinstance(held, Missing):
                wait = max(held.until - shared.credentials.now(), int(IDLE * 1_000_000))
                await shared.store.release(self._owner, [(row.id, fence_of(row))], due_at=at + wait)
                return None
            answer = await self._ask(entry, life, row.address, at, held.credential)
            if isinstance(answer, Outcome) and answer.refresh and held.credential is not None:
                shared.credentials.refused(entry, held.credential)
        ended = at + int((shared.clock.monotonic() - began) * 1_000_000)
        event = LookedUp(attempt, answer, ended, looking.looks(life.notes, attempt))
        return Change(row.id, event, (self._owner, fence_of(row)), _call(life, event))

    async def _ask(
        self, entry: Entry, life: Life, address: Address, now: int, credential: str | None
    ) -> Finding | Outcome:
        """Call the provider; whatever goes wrong on our side is a look that failed."""
        message = message_of(life.row, life.content, life.row.state.unknown[-1])
        known = replace(context(entry, life.row, now), credential=credential)
        try:
            request: object = entry.provider.lookup(message, address, known)
            if not isinstance(request, _REQUESTS):
                return _wrong(entry, "lookup() must return a request", request)
            answer = await self._call(request)
            result: object = entry.provider.looked(answer, message, known)
        except InputError as error:
            return Finding(Presence.UNSURE, text=str(error))
        except Exception:
            log.exception("provider %s could not ask what became of a call", entry.channel.provider)
            return _failure(f"provider {entry.channel.provider} could not ask, see the log")
        if isinstance(result, Finding) or (
            isinstance(result, Outcome) and isinstance(result.cls, OutcomeClass)
        ):
            return result
        return _wrong(entry, "looked() must return a Finding or an Outcome", result)

    async def _call(self, request: Request) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def deliver(answers: Sequence[tuple[object, Answer]]) -> None:
            for _, answer in answers:
                if not answered.done():
                    answered.set_result(answer)

        self._shared.wire.submit([("look", request)], deliver)
        return await answered


def _call(life: Life, event: LookedUp) -> AttemptRow | None:
    """The call that the look decided, as it is stored from now on; None: nothing is decided."""
    if looking.decided(event) is None:
        return None
    outcome = looking.told(event)
    return next(
        (
            replace(
                call,
                ended_at=call.ended_at or event.at,
                outcome=outcome.cls.value,
                code=outcome.code,
                message_id=outcome.message_id,
                answer=outcome.text,
                rule=outcome.rule,
            )
            for call in life.attempts
            if call.number == event.attempt
        ),
        None,
    )


def _wrong(entry: Entry, rule: str, result: object) -> Outcome:
    log.error("provider %s is wrong: %s, not %s", entry.channel.provider, rule, type(result).__name__)
    return _failure(f"provider {entry.channel.provider} is wrong: {rule}, not {type(result).__name__}")


def _failure(text: str) -> Outcome:
    return Outcome(OutcomeClass.TRANSIENT, Code.TRANSIENT, text=text, rule="provider error")


def _nothing() -> None:
    """A turn comes soon enough by itself."""
