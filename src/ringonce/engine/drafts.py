"""Replies that wait for approval: saved under a key, sent by hand or by their mode, each published once.

This part of the library's face. A draft is a notification; nothing here changes one but through the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.drafts import renewal, sent_at, state_of
from ringonce.core.machine import NEW
from ringonce.engine.settle import report
from ringonce.engine.views import stamp
from ringonce.errors import ConflictError, InputError, NotFoundError
from ringonce.model.draft import Draft, DraftMode, DraftQuery, DraftState, NewDraft, Saved
from ringonce.model.notification import Content
from ringonce.model.records import Change, NewContent, NewNotification, Plan, Row, Settled, Write
from ringonce.model.transition import Approved, Enqueued, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from ringonce.engine.engine import Engine
    from ringonce.model.event import Event
    from ringonce.model.records import NewEvent, RecipientFacts
    from ringonce.model.transition import Refusal, TransitionEvent
    from ringonce.ports import Decide

LONGEST_KEY = 256
LONGEST_SCENARIO = 64
TYPE = "draft"
"""The type of the event that a draft is accepted as."""


class Drafts:
    """Mixed into ``ringonce.Ringonce``. Every method raises StoreError when the database can not be used."""

    engine: Engine

    # --- reading --------------------------------------------------------------------------------------------------

    async def draft(self, key: str, *, channel: str | None = None, tenant: str = "") -> Draft:
        """The draft of a key with its whole history.

        Raises NotFoundError; InputError when several channels have one, and ``channel`` names none of them.
        """
        found = await self._find(key, channel, tenant)
        if found is None:
            raise NotFoundError(f"no draft {key!r}", field="key")
        return found

    async def drafts(
        self,
        *,
        states: Sequence[DraftState | str] = (),
        channel: str | None = None,
        scenario: str | None = None,
        tenant: str | None = None,
        limit: int = 50,
        after: UUID | None = None,
    ) -> list[Draft]:
        """Drafts, newest first, without their history. ``after``: the id of the last one that was read."""
        try:
            wanted = tuple(DraftState(state) for state in states)
        except ValueError:
            raise InputError(f"must be of {', '.join(DraftState)}", field="states") from None
        query = DraftQuery(tenant, channel, None, scenario, wanted, None, limit, after)
        return await self.engine.store.drafts(query)

    # --- writing --------------------------------------------------------------------------------------------------

    async def put_draft(
        self,
        key: str,
        text: str | None = None,
        *,
        channel: str | None = None,
        content: Mapping[str, object] | None = None,
        to: object = None,
        scenario: str | None = None,
        mode: DraftMode | str | None = None,
        subject: str | None = None,
        version: int | None = None,
        by: str = "library",
        tenant: str = "",
    ) -> Saved:
        """Save a text under its key: a new draft, or another text of the one that there is, which goes back to draft.

        Under the mode ``auto`` it is then queued. The same text again changes nothing.

        Args:
            key: what is answered, e.g. ``feedback:123``: one draft of a channel and tenant.
            text: what is said; short for ``content={"text": …}``.
            channel: the channel's name. Default: that of the draft, else ``drafts.channel``.
            content: title, text, html and data, as in ``notify``.
            to: the address. Default: the draft's own, else the key.
            scenario: chooses the mode by ``drafts.scenarios``. Default: the draft's own.
            mode: ``auto`` or ``manual``, over that of the scenario.
            subject: what it is about; cancelled with it. Of a new draft only.
            version: that of the text that is replaced, if you have seen it.
            by: who wrote it.
            tenant: whose it is.

        Raises:
            InputError: what is wrong, by field; nothing is saved.
            ConflictError: ``already_sent`` and can not be replaced, ``too_late`` (a call is under way), ``in_doubt``
                (one may have arrived), ``stale_version``.
        """
        engine = self.engine
        await engine.channels.refresh(engine.store, engine.clock)
        existing = await self._find(key, channel, tenant)
        chosen = self._channel(channel, existing)
        if scenario is None and existing is not None:
            scenario = existing.scenario
        by_whom = self._mode(mode, scenario)
        where = self._where(key, to, existing)
        body: dict[str, object] = {
            "type": TYPE,
            "to": {chosen: where},
            "content": _said(text, content),
            "event_id": str(engine.entropy.uuid7()),
        }
        if subject is not None:
            body["subject"] = subject
        if tenant:
            body["tenant"] = tenant
        event = _prepared(engine, body, chosen, short=text is not None)
        written = event.event.content or Content()
        if existing is not None and to is not None and existing.row.address is not None:
            _same_place(existing, event.event.to[chosen])
        new = NewDraft(engine.entropy.uuid7(), tenant, chosen, key, scenario, by_whom, event, written)
        entry = engine.channels.get(chosen)
        edits = None if entry is None else entry.provider.edits
        plan = Planning(engine, new, by)

        def renew(draft: Draft, now: int) -> Sequence[TransitionEvent]:
            self._reachable(key, draft)  # it is found under its key here, also when that has no name any more
            return renewal(draft, written, by_whom, by, version, edits, now)

        draft, settled = await engine.store.put_draft(new, plan, keyed(engine.decide, key), renew)
        created = draft.row.id == new.id
        report(engine.telemetry, *(plan.said if created else ()), *settled)
        refused = next((one.write.refused for one in settled if one.write and one.write.refused), None)
        if refused is not None and not (refused.code == "already_sent" and by_whom is DraftMode.AUTO):
            raise _conflict(draft, refused)
        self._wake(draft)
        over = by_whom is DraftMode.AUTO and state_of(draft.row.state) is DraftState.SENT
        return Saved(draft, created, skipped=refused is not None or over)

    async def send_draft(
        self,
        key: str,
        *,
        channel: str | None = None,
        version: int | None = None,
        by: str = "library",
        tenant: str = "",
    ) -> Draft:
        """Approve a draft, or queue one anew whose last attempt failed. What waits to be sent already stays as it is.

        ``version``: that of the text that was seen; another one is then not sent. Raises NotFoundError; ConflictError:
        ``already_sent``, ``already_final`` (rejected), ``stale_version``, ``in_doubt``, ``expired``.
        """
        found = await self.draft(key, channel=channel, tenant=tenant)
        draft, refused = await self._change(found, Approved(by, version), tenant)
        if refused is not None:
            raise _conflict(draft, refused)
        self._wake(draft)
        return draft

    async def reject_draft(
        self,
        key: str,
        *,
        channel: str | None = None,
        reason: str = "",
        version: int | None = None,
        by: str = "library",
        tenant: str = "",
    ) -> Draft:
        """Put a draft aside, or one whose last attempt failed; a rejected one stays so.

        Raises NotFoundError; ConflictError: ``conflict`` (approved already), ``already_sent``, ``stale_version``,
        ``in_doubt``.
        """
        found = await self.draft(key, channel=channel, tenant=tenant)
        draft, refused = await self._change(found, Rejected(by, reason, version), tenant)
        if refused is not None and state_of(draft.row.state) is not DraftState.REJECTED:
            raise _conflict(draft, refused)
        return draft

    async def _change(
        self, found: Draft, event: TransitionEvent, tenant: str
    ) -> tuple[Draft, Refusal | None]:
        engine, row = self.engine, found.row
        decide = keyed(engine.decide, found.key)
        settled = await engine.store.change_draft(Change(row.id, event), decide)
        report(engine.telemetry, settled)
        draft = await self.draft(found.key, channel=row.channel, tenant=tenant)
        return draft, None if settled.write is None else settled.write.refused

    def _wake(self, draft: Draft) -> None:
        if state_of(draft.row.state) is DraftState.PENDING:
            self.engine.notify_workers({draft.row.channel})

    # --- what a PUT leaves open -----------------------------------------------------------------------------------

    async def _find(self, key: str, channel: str | None, tenant: str) -> Draft | None:
        if not 0 < len(key) <= LONGEST_KEY:
            raise InputError(f"1 to {LONGEST_KEY} characters", field="key")
        query = DraftQuery(tenant, channel, key, limit=2, whole=True)
        found = await self.engine.store.drafts(query)
        if len(found) > 1:
            raise InputError(
                f"several channels have a draft {key!r}", field="channel", mend="name the channel"
            )
        return found[0] if found else None

    def _channel(self, channel: str | None, existing: Draft | None) -> str:
        if channel is not None:
            return channel
        chosen = self.engine.settings.drafts.channel if existing is None else existing.row.channel
        if chosen is None:
            raise InputError("by which channel?", field="channel", mend="name it, or set drafts.channel")
        return chosen

    def _mode(self, mode: DraftMode | str | None, scenario: str | None) -> DraftMode:
        modes = self.engine.settings.drafts
        if scenario is not None and not 0 < len(scenario) <= LONGEST_SCENARIO:
            raise InputError(f"1 to {LONGEST_SCENARIO} characters", field="scenario")
        if mode is None:
            return modes.scenarios.get(scenario or "", modes.mode)
        try:
            return DraftMode(mode)
        except ValueError:
            raise InputError(f"must be one of {', '.join(DraftMode)}", field="mode") from None

    def _where(self, key: str, to: object, existing: Draft | None) -> object:
        """The address: as it is given, that of the draft, or what the key says."""
        if existing is None:
            return key if to is None else to
        row = existing.row
        self._reachable(key, existing)
        if to is not None:
            return to
        return row.recipient if row.address is None else row.address.value

    def _reachable(self, key: str, draft: Draft) -> None:
        """Raises ConflictError: whom it was for was erased."""
        entry = self.engine.channels.get(draft.row.channel)
        if draft.row.address is None and (entry is None or not entry.provider.stored):
            raise ConflictError(
                f"draft {key!r} has no address any more: whom it was for was erased", code="already_final"
            )


class Planning:
    """``ports.Planner`` of one draft: one recipient at one address, and nothing is due."""

    def __init__(self, engine: Engine, new: NewDraft, by: str) -> None:
        """Nothing is planned yet."""
        self._engine = engine
        self._new = new
        self._by = by
        self.said: tuple[Settled, ...] = ()

    def __call__(
        self,
        event: Event,
        recipients: Sequence[RecipientFacts],
        cancelled: bool,  # noqa: FBT001 - ports.Planner
        now: int,
    ) -> Plan:
        """The draft, or what is left of it where its subject is withdrawn already."""
        new, one = self._new, recipients[0]
        entry = self._engine.channels.get(new.channel)
        stored = entry is not None and entry.provider.stored
        recipient = one.addresses[0].value if stored else one.id
        address = None if stored else one.addresses[0]
        row = Row(
            id=new.id,
            tenant=event.tenant,
            event_id=event.event_id,
            event_type=event.type,
            recipient=recipient,
            channel=new.channel,
            account="" if entry is None else entry.channel.account,
            address=address,
            subject=event.subject,
            thread=event.thread,
            priority=event.priority,
            collapse=event.collapse,
            created_at=now,
            state=NEW,
        )
        change = Change(new.id, Enqueued(now, cancelled=cancelled, drafted_by=self._by))
        write = keyed(self._engine.decide, new.key)(row, change, False, now)  # noqa: FBT003 - ports.Decide
        self.said = (Settled(change, row, write),)
        return Plan(
            (NewContent(new.channel, new.content),),
            (NewNotification(new.id, recipient, new.channel, row.account, address, new.channel, write),),
        )


def keyed(decide: Decide, key: str) -> Decide:
    """``decide``, and our events of it tell the draft's key."""

    def decided(row: Row, change: Change, lease_held: bool, now: int) -> Write:  # noqa: FBT001 - ports.Decide
        write = decide(row, change, lease_held, now)
        told = []
        for event in write.outbox:
            data = event.payload["data"]
            assert isinstance(data, dict)
            told.append(replace(event, payload={**event.payload, "data": {**data, "key": key}}))
        return replace(write, outbox=tuple(told)) if told else write

    return decided


