"""The circuits of one worker: what its answers say about each provider, and what follows for the lanes.

Whether a circuit is open stands in the store, as a pause that all workers obey; here is only the count that leads to
it. One call probes at a time, whoever makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringonce.core.circuit import Window, failing, open_for
from ringonce.core.lane import of_group
from ringonce.core.scope import STOPPING
from ringonce.ports import LanePause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ringonce.engine.channels import Entry
    from ringonce.model.outcome import Outcome
    from ringonce.ports import Probe


@dataclass(frozen=True, slots=True)
class Ruling:
    """What an answer means for the lanes: what it pauses, what works again, and whether its row is excused."""

    excused: bool = False
    pauses: tuple[LanePause, ...] = ()
    resumes: tuple[str, ...] = ()


NOTHING = Ruling()


class Circuits:
    """A window of answers for each channel and tenant group."""

    def __init__(self) -> None:
        """All are closed at first."""
        self._windows: dict[str, Window] = {}

    def told(self, names: Iterable[str], now: int) -> None:
        """Another worker has found these open (or we have): what is on its way is excused."""
        for name in names:
            self._windows.setdefault(name, Window()).open(now)

    def judge(
        self,
        entry: Entry,
        group: str,
        outcome: Outcome,
        started: int,
        ended: int,
        probes: Sequence[Probe] = (),
    ) -> Ruling:
        """Count an answer; times in microseconds."""
        failed, circuit = failing(outcome), entry.channel.circuit
        if probes:
            return self._probed(entry, outcome, ended, probes)
        if circuit is None or outcome.floor is not None:
            return NOTHING
        name = of_group(entry.channel.name, group)
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = Window()
        if window.answered(circuit, started, ended, failed=failed):
            return Ruling(excused=True, pauses=(LanePause(name, "circuit", ended + open_for(circuit, 1), 1),))
        return Ruling(excused=True) if failed and window.excuses(started) else NOTHING

    def _probed(self, entry: Entry, outcome: Outcome, ended: int, probes: Sequence[Probe]) -> Ruling:
        """The call was to tell whether something works again."""
        failed, circuit = failing(outcome), entry.channel.circuit
        pauses, resumes = [], []
        for probe in probes:
            if probe.reason == "circuit" and failed and circuit is not None:
                self.told((probe.name,), ended)
                opened = probe.opened + 1
                pauses.append(LanePause(probe.name, "circuit", ended + open_for(circuit, opened), opened))
            elif probe.reason == "circuit" or not (failed or outcome.cls in STOPPING):
                resumes.append(probe.name)
        return Ruling(failed, tuple(pauses), tuple(resumes))
