"""Credentials that must be fetched before a provider can be called: one for each account, shared by all lanes.

A credential is fetched before an attempt is marked, so that a failure here is never an attempt. One fetch runs at a
time for an account, however many rows and workers wait, and the next one begins while the old credential is still good.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from ringonce.engine.vault import secret_of
from ringonce.errors import StoreError
from ringonce.model.exchange import Credential, Request
from ringonce.model.keeping import REFUSED
from ringonce.model.outcome import CODE_OF, Code, Outcome, OutcomeClass
from ringonce.model.policy import MINUTE, SECOND
from ringonce.provider import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from ringonce.engine.channels import Entry
    from ringonce.engine.vault import Found, Vault
    from ringonce.model.exchange import Answer
    from ringonce.ports import Entropy, Telemetry, Wire

log = logging.getLogger("ringonce")

WAIT_FIRST = SECOND
WAIT_LAST = MINUTE
ALERT_AFTER = 5 * MINUTE
FRESH_FOR = 0.8
"""The share of a credential's life after which the next one is fetched, beside the calls that go on."""

_NOT_ASKED = Outcome(
    OutcomeClass.TRANSIENT,
    Code.TRANSIENT,
    text="the database, where workers share it, could not be asked",
    rule="store error",
)
_NOT_TAKEN = Outcome(
    OutcomeClass.TRANSIENT,
    Code.TRANSIENT,
    text="the call for it could not be made, see the log",
    rule="wire error",
)


@dataclass(frozen=True, slots=True)
class Held:
    """Calls can be made: with this credential, or (None) without any."""

    credential: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Missing:
    """No call can be made before ``until`` (microseconds). ``outcome`` None: a fetch is under way."""

    until: int
    outcome: Outcome | None = None

    @property
    def refused(self) -> bool:
        """A person must look: trying again changes nothing."""
        return self.outcome is not None and self.outcome.cls is OutcomeClass.AUTH


