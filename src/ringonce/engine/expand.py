"""Event -> notifications: the rules of ``core.plan``, given ids and stepped through the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.machine import NEW
from ringonce.core.plan import NO_ADDRESS, Planned, outline
from ringonce.errors import InputError
from ringonce.model.notification import Content
from ringonce.model.records import Change, NewContent, NewNotification, Plan, Row
from ringonce.model.transition import Enqueued

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ringonce.engine.channels import Channels
    from ringonce.engine.settle import Decider
    from ringonce.model.event import Event
    from ringonce.model.records import RecipientFacts
    from ringonce.ports import Entropy

UNSUPPORTED = "unsupported"


class Planning:
    """``ports.Planner``: what an event becomes for a chunk of its recipients, by the channels' present switches."""

    def __init__(self, channels: Channels, entropy: Entropy, decide: Decider) -> None:
        """Channels are read anew for each chunk."""
        self._channels = channels
        self._entropy = entropy
        self._decide = decide

    def __call__(
        self,
        event: Event,
        recipients: Sequence[RecipientFacts],
        cancelled: bool,  # noqa: FBT001 - ports.Planner
        now: int,
    ) -> Plan:
        """Plan a chunk."""
        channels = {name: entry.channel for name, entry in self._channels.all().items()}
        stored = self._channels.stored()
        rules = outline(event, recipients, channels, now, cancelled=cancelled, stored=stored)
        # Nobody asked for a certain channel and none fits: that too must be visible afterwards.
        unreachable = [
            Planned(one.recipient, "", "", None, "", Enqueued(now, suppressed_by=NO_ADDRESS))
            for one in rules.skipped
        ]
        planned = [self._carried(event, one) for one in (*rules.planned, *unreachable)]
        content = event.content or Content()
        keys = dict.fromkeys(one.content_key for one in planned)
        return Plan(
            contents=tuple(NewContent(key, content) for key in keys),
            notifications=tuple(self._new(event, one, now) for one in planned),
        )

    def _carried(self, event: Event, one: Planned) -> Planned:
        """A channel that the event did not name and whose provider can not carry the content is suppressed."""
        entry = self._channels.get(one.channel)
        if event.channels is not None or event.content is None or entry is None:
            return one
        try:
            entry.provider.check(event.content)
        except InputError:
            return replace(one, enqueued=replace(one.enqueued, suppressed_by=UNSUPPORTED))
        return one

    def _new(self, event: Event, one: Planned, now: int) -> NewNotification:
        id_ = self._entropy.uuid7()
        row = self._row(id_, event, one, now)
        change = Change(id_, one.enqueued)
        write = self._decide.lower(row, change, one.enqueued, self._decide.step(row, one.enqueued, now))
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
