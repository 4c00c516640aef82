"""What answers mean for the lanes, carried to the store before the results are: with these, slots become free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringonce.core.lane import ACCOUNT, parse

if TYPE_CHECKING:
    from ringonce.engine.circuits import Ruling
    from ringonce.ports import LanePause, Store, Telemetry


@dataclass(slots=True)
class Stops:
    """What is to be paused, what works again, and probes that led to no call."""

    pauses: list[LanePause] = field(default_factory=list)
    resumes: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    refused: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    """Credentials (account, time) that workers share, and the channels that use them."""

    def __bool__(self) -> bool:
        """There is something to be carried out."""
        return bool(self.pauses or self.resumes or self.again or self.refused)

    def add(self, ruling: Ruling) -> None:
        """Take a ruling over."""
        self.pauses.extend(ruling.pauses)
        self.resumes.extend(ruling.resumes)

    async def carry_out(self, store: Store, telemetry: Telemetry) -> None:
        """Write it, and tell people: once when a circuit opens, once when it works again. Safe to repeat."""
        changed = await store.pause(self.pauses) if self.pauses else []
        for pause in self.pauses:
            if pause.reason == "circuit" and pause.lane in changed:
                labels = labels_of(pause.lane)
                telemetry.count("ringonce_circuit_opened_total", **labels)
                if pause.opened == 1:
                    telemetry.alert("circuit_open", "most calls fail: it is left alone, and probed", **labels)
        self.pauses.clear()
        while self.resumes:
            if await store.resume(self.resumes[0], below=False):
                telemetry.alert(
                    "resumed", "the probe succeeded: it works again", **labels_of(self.resumes[0])
                )
            del self.resumes[0]
        while self.refused:
            account, made_at = next(iter(self.refused))
            await store.refuse_credential(account, made_at, self.refused[account, made_at])
            del self.refused[account, made_at]
        if self.again:
            await store.probe_again(self.again)
            self.again.clear()


def labels_of(name: str) -> dict[str, str]:
    """The labels of a metric or an alert about what a name stops."""
    if name.startswith(ACCOUNT):
        return {"account": name.removeprefix(ACCOUNT)}
    lane = parse(name)
    found = {"channel": lane.channel, "tenant": lane.group, "scope": lane.scope}
    return {label: value for label, value in found.items() if value or label == "channel"}
