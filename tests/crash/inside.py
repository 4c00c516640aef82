"""Engines inside the test's process: the real store behind a wrapper that injects faults, a wire that counts."""

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ringonce.app import Ringonce
from ringonce.errors import StoreUnavailable
from ringonce.model.exchange import Answer, ScriptedRequest
from ringonce.model.records import Life
from ringonce.ports import Store
from ringonce.wire.script import ScriptedWire

Plan = Callable[[str, str, object], Awaitable[None]]
"""(method, ``before`` or ``after``, its result) may raise, wait, or never return."""

Deliver = Callable[[Sequence[tuple[object, Answer]]], None]

SLOTS = 5


class FaultyStore:
    """The real store; each of its calls passes ``plan`` on its way in and out."""

    def __init__(self, real: Store, plan: Plan) -> None:
        self._real = real
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._real, name)
        if not inspect.iscoroutinefunction(attribute) or name in {"open", "close"}:
            return attribute

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._plan(name, "before", None)
            result = await attribute(*arguments, **named)
            await self._plan(name, "after", result)
            return result

        return call


class CountingWire:
    """Counts what is sent for each address of the ledger's kind: (reference) -> accepted calls."""

    def __init__(self) -> None:
        self.dead = False
        self.rung: Counter[str] = Counter()
        self._inner = ScriptedWire()

    async def start(self) -> None:
        """Begin."""
        await self._inner.start()

    def submit(self, batch: Sequence[tuple[object, ScriptedRequest]], deliver: Deliver) -> None:
        """Count what will be accepted; a dead process sends nothing and hears nothing."""
        if self.dead:
            return

        def told(answers: Sequence[tuple[object, Answer]]) -> None:
            if not self.dead:
                deliver(answers)

        self.rung.update(request.reference for _, request in batch if request.step == "ok")
        self._inner.submit(batch, told)

    async def close(self, grace: float) -> None:
        """End."""
        await self._inner.close(0.0 if self.dead else grace)


@dataclass(slots=True)
class Storm:
    """Faults by chance: an error before or after the work, or a delay. At most ``most`` of them."""

    seed: int
    share: float = 0.25
    most: int = 100
    happened: Counter[str] = field(default_factory=Counter)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Say the seed, so that a failure can be had again."""
        print(f"seed {self.seed}")  # noqa: T201 - shown when the test fails
        self._random = random.Random(self.seed)

    async def __call__(self, name: str, when: str, _result: object) -> None:
        """Let it happen, or not."""
        if self._random.random() >= self.share or self.happened.total() >= self.most:
            return
        self.happened[f"{name} {when}"] += 1
        if self._random.random() < 0.3:
            await asyncio.sleep(self._random.uniform(0.0, 0.01))
        else:
            raise StoreUnavailable(f"storm: {name} {when}")


@dataclass(slots=True)
class Death:
    """The process is gone from the ``turn``-th time on that ``name`` did something: nothing returns any more."""

    name: str
    when: str
    turn: int = 1
    died: asyncio.Event = field(default_factory=asyncio.Event)
    wire: CountingWire = field(default_factory=CountingWire)

    async def __call__(self, name: str, when: str, result: object) -> None:
        """Die here?"""
        if name == self.name and when == self.when and (when == "before" or _did_something(result)):
            self.turn -= 1
            if self.turn <= 0:
                self.died.set()
                self.wire.dead = True
        if self.died.is_set():
            await asyncio.Event().wait()


def _did_something(result: object) -> bool:
    for name in ("rows", "begun"):
        if hasattr(result, name):
            return bool(getattr(result, name))
    return bool(result)


async def nothing(_name: str, _when: str, _result: object) -> None:
    """No fault."""


def channel(in_doubt: str, *script: str, lease: str = "1s") -> dict[str, object]:
    """A channel of the sandbox."""
    return {
        "provider": "sandbox",
        "script": list(script),
        "in_doubt": in_doubt,
        "lease": lease,
        "concurrency": SLOTS,
        "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0},
        "budgets": {"transient": 8, "unknown": 8},
    }


def settings(url: str, grace: str = "5s", lease: str = "1s", call: str = "delay:0.003") -> dict[str, object]:
    """A configuration with a channel for each way to treat a doubt, and one that fails at first."""
    return {
        "store": {"url": url},
        "retry": {"cycle": "20ms"},
        "worker": {"grace": grace},
        "channels": {
            "assume": channel("assume_sent", call, lease=lease),
            "resend": channel("resend", call, lease=lease),
            "hold": channel("hold", call, lease=lease),
            "flaky": channel("assume_sent", "transient", "ok", lease=lease),
        },
    }


def application(
    config: dict[str, object],
    real: Store | None = None,
    plan: Plan = nothing,
    wire: CountingWire | None = None,
) -> tuple[Ringonce, CountingWire]:
    """An application over ``real`` (None: a store of its own), behind ``plan``."""
    wire = wire or CountingWire()
    made = Ringonce(config, wire=cast("Any", wire))
    made.store = made.engine.store = cast("Store", FaultyStore(real or made.store, plan))
    return made, wire


def bodies(count: int) -> list[dict[str, object]]:
    """``count`` events, over all channels."""
    names = ("assume", "resend", "hold", "flaky")
    return [
        {
            "event_id": f"n-{number}",
            "to": {names[number % len(names)]: f"address-{number}"},
            "subject": f"order:{number % 3}",
            "content": {"text": "x"},
        }
        for number in range(count)
    ]


async def lives(application_: Ringonce) -> list[Life]:
    """All notifications with their attempts."""
    found: list[Life] = []
    after = None
    while rows := await application_.search(limit=200, after=after):
        found += [await application_.get(row.id) for row in rows]
        after = rows[-1].id
    return found


def unknown(life: Life) -> bool:
    """Was any call without a verdict?"""
    # A late answer takes the place of a doubt.
    return any(attempt.outcome == "unknown" or attempt.late for attempt in life.attempts)


def judge(found: Sequence[Life], rung: Counter[str], *, doubts: int) -> None:
    """The promise: told once, or in doubt; at most ``doubts`` per channel in doubt; nothing told twice but resends."""
    by_channel: Counter[str] = Counter()
    for life in found:
        row = life.row
        references = {attempt.reference for attempt in life.attempts if attempt.reference}
        times = sum(rung[reference] for reference in references)
        doubted = unknown(life)
        by_channel[row.channel] += doubted
        assert row.state.final or (doubted and row.channel == "hold"), (
            f"{row.event_id} is still {row.state.status}"
        )
        assert times or doubted, f"{row.event_id} is {row.state.status} and was never sent"
        assert times <= 1 or (doubted and row.channel == "resend"), f"{row.event_id} was sent {times} times"
    assert all(count <= doubts for count in by_channel.values()), by_channel
