"""The composition root: configuration, store, wire, clock and providers plugged into one engine.

``Ringonce`` is the library's face, and what the API and the command line stand on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ringonce.clock import SystemClock, SystemEntropy
from ringonce.config import change, refuse_lookup
from ringonce.core.explain import explain
from ringonce.core.lane import Lane, of_account, parse, spell
from ringonce.engine.alarms import Alarms
from ringonce.engine.asking import Asker
from ringonce.engine.channels import Channels
from ringonce.engine.contract import decode_event
from ringonce.engine.drafts import Drafts
from ringonce.engine.engine import Engine, Settings
from ringonce.engine.failing import Failing
from ringonce.engine.people import People
from ringonce.engine.probe import Probe, probe
from ringonce.engine.quarantine import Quarantine
from ringonce.engine.scopes import Scopes
from ringonce.engine.stopped import scopes, stopped
from ringonce.engine.views import channel_view, recipient_of
from ringonce.engine.worker import DUTIES, Drained, Worker
from ringonce.errors import ConfigError, ConflictError, InputError, NotFoundError
from ringonce.model.notification import Content
from ringonce.model.transition import Verdict
from ringonce.parts import awaitable, configuration, entries, network, receiver, store_options, templates
from ringonce.ports import Query
from ringonce.store import enqueue_on, enqueue_on_async, make_store, make_wakeup, migrate
from ringonce.telemetry import ALERTS, Telemetry
from ringonce.wire import Network

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType
    from uuid import UUID

    from ringonce.engine.receipts import Reply
    from ringonce.model.policy import Channel
    from ringonce.model.receipt import Callback
    from ringonce.parts import Source
    from ringonce.ports import Accepted, Backlog, Guard, Life, OutboxRow, Row, Settled, Store, Wire

log = logging.getLogger("ringonce")

MICROSECONDS = 1_000_000
G = TypeVar("G", bound="Callable[[Row], bool | Awaitable[bool]]")


class Ringonce(Failing, People, Quarantine, Drafts):
    """Accept notifications, deliver them, and tell what became of each.

    ::

        async with Ringonce("ringonce.toml") as ringonce:
            await ringonce.notify(to={"email": "ada@example.com"}, content={"text": "Your order has left."})
            await ringonce.run_worker()

    Every method raises StoreError when the database can not be used.
    """

    def __init__(
        self,
        config: Source = None,
        /,
        *,
        wire: Wire | None = None,
        **overrides: object,
    ) -> None:
        """Read the configuration and build the providers; nothing is opened yet.

        Args:
            config: a file's path, a mapping with the file's structure, a Config, or None: ``RINGONCE_CONFIG``,
                ``./ringonce.toml``, else the defaults.
            wire: what carries requests instead of the network, for tests.
            **overrides: sections of the configuration that win over it, e.g. ``store={"url": "sqlite://"}``.

        Raises:
            ConfigError: something in it is wrong.
        """
        self.config = configuration(config, overrides)
        self.telemetry = Telemetry()
        self._guards: dict[str, Guard] = {}
        self._told: set[str] = set()
        self._wire = wire
        oldest, stuck = self.config.store.oldest_snapshot, self.config.alerts.backlog
        self.store: Store = make_store(
            self.config.store.url, store_options(self.config), decode_event, self._identity
        )
        self.engine = Engine(
            store=self.store,
            wakeup=make_wakeup(self.config.store.url, store_options(self.config), self.telemetry),
            wire=self._fresh_wire(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            telemetry=self.telemetry,
            channels=Channels(entries(self.config), self._override),
            guards=self._guards,
            templates=templates(self.config, self.telemetry.alert),
            settings=Settings(
                cycle=self.config.retry.cycle,
                grace=self.config.worker.grace / MICROSECONDS,
                share_credentials=self.config.worker.share_credentials,
                max_payload=self.config.limits.max_payload,
                outbox=frozenset(kind.value for kind in self.config.outbox.events),
                keep=self.config.retention,
                drafts=self.config.drafts,
                oldest_snapshot=None if oldest is None else oldest / MICROSECONDS,
                audited=frozenset(self.config.audit.types),
                stuck=None if stuck is None else stuck / MICROSECONDS,
            ),
        )

        where = receiver(self.config, self.engine.channels.all(), ALERTS)
        self._alarms = None if where is None else Alarms(self.engine, where)
        if self._alarms is not None:
            alarms = self._alarms
            self.telemetry.on_alert(alarms.put)
            self.engine.alarming = lambda: alarms.busy

    async def migrate(self) -> tuple[str | None, str]:
        """Bring the database to the schema that this version needs: (revision before, revision now)."""
        return await migrate(self.config.store.url, store_options(self.config))

    async def open(self) -> None:
        """Connect to the database and read the changes that were made at run time.

        A new SQLite file gets its tables; an older schema is an error whose mend is ``ringonce migrate``.
        """
        if self.config.store.new_file:
            await self.migrate()
        await self.store.open()
        self.engine.channels.apply(await self.store.overrides())
        if self._alarms is not None:
            self._alarms.start()

    async def close(self) -> None:
        """Give everything back."""
        if self._alarms is not None:
            await self._alarms.stop()
        self.telemetry.flush()
        if self.engine.wakeup is not None:
            await self.engine.wakeup.close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        """Open."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    # --- accepting ---

    async def notify(
        self,
        body: bytes | Mapping[str, object] | None = None,
        /,
        *,
        caller: str | None = None,
        **fields: object,
    ) -> Accepted:
        """Accept one event: the structure of ``POST /v1/notifications``, as a mapping, JSON bytes, or keywords.

        ``caller``: the tenant that the caller may act for; None: any.

        Raises:
            InputError: the structure is wrong; the error names the field.
            PayloadTooLarge: it is larger than ``limits.max_payload``.
            ConflictError: the event id is known with another body.
        """
        accepted = (await self.engine.accept([_one(body, fields)], tenant=caller))[0]
        if accepted.conflict:
            raise ConflictError(
                f"event {accepted.event_id} was accepted with another body",
                field="event_id",
                mend="use a new event_id",
            )
        return accepted

    async def notify_many(
        self, bodies: Sequence[bytes | Mapping[str, object]], *, caller: str | None = None
    ) -> list[Accepted]:
        """Accept many in one transaction; one bad structure and nothing is stored.

        A known event id with another body is no error here: that item says ``conflict``.
        """
        return await self.engine.accept(bodies, tenant=caller)

    def enqueue(
        self,
        connection: Any,
        body: bytes | Mapping[str, object] | None = None,
        /,
        *,
        caller: str | None = None,
        **fields: object,
    ) -> Accepted:
        """Accept one event inside your own transaction: rolled back, it never happened; committed, it is delivered.

        The body is that of ``notify``. One row is written, on your connection and in a savepoint: an error leaves
        your transaction as it was. A worker expands it within its poll interval, so the answer names no
        notifications yet (``expanding``). Nothing needs to be open, not even this object.

        Args:
            connection: of the database that has ringonce's tables: SQLAlchemy (Session, Connection), Django
                (``connections[alias]`` or the alias), psycopg, sqlite3. Of an asynchronous library:
                ``enqueue_async``.
            body: see ``notify``.
            caller: see ``notify``.
            **fields: see ``notify``.

        Raises:
            InputError: the structure is wrong, or the connection: of an unknown kind, or in no transaction.
            PayloadTooLarge: the structure is larger than ``limits.max_payload``.
            ConflictError: the event id is known with another body.
            SchemaError: the connection's database has no tables of ringonce.
            SqliteBuildError: the file is used by two SQLite libraries in this process, or by an affected one.
        """
        return enqueue_on(connection, self.engine.prepare(_one(body, fields), tenant=caller))

    async def enqueue_async(
        self,
        connection: Any,
        body: bytes | Mapping[str, object] | None = None,
        /,
        *,
        caller: str | None = None,
        **fields: object,
    ) -> Accepted:
        """``enqueue`` on an AsyncSession or AsyncConnection of SQLAlchemy, on asyncpg, or on psycopg's async one."""
        return await enqueue_on_async(connection, self.engine.prepare(_one(body, fields), tenant=caller))

    # --- by a person ---

    async def cancel(self, id_: UUID, *, by: str = "library", tenant: str | None = None) -> Settled:
        """Stop one notification. Raises NotFoundError; ConflictError when it is too late."""
        return await self.engine.cancel(id_, by=by, tenant=tenant)

    async def cancel_subject(self, subject: str, *, tenant: str = "", by: str = "library") -> list[Settled]:
        """Withdraw a subject: nothing of it is begun any more, nor of what is accepted for it later."""
        return await self.engine.cancel_subject(subject, tenant=tenant, by=by)

    async def retry(
        self, id_: UUID, *, by: str = "library", force: bool = False, tenant: str | None = None
    ) -> Settled:
        """Send a failed or doubtful one again. Raises NotFoundError, ConflictError."""
        return await self.engine.retry(id_, by=by, force=force, tenant=tenant)

    async def resolve(
        self, id_: UUID, verdict: Verdict | str, *, by: str = "library", tenant: str | None = None
    ) -> Settled:
        """Decide a doubt: ``sent``, ``not_sent`` or ``assumed``. Raises NotFoundError, ConflictError."""
        try:
            decided = Verdict(verdict)
        except ValueError:
            raise InputError(f"must be one of {', '.join(Verdict)}", field="verdict") from None
        return await self.engine.resolve(id_, decided, by=by, tenant=tenant)

    # --- what providers report ---

    async def receive(self, channel: str, callback: Callback) -> Reply:
        """Take a vendor's callback, as ``POST /v1/receipts/{channel}`` does, for an application with a web server.

        It is committed when this returns. Raises ForgedError, NotFoundError, InputError.
        """
        return await self.engine.receipts.callback(channel, callback)

    # --- reading ---

    async def get(self, id_: UUID, *, tenant: str | None = None) -> Life:
        """Everything about one notification. Raises NotFoundError."""
        life = await self.store.get(id_, tenant=tenant)
        if life is None:
            raise NotFoundError(f"no notification {id_}")
        return life

    async def explain(self, id_: UUID, *, tenant: str | None = None) -> list[str]:
        """One notification's life in words, and what happens next. Raises NotFoundError."""
        life = await self.get(id_, tenant=tenant)
        # Where an address stands for the recipient, the words do not tell it in full.
        life = replace(life, row=replace(life.row, recipient=recipient_of(life.row)))
        name = life.row.channel
        self.engine.channels.apply(await self.store.overrides())
        entry = self.engine.channels.get(name)
        lanes = await self.store.lanes()
        own = "" if life.due is None else life.due.lane or ""
        scope = parse(own).scope
        if entry is not None and not scope:
            scope = Scopes(lanes).stops(entry, life.content, life.row.address, own)
        way = self.engine.channels.way(parse(own).channel) or entry
        lane = stopped(parse(own).channel or name, way, lanes, tenant=life.row.tenant, scope=scope)
        return explain(
            replace(life, row=replace(life.row, recipient=recipient_of(life.row))),
            await self.store.now(),
            policy=None if entry is None else entry.channel.policy,
            lane=lane,
            enabled=entry is None or entry.channel.enabled,
        )

    async def search(self, /, **terms: Any) -> list[Row]:
        """Notifications, newest first; the terms are the fields of ``ports.Query``."""
        return await self.store.search(Query(**terms))

    async def report(
        self,
        *,
        tenant: str | None = None,
        channel: str | None = None,
        since: int | None = None,
        until: int | None = None,
        by: Sequence[str] = (),
    ) -> list[Mapping[str, object]]:
        """The once report: totals, one row per group of ``by`` (tenant, channel, day). Times: microseconds."""
        return await self.store.report(tenant=tenant, channel=channel, since=since, until=until, by=by)

    async def backlog(self) -> list[Backlog]:
        """What is left to do, per channel."""
        return await self.store.backlog()

    async def outbox(
        self, *, kind: str | None = None, after: int = 0, limit: int = 100
    ) -> list[tuple[int, OutboxRow]]:
        """Events of ours with their position, in order; ``after``: the last position that was read."""
        return await self.store.outbox(kind=kind, after=after, limit=limit)

    # --- channels ---

    async def channels(self) -> list[dict[str, object]]:
        """All channels as they are now: configuration, changes at run time, pauses, backlog."""
        overrides = await self.store.overrides()
        self.engine.channels.apply(overrides)
        lanes = await self.store.lanes()
        backlog = {item.channel: item for item in await self.store.backlog()}
        return [
            channel_view(entry, lanes=lanes, backlog=backlog.get(name), changed=overrides.get(name, {}))
            for name, entry in self.engine.channels.all().items()
        ]

    async def change_channel(self, name: str, changes: Mapping[str, object]) -> None:
        """Change settings of a channel while it runs, in the words of the file; None takes a change back.

        Switching it on also resumes it when it was paused. Raises NotFoundError, ConfigError.
        """
        entry = self._entry(name)
        now = dict((await self.store.overrides()).get(name, {}))
        wanted = {key: value for key, value in {**now, **changes}.items() if value is not None}
        if unknown := [key for key, value in changes.items() if value is None and key not in now]:
            change(entry.channel, dict.fromkeys(unknown, False))
        configured = entries(self.config)[name].channel
        refuse_lookup(change(configured, wanted), looks_up=entry.provider.looks_up and not entry.ways)
        await self.store.override(name, changes)
        if changes.get("enabled") is True:
            await self.release_quarantined(name)
            for one in (entry, *entry.ways):
                await self.store.resume(one.channel.name)
            if entry.channel.account:
                await self.store.resume(of_account(entry.channel.account))
        self.engine.channels.apply(await self.store.overrides())
        self.engine.notify_workers()

    async def enable(self, name: str, *, scope: str | None = None) -> None:
        """Let a channel send: what waited goes on. Raises NotFoundError.

        ``scope``: only a part that is paused, as ``channels`` tells it (``template:order_shipped``).
        """
        if scope is None:
            await self.change_channel(name, {"enabled": True})
        else:
            self._entry(name)
            if not await self.store.resume(spell(Lane(name, "", scope)), below=False):
                paused = [parse(lane.lane).scope for lane in scopes(name, await self.store.lanes())]
                mend = f"paused are: {', '.join(paused) or 'none'}"
                raise NotFoundError(f"{scope!r} of {name} is not paused", field="scope", mend=mend)
            self.engine.notify_workers()

    async def disable(self, name: str) -> None:
        """Let a channel's notifications wait. Raises NotFoundError."""
        await self.change_channel(name, {"enabled": False})

    async def test(self, channel: str, address: object, text: str = "This is a test of ringonce.") -> Probe:
        """Send one text through a channel, past the store. Raises NotFoundError, InputError."""
        return await probe(self.engine, self._fresh_wire(), channel, address, Content(text=text))

    # --- working ---

    def subscribe(self, listener: Callable[[OutboxRow], object]) -> None:
        """Call ``listener`` with each event of ours that is committed in this process, e.g. for badges.

        ``kind`` is ``notification.status_changed`` (every failure, intermediate ones too, and every success),
        ``notification.dispatched``, ``address.invalidated`` or one of the drafts', whether it is published or not.
        It is called in the event loop: be quick.
        """
        self.telemetry.subscribe(listener)

    def guard(self, kind: str) -> Callable[[G], G]:
        """Decorate the subject guard of ``kind``, the part of ``subject`` before the colon.

        It is asked with the notification's row before every attempt: False cancels it, an exception
        (or no answer within 10 seconds) lets it wait.
        A plain function runs in a thread, so it may use a blocking database driver.
        """

        def keep(function: G) -> G:
            self._guards[kind] = awaitable(function)
            return function

        return keep

    async def run_worker(
        self, stop: asyncio.Event | None = None, *, drain: bool = False, only: Sequence[str] = ()
    ) -> Drained | None:
        """Deliver until ``stop`` is set; with ``drain`` until nothing is left that could be moved on.

        Raises InputError for an unknown duty in ``only``.
        """
        for duty in only:
            if duty not in DUTIES:
                raise InputError(f"unknown duty {duty}", field="only", mend=f"there are {', '.join(DUTIES)}")
        # A wire that was closed stays closed, so each worker has its own.
        where = {name: (g.url, g.timeout / MICROSECONDS) for name, g in self.config.guards.items()}
        asker = Asker(Network(network(self.config)), where)
        guards = ChainMap(self._guards, asker.guards())
        engine = replace(self.engine, wire=self._fresh_wire(), guards=guards)
        await asker.start()
        try:
            return await Worker(engine, only).run(stop or asyncio.Event(), drain=drain)
        finally:
            await asker.close()

    def _fresh_wire(self) -> Wire:
        return self._wire or Network(network(self.config))

    def _identity(self, channel: str, value: str) -> str:
        """What makes an address one; of a channel that is gone nobody knows more than the value."""
        entry = self.engine.channels.get(channel)
        return value if entry is None else entry.provider.identity(value)

    def _override(self, channel: Channel, changes: Mapping[str, object]) -> Channel:
        """Changes from the store; one that the file contradicts by now is told of and left out."""
        try:
            return change(channel, changes)
        except ConfigError as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                self.telemetry.alert("bad_override", f"a change made at run time is ignored: {error}")
            return channel


def _one(
    body: bytes | Mapping[str, object] | None, fields: Mapping[str, object]
) -> bytes | Mapping[str, object]:
    if body is None:
        return fields
    if fields:
        raise InputError("give one structure or keywords, not both")
    return body
