"""Event -> notifications: the rules of ``core.plan``, given ids and stepped through the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.machine import NEW
from ringonce.core.plan import NO_ADDRESS, Planned, outline
from ringonce.core.text import clean_text
from ringonce.engine.settle import report
from ringonce.engine.wording import Writer
from ringonce.errors import InputError
from ringonce.model.notification import Content
from ringonce.model.records import Change, NewContent, NewNotification, Plan, Row, Settled, Write
from ringonce.model.transition import Enqueued

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from ringonce.engine.channels import Channels
    from ringonce.engine.settle import Decider
    from ringonce.model.event import Event
    from ringonce.model.records import RecipientFacts
    from ringonce.ports import Accepted, Entropy, Telemetry, Templates

UNSUPPORTED = "unsupported"
WHY_CHARACTERS = 500


class Planning:
    """``ports.Planner``: what an event becomes for a chunk of its recipients, by the channels' present switches."""

    def __init__(
        self,
        channels: Channels,
        entropy: Entropy,
        decide: Decider,
        templates: Templates | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Channels are read anew for each chunk."""
        self._channels = channels
        self._entropy = entropy
        self._decide = decide
        self._templates = templates
        self._telemetry = telemetry
        self._said: list[list[Settled]] = []
        self._writes: dict[tuple[str, str, Enqueued, int], Write] = {}

    def tell(self, telemetry: Telemetry, ids: Collection[UUID] | None = None) -> None:
        """Tell what was committed: of all chunks these ids, or the last chunk.

        A transaction that was begun anew has been planned anew, under other ids.
        """
        for chunk in self._said if ids is not None else self._said[-1:]:
            for settled in chunk:
                if ids is None or settled.change.id in ids:
                    report(telemetry, settled)

    def tell_new(self, telemetry: Telemetry, accepted: Sequence[Accepted]) -> None:
        """Tell what was committed of accepted events."""
        if any(self._said):
            self.tell(
                telemetry, {one.id for item in accepted if not item.duplicate for one in item.notifications}
            )

    def __call__(
        self,
        event: Event,
        recipients: Sequence[RecipientFacts],
        cancelled: bool,  # noqa: FBT001 - ports.Planner
        now: int,
    ) -> Plan:
        """Plan a chunk."""
        self._said.append([])
        channels, stored = self._channels.policies(), self._channels.stored()
        rules = outline(event, recipients, channels, now, cancelled=cancelled, stored=stored)
        # Nobody asked for a certain channel and none fits: that too must be visible afterwards.
        unreachable = [
            Planned(one.recipient, "", "", None, "", Enqueued(now, suppressed_by=NO_ADDRESS))
            for one in rules.skipped
        ]
        planned = [*rules.planned, *unreachable]
        if event.template is not None:
            return self._written(event, recipients, planned, now)
        if event.channels is None and event.recipients:
            planned = self._carried(event, planned)
        content = event.content or Content()
        keys = dict.fromkeys([one.content_key for one in planned])
        return Plan(
            contents=tuple([NewContent(key, content) for key in keys]),
            notifications=tuple([self._new(event, one, now) for one in planned]),
        )

    def _written(
        self, event: Event, recipients: Sequence[RecipientFacts], planned: Sequence[Planned], now: int
    ) -> Plan:
        """The plan of an event with a template: a content for each text that differs."""
        known = {one.id: one for one in recipients}
        writer = Writer(event, self._templates, self._channels)
        contents: dict[str, Content] = {}
        made: list[Planned] = []
        invalid: list[str] = []
        for one in planned:
            key, content, enqueued = one.content_key, Content(), one.enqueued
            if enqueued.suppressed_by is None:
                # The inbox that ``to`` names stands under its owner's id.
                reader = known.get(one.recipient) or known[f"{one.channel}:{one.recipient}"]
                key, written = writer.write(one.channel, reader)
                content = written.content
                if written.unsupported:
                    enqueued = replace(enqueued, suppressed_by=UNSUPPORTED)
                elif written.invalid is not None:
                    invalid.append(written.invalid)
                    enqueued = replace(enqueued, invalid=clean_text(written.invalid, WHY_CHARACTERS))
            contents.setdefault(key, content)
            made.append(replace(one, content_key=key, enqueued=enqueued))
        if invalid and self._telemetry is not None:
            self._telemetry.alert(
                "template", f"{len(invalid)} notifications of template {event.template} failed: {invalid[0]}"
            )
        return Plan(
            contents=tuple(NewContent(key, content) for key, content in contents.items()),
            notifications=tuple(self._new(event, one, now) for one in made),
        )

    def _carried(self, event: Event, planned: Sequence[Planned]) -> list[Planned]:
        """A channel that the event did not name and whose provider can not carry the content is suppressed."""
        fits = {name: self._fits(name, event.content) for name in {one.channel for one in planned}}
        return [
            one
            if fits[one.channel]
            else replace(one, enqueued=replace(one.enqueued, suppressed_by=UNSUPPORTED))
            for one in planned
        ]

    def _fits(self, channel: str, content: Content | None) -> bool:
        entry = self._channels.get(channel)
        if content is None or entry is None:
            return True
        try:
            entry.provider.check(content)
        except InputError:
            return False
        return True

    def _new(self, event: Event, one: Planned, now: int) -> NewNotification:
        id_ = self._entropy.uuid7()
        # What is only due is due in the same way for all of a tenant: nothing of it names the notification.
        same = event.tenant, one.channel, one.enqueued, now
        write = self._writes.get(same)
        if write is None:
            row = self._row(id_, event, one, now)
            change = Change(id_, one.enqueued)
            write = self._decide.lower(row, change, one.enqueued, self._decide.step(row, one.enqueued, now))
            if write.due is not None and write == Write(write.state, due=write.due):
                self._writes[same] = write
            if write.outbox:
                self._said[-1].append(Settled(change, row, write))
        return NewNotification(
            id_, one.recipient, one.channel, one.account, one.address, one.content_key, write
        )

    def _row(self, id_: UUID, event: Event, one: Planned, now: int) -> Row:
        return Row(
            id=id_,
            tenant=event.tenant,
            event_id=event.event_id,
            event_type=event.type,
            recipient=one.recipient,
            channel=one.channel,
            account=one.account,
            address=one.address,
            subject=event.subject,
            thread=event.thread,
            priority=event.priority,
            collapse=event.collapse,
            created_at=now,
            state=NEW,
        )