@dataclass(slots=True)
class _Slot:
    """One account."""

    held: Credential | None = None
    made_at: int | None = None
    """When it was fetched, where it is shared."""
    refused: str | None = field(default=None, repr=False)
    needless: bool = False
    refresh_at: int | None = None
    fetching: bool = False
    missing: Missing | None = None
    failures: int = 0
    failing_since: int = 0
    alerted: bool = False
    waiting: set[Callable[[], None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Turn:
    """The right to fetch for all workers."""

    vault: Vault
    account: str
    secret: str = field(repr=False)

    async def end(self, result: Credential | Outcome, now: int) -> None:
        """Leave what came, and the right, to the others. When this fails, the right ends by itself."""
        try:
            if isinstance(result, Credential):
                await self.vault.keep(self.account, self.secret, result, now)
            else:
                await self.vault.give_up(self.account)
        except StoreError as error:
            log.warning("the credential of %s is not shared: %s", self.account, error)
        except Exception:
            log.exception("bug: the credential of %s is not shared", self.account)


class Credentials:
    """Keeps, fetches and renews them. Nothing here waits: a lane is woken when its credential has come."""

    def __init__(
        self,
        wire: Wire,
        entropy: Entropy,
        telemetry: Telemetry,
        clock: Callable[[], int],
        vault: Vault | None = None,
    ) -> None:
        """``clock`` gives microseconds UTC. ``vault``: where workers share theirs; None: each has its own."""
        self._wire = wire
        self._entropy = entropy
        self._telemetry = telemetry
        self._clock = clock
        self._vault = vault
        self._slots: dict[str, _Slot] = {}
        self._turns: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for no other worker any more, and let what is being written come to its end."""
        for task in self._turns:
            task.cancel()
        await asyncio.gather(*self._turns, *self._writes, return_exceptions=True)

    def now(self) -> int:
        """The clock that ``Missing.until`` is told by: that of this machine, which the other side compares with."""
        return self._clock()

    def blocked(self, entry: Entry) -> int:
        """Microseconds for which it is known that no call of this channel can be made; 0: try."""
        slot, now = self._slot(entry), self._clock()
        return 0 if _good(slot, now) or slot.missing is None else max(0, slot.missing.until - now)

    def ready(self, entry: Entry) -> bool:
        """A call can be made now, as far as credentials go."""
        return _good(self._slot(entry), self._clock())

    def get(self, entry: Entry, wake: Callable[[], None]) -> Held | Missing:
        """What calls of this channel are to be made with; ``wake`` is called when a running fetch has ended."""
        slot, now = self._slot(entry), self._clock()
        if _wanted(slot, now):
            self._fetch(entry, slot, now)
        if slot.needless:
            return Held()
        if slot.held is not None and _good(slot, now):
            return Held(slot.held.value)
        if slot.missing is not None and not slot.fetching:
            return slot.missing
        slot.waiting.add(wake)
        return Missing(now)

    def refused(self, entry: Entry, credential: str) -> tuple[str, int] | None:
        """A call with this credential was refused: it is not used any more, unless it has been replaced already.

        Account and time, where it is shared: the other workers are to be told.
        """
        slot = self._slot(entry)
        if slot.held is None or slot.held.value != credential:
            return None
        slot.held, slot.refused = None, credential
        return None if slot.made_at is None else (name_of(entry), slot.made_at)

    async def check(self) -> None:
        """Another worker may have been refused what is held here: drop that, and what there is a later one of."""
        for account, slot in list(self._slots.items()):
            held, made_at = slot.held, slot.made_at
            if self._vault is None or held is None or made_at is None:
                continue
            kept = await self._vault.sealed(account)
            gone = kept is not None and (kept.expires_at == REFUSED or kept.made_at > made_at)
            if gone and slot.held is held:
                slot.held, slot.refused = None, held.value

    def _slot(self, entry: Entry) -> _Slot:
        return self._slots.setdefault(name_of(entry), _Slot())

    def _fetch(self, entry: Entry, slot: _Slot, now: int) -> None:
        context = fetching(entry, now, self._entropy)
        request = ask(entry, context)
        if request is None:
            slot.needless = True
            return
        if isinstance(request, Outcome):
            self._failed(entry, slot, request, now)
            return
        slot.fetching = True
        secret = "" if self._vault is None else secret_of(entry.provider.options)
        if self._vault is None or not secret:
            self._call(entry, slot, request, context)
        else:
            work = self._share(entry, slot, _Turn(self._vault, name_of(entry), secret), request, context)
            self._begin(work, self._turns)

    def _call(
        self, entry: Entry, slot: _Slot, request: Request, context: Context, turn: _Turn | None = None
    ) -> None:
        """Fetch it. ``turn``: for all workers, which is to be left to them afterwards."""

        def deliver(answers: Sequence[tuple[object, Answer]]) -> None:
            for _, answer in answers:
                result, now = read(entry, answer, context), self._clock()
                self._landed(entry, slot, result, None if turn is None else now)
                if turn is not None:
                    self._begin(turn.end(result, now), self._writes)

        try:
            self._wire.submit([("credential", request)], deliver)
        except Exception:
            log.exception("bug: the wire did not take the call for a credential")
            slot.fetching = False
            self._failed(entry, slot, _NOT_TAKEN, self._clock())
            if turn is not None:
                self._begin(turn.end(_NOT_TAKEN, self._clock()), self._writes)

    async def _share(
        self, entry: Entry, slot: _Slot, turn: _Turn, request: Request, context: Context
    ) -> None:
        """Take over what another worker has fetched, or fetch it for all."""

        def wanted(found: Found) -> bool:
            return _useful(found, slot, self._clock())

        try:
            found = await turn.vault.turn(turn.account, turn.secret, entry.channel.timeout, wanted)
        except StoreError as error:
            log.warning("the credential of %s can not be shared: %s", turn.account, error)
            self._landed(entry, slot, _NOT_ASKED)
        except Exception:
            log.exception("bug: the credential of %s can not be shared", turn.account)
            self._landed(entry, slot, _NOT_ASKED)
        else:
            if found is None:
                self._call(entry, slot, request, context, turn)
            else:
                self._landed(entry, slot, found.credential, found.made_at)

    @staticmethod
    def _begin(work: Coroutine[None, None, None], among: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="ringonce-credential")
        among.add(task)
        task.add_done_callback(among.discard)

    def _landed(
        self, entry: Entry, slot: _Slot, result: Credential | Outcome, made_at: int | None = None
    ) -> None:
        now = self._clock()
        slot.fetching = False
        if isinstance(result, Credential):
            slot.held, slot.missing, slot.failures, slot.alerted = result, None, 0, False
            slot.made_at = made_at
            slot.refresh_at = _refresh_at(result, now if made_at is None else made_at)
        else:
            self._failed(entry, slot, result, now)
        waiting, slot.waiting = slot.waiting, set()
        for wake in waiting:
            wake()

    def _failed(self, entry: Entry, slot: _Slot, outcome: Outcome, now: int) -> None:
        """Wait before the next fetch, longer each time; a refusal pauses its channel, which is wait enough."""
        slot.failures += 1
        if slot.failures == 1:
            slot.failing_since = now
        log.warning("no credential for provider %s: %s", entry.channel.provider, outcome.text)
        wait = WAIT_FIRST
        if outcome.cls is not OutcomeClass.AUTH:
            hint = (outcome.retry_after_s or 0) * SECOND
            growing = min(WAIT_LAST, WAIT_FIRST << min(slot.failures - 1, 10))
            wait = max(hint, int(growing * (1 + self._entropy.jitter()) / 2))
            if now - slot.failing_since >= ALERT_AFTER and not slot.alerted:
                slot.alerted = True
                self._telemetry.alert(
                    "credential_failing",
                    f"no credential could be fetched for 5 minutes; its rows wait: {outcome.text}",
                    channel=entry.channel.name,
                )
        slot.missing = Missing(now + wait, outcome)


def _wanted(slot: _Slot, now: int) -> bool:
    """It is time to fetch, and nothing speaks against it."""
    if slot.needless or slot.fetching or (slot.missing is not None and now < slot.missing.until):
        return False
    return slot.held is None or (slot.refresh_at is not None and now >= slot.refresh_at)


def _good(slot: _Slot, now: int) -> bool:
    return slot.needless or (
        slot.held is not None and (slot.held.expires_at is None or now < slot.held.expires_at)
    )


def _refresh_at(credential: Credential, made_at: int) -> int | None:
    """When the next one is to be fetched."""
    if credential.expires_at is None:
        return None
    return made_at + int(max(0, credential.expires_at - made_at) * FRESH_FOR)


def _useful(found: Found, slot: _Slot, now: int) -> bool:
    """It was not refused, it is good, and, where another is held, it is a later one."""
    credential, refresh_at = found.credential, _refresh_at(found.credential, found.made_at)
    if credential.value == slot.refused or (
        credential.expires_at is not None and now >= credential.expires_at
    ):
        return False
    return slot.held is None or refresh_at is None or now < refresh_at


def name_of(entry: Entry) -> str:
    """Whose credential it is: all channels with the same account share it."""
    return f"{entry.channel.provider}:{entry.provider.account}"


def fetching(entry: Entry, now: int, entropy: Entropy) -> Context:
    """What the provider may know when it asks for a credential."""
    return Context(now=now, timeout=entry.channel.timeout / SECOND, entropy=entropy.random_bytes)


def ask(entry: Entry, context: Context) -> Request | Outcome | None:
    """The call that fetches a credential; None: none is needed. A provider that fails to build it is a refusal."""
    try:
        request: object = entry.provider.grant(context)
    except Exception:
        log.exception("provider %s could not ask for a credential", entry.channel.provider)
        return _refusal(f"provider {entry.channel.provider} could not ask for a credential, see the log")
    if request is None or isinstance(request, Request):
        return request
    return _wrong(entry, "grant() must return a request or None", request)


def read(entry: Entry, answer: Answer, context: Context) -> Credential | Outcome:
    """What came: a credential, a failure that may pass, or (whatever else it is) a refusal."""
    try:
        result: object = entry.provider.granted(answer, context)
    except Exception:
        log.exception("provider %s could not read a credential", entry.channel.provider)
        return _refusal(f"provider {entry.channel.provider} could not read the credential, see the log")
    if isinstance(result, Credential) and _usable(result.value, result.expires_at):
        return result
    if not isinstance(result, Outcome) or not isinstance(result.cls, OutcomeClass):
        return _wrong(
            entry, "granted() must return a Credential (text, microseconds or None) or an Outcome", result
        )
    match result.cls:
        case OutcomeClass.TRANSIENT | OutcomeClass.RATE_LIMITED | OutcomeClass.AUTH:
            return result
        case (
            OutcomeClass.ACCEPTED
            | OutcomeClass.INVALID_RECIPIENT
            | OutcomeClass.INVALID_PAYLOAD
            | OutcomeClass.BLOCKED
            | OutcomeClass.DISABLED
            | OutcomeClass.NOT_IMPLEMENTED
        ):
            return replace(result, cls=OutcomeClass.AUTH, code=CODE_OF[OutcomeClass.AUTH], scope="channel")
        case _:
            assert_never(result.cls)


def _usable(value: object, expires_at: object) -> bool:
    return isinstance(value, str) and (expires_at is None or isinstance(expires_at, int))


def _wrong(entry: Entry, rule: str, result: object) -> Outcome:
    """A refusal that names the provider's mistake; what was returned may be a secret, so only its type is told."""
    return _refusal(f"provider {entry.channel.provider} is wrong: {rule}, not {type(result).__name__}")


def _refusal(text: str) -> Outcome:
    return Outcome(OutcomeClass.AUTH, Code.AUTH, scope="channel", text=text, rule="provider error")
