"""What stand-ins report later, signed as their vendors do: early, late, twice, in any order, or forged.

A script is a list of words, each one callback: ``delivered``, ``read``, ``failed``, ``failed=131026`` (with the code of
the vendor). Before it may stand ``early:`` (before the call itself is answered), ``after=2:`` (seconds later) and
``forged:`` (signed with another secret). A word that stands twice is reported twice, and they go in the order of the
list.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ringonce.errors import InputError
from ringonce.vendors.http import Call, HttpStandIn, Reply

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

FORGED = "another-secret-than-the-one-agreed"
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a report is about. ``url``: where it goes, when the call said so."""

    reference: str = ""
    address: str = ""
    message_id: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """One word of a script. ``at``: seconds since 1970 that it claims; 0: now."""

    word: str
    code: str = ""
    early: bool = False
    forged: bool = False
    after: float = 0.0
    at: float = field(default=0.0)

    @property
    def moment(self) -> float:
        """Seconds since 1970."""
        return self.at or time.time()


@dataclass(frozen=True, slots=True)
class Signed:
    """A callback, ready to be posted."""

    url: str
    headers: dict[str, str]
    body: bytes


def planned(text: str) -> Planned:
    """A word of a script. Raises InputError."""
    *before, last = text.split(":")
    word, _, code = last.partition("=")
    early, forged, after = False, False, 0.0
    for part in before:
        name, _, number = part.partition("=")
        if part == "early":
            early = True
        elif part == "forged":
            forged = True
        elif name == "after" and number.replace(".", "", 1).isdecimal():
            after = float(number)
        else:
            raise InputError(
                f"{text!r} begins with no known word", field="report", mend="early:, forged:, after=2:"
            )
    if not word:
        raise InputError(f"{text!r} reports nothing", field="report", mend="write delivered")
    return Planned(word, code, early, forged, after)


class Reporter(HttpStandIn):
    """Mixed into stand-ins whose vendors report.

    Args:
        reports_to: the URL that callbacks go to, where the call does not name one.
        reports: what is reported about each message, a script.
        receipt_secret: what callbacks are signed with.
        more: see StandIn.
    """

    def __init__(
        self, *, reports_to: str = "", reports: Sequence[str] = (), receipt_secret: str = "", **more: Any
    ) -> None:
        super().__init__(**more)
        self.reports_to = reports_to
        self._script = [planned(text) for text in reports]
        self._secret = receipt_secret
        self._lock = threading.Lock()
        self.told: list[Told] = []
        """Messages that were accepted, in order."""
        self.answers: list[tuple[str, int]] = []
        """What became of each callback: its word, and the status of the answer; 0: there was none."""

    @abstractmethod
    def about(self, call: Call, reply: Reply) -> Told:
        """The message that was accepted."""

    @abstractmethod
    def callback(self, told: Told, report: Planned, secret: str) -> Signed:
        """The vendor's callback."""

    def report(self, told: Told, text: str, *, at: float = 0.0) -> int:
        """Post one callback now; the status of the answer. ``at``: the time that it claims, seconds since 1970."""
        plan = planned(text)
        return self._post(told, Planned(plan.word, plan.code, forged=plan.forged, at=at))

    def _post(self, told: Told, report: Planned) -> int:
        status = post(self.callback(told, report, FORGED if report.forged else self._secret))
        with self._lock:
            self.answers.append((report.word, status))
        return status

    async def accepted(self, call: Call, reply: Reply) -> None:
        """Report what is to be known before the call is answered."""
        told = self.about(call, reply)
        self.told.append(told)
        for one in self._script:
            if one.early:
                await asyncio.to_thread(self._post, told, one)

    def answered(self, call: Call, reply: Reply) -> None:
        """Report the rest, one after the other, in a thread of its own."""
        rest = [one for one in self._script if not one.early]
        if rest:
            told = self.about(call, reply)
            threading.Thread(target=self._tell, args=(told, rest), daemon=True).start()

    def _tell(self, told: Told, reports: Sequence[Planned]) -> None:
        for one in reports:
            time.sleep(one.after)
            self._post(told, one)


def post(signed: Signed) -> int:
    """Post a callback; the status of the answer, 0 if there was none."""
    parts = urlsplit(signed.url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, signed.body, signed.headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def options(parser: ArgumentParser) -> None:
    """What stand-ins that report have as programs."""
    parser.add_argument("--reports-to", default="", metavar="URL", help="where callbacks go")
    parser.add_argument("--report", action="append", default=[], metavar="WORD", help="for example delivered")
    parser.add_argument("--receipt-secret", default="", help="what callbacks are signed with")


def chosen(given: Namespace) -> dict[str, Any]:
    """The arguments for Reporter."""
    return {
        "reports_to": given.reports_to,
        "reports": given.report,
        "receipt_secret": given.receipt_secret,
    }
