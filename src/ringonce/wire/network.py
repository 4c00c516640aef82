"""The one Wire of a process: each kind of request goes to the part that carries it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from ringonce.model.exchange import (
    HttpRequest,
    LibraryRequest,
    MailRequest,
    ScriptedRequest,
    SmsRequest,
)
from ringonce.wire.http import HttpWire
from ringonce.wire.library import LibraryWire
from ringonce.wire.script import ScriptedWire
from ringonce.wire.smtp import MailWire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.model.exchange import Request, SmsCenter
    from ringonce.ports import Deliver, SmsHeard
    from ringonce.wire.smpp import SmsWire


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """How the wire behaves as a whole; each request brings its own timeouts.

    ``allow_private_networks``: reachable for guarded requests although not public, e.g. ``10.0.0.0/8``.
    ``ca_file``: certificates to trust instead of the system's. ``helo``: our name for mail servers; None:
    this machine's. ``mail_connections``: at most so many to one mail server (and user) at a time.
    """

    allow_private_networks: tuple[str, ...] = ()
    ca_file: str | None = None
    user_agent: str = "ringonce"
    helo: str | None = None
    mail_connections: int = 20


class Network:
    """Implements ``ports.Wire``.

    Raises:
        ConfigError: ``allow_private_networks`` names something that is not a network.
    """

    def __init__(self, options: NetworkOptions | None = None) -> None:
        options = options or NetworkOptions()
        self._http = HttpWire(
            allow_private_networks=options.allow_private_networks,
            ca_file=options.ca_file,
            user_agent=options.user_agent,
        )
        self._mail = MailWire(
            ca_file=options.ca_file, helo=options.helo, max_connections=options.mail_connections
        )
        self._script = ScriptedWire()
        self._library = LibraryWire()
        self._sms: SmsWire | None = None
        self._ca_file = options.ca_file

    async def start(self) -> None:
        """Open what is needed; called inside the running event loop."""
        await self._http.start()
        await self._mail.start()
        await self._script.start()

    def submit(self, batch: Sequence[tuple[object, Request]], deliver: Deliver) -> None:
        """Begin all; ``deliver`` gets (token, answer) pairs as they come, each token exactly once."""
        http: list[tuple[object, HttpRequest]] = []
        mail: list[tuple[object, MailRequest]] = []
        script: list[tuple[object, ScriptedRequest]] = []
        sms: list[tuple[object, SmsRequest]] = []
        library: list[tuple[object, LibraryRequest]] = []
        for token, request in batch:
            match request:
                case HttpRequest():
                    http.append((token, request))
                case MailRequest():
                    mail.append((token, request))
                case ScriptedRequest():
                    script.append((token, request))
                case SmsRequest():
                    sms.append((token, request))
                case LibraryRequest():
                    library.append((token, request))
                case _:
                    assert_never(request)
        if http:
            self._http.submit(http, deliver)
        if mail:
            self._mail.submit(mail, deliver)
        if script:
            self._script.submit(script, deliver)
        if sms:
            self._short().submit(sms, deliver)
        if library:
            self._library.submit(library, deliver)

    def listen(self, center: SmsCenter, heard: SmsHeard) -> None:
        """See ``ports.Hearing``."""
        self._short().listen(center, heard)

    def _short(self) -> SmsWire:
        if self._sms is None:
            # The library beneath it is optional: a channel that needs it is refused at start-up without it.
            from ringonce.wire.smpp import SmsWire

            self._sms = SmsWire(ca_file=self._ca_file)
        return self._sms

    async def close(self, grace: float) -> None:
        """Wait up to ``grace`` seconds for what runs, then answer the rest, saying whether it was sent."""
        parts = (self._http, self._mail, self._script, self._library, *([self._sms] if self._sms else ()))
        await asyncio.gather(*(part.close(grace) for part in parts))