def _said(text: str | None, content: Mapping[str, object] | None) -> object:
    if text is None:
        return None if content is None else dict(content)
    if content is not None:
        raise InputError("give text or content, not both", field="text")
    return {"text": text}


def _prepared(engine: Engine, body: Mapping[str, object], channel: str, *, short: bool) -> NewEvent:
    """The event that a new draft is accepted as; errors name the fields of a draft."""
    try:
        return engine.prepare(body)
    except InputError as error:
        if error.field in {f"to.{channel}", "to"}:
            error.field = "channel" if error.code == "unknown_channel" else "to"
        elif short and error.field in {"content", "content.text"}:
            error.field = "text"
        raise


def _same_place(draft: Draft, place: str) -> None:
    if draft.row.address is not None and draft.row.address.value != place:
        raise ConflictError(
            f"draft {draft.key!r} answers something else", field="to", mend="leave it out, or use another key"
        )


def _conflict(draft: Draft, refused: Refusal) -> ConflictError:
    """What is refused, by what stands: who decided, and when it was sent."""
    told = [
        f"{note.kind.removeprefix('draft_')} by {note.detail['by']} at {stamp(note.at)}"
        for note in draft.notes
        if note.kind in {"draft_approved", "draft_rejected"}
    ][-1:]
    if (at := sent_at(draft)) is not None:
        told.append(f"sent at {stamp(at)}")
    seen = state_of(draft.row.state)
    facts = "; ".join([f"state {seen.value}", *told])
    return ConflictError(f"draft {draft.key!r}: {refused.text} ({facts})", code=refused.code)
