"""What the stand-ins for chats share: one call tells one person or channel, and a refusal has the vendor's own word."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ringonce.errors import InputError
from ringonce.vendors import reports
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.vendors.script import Fault


@dataclass(frozen=True, slots=True)
class Said:
    """What a call tells whom. ``reference``: the sender's, where the protocol carries one."""

    address: str
    text: str
    reference: str = ""


class ChatApi(HttpStandIn):
    """Base of the stand-ins for chats.

    Args:
        refused: addresses that are refused, each with the vendor's word for why.
        reference: (address, text) -> the sender's reference, for the ledger, where the protocol carries none.
        more: see StandIn.
    """

    def __init__(
        self,
        *,
        refused: Mapping[str, str] | None = None,
        reference: Callable[[str, str], str] = lambda _address, text: text,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._refused = dict(refused or {})
        self._reference = reference
        self._number = 0

    @abstractmethod
    def said(self, call: Call) -> Said:
        """Read a call, whatever it is."""

    @abstractmethod
    def wrong(self, call: Call, said: Said) -> Reply | None:
        """What the vendor says when the call itself is wrong: path, credential, content; None: nothing."""

    @abstractmethod
    def taken(self, said: Said, number: int) -> Reply:
        """What the vendor says to the message with this number, counted from 1."""

    @abstractmethod
    def no(self, word: str) -> Reply:
        """The vendor's refusal with this word."""

    @abstractmethod
    def fails(self, status: int) -> Reply:
        """The vendor's way to fail with ``status``."""

    def identify(self, call: Call) -> tuple[str, str]:
        """The reference, or what stands for it, and the address."""
        said = self.said(call)
        return said.reference or self._reference(said.address, said.text), said.address

    def respond(self, call: Call) -> Reply:
        """Refuse what is wrong, then who is refused; take everything else."""
        said = self.said(call)
        reply = self.wrong(call, said)
        if reply is not None:
            return reply
        if said.address in self._refused:
            return self.no(self._refused[said.address])
        self._number += 1
        return replace(self.taken(said, self._number), accepted=True)

    def refusal(self, fault: Fault) -> Reply:
        """A fault in the vendor's words."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        reply = self.fails(fault.status)
        return replace(reply, headers=(*reply.headers, *fault.headers))


def plain(status: int, text: str) -> Reply:
    """An answer in plain text."""
    return Reply(status, text.encode(), (("Content-Type", "text/plain"),))


def run(make: type[ChatApi], description: str, *needed: str) -> None:
    """Run a stand-in as a program. ``needed``: names of what it must be given, for example ``token``."""
    parser = arguments(description)
    reporting = issubclass(make, reports.Reporter)
    if reporting:
        reports.options(parser)
    for name in needed:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument(
        "--refused",
        action="append",
        default=[],
        metavar="ADDRESS=WORD",
        help="refused, with the vendor's word",
    )
    options = parser.parse_args()
    refused = {}
    for pair in options.refused:
        address, found, reason = pair.rpartition("=")
        if not found:
            raise InputError(f"{pair!r} names no word", field="refused", mend="write ADDRESS=WORD")
        refused[address] = reason
    given = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in needed}
    given |= reports.chosen(options) if reporting else {}
    make(**given, refused=refused, **common(options)).run_until_stopped()
