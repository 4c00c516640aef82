"""Subject guards of an application that is asked over HTTP.

``GET URL?subject=…&tenant=…&event_id=…`` (the parameters are added to those that the URL has). 200 with
``{"wanted": true}`` or ``false`` decides, 404 means that the subject is gone. Anything else, and no answer in time,
is no decision: the notification waits and is asked about again.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from ringonce.model.exchange import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.model.exchange import Answer
    from ringonce.ports import Guard, Row, Wire

OK, GONE = 200, 404


class NoDecisionError(Exception):
    """The application did not say whether it is wanted."""


class Asker:
    """Guards by name, over a wire of their own. The URLs come from the operator, so private ones are as good."""

    def __init__(self, wire: Wire, where: Mapping[str, tuple[str, float]]) -> None:
        """``where``: name -> (URL, seconds that an answer may take)."""
        self._wire = wire
        self._where = where

    async def start(self) -> None:
        """Open what is needed."""
        if self._where:
            await self._wire.start()

    async def close(self) -> None:
        """Whoever still waits for an answer gets none."""
        if self._where:
            await self._wire.close(0.0)

    def guards(self) -> dict[str, Guard]:
        """The guards."""
        return {name: self._guard(url, seconds) for name, (url, seconds) in self._where.items()}

    def _guard(self, url: str, seconds: float) -> Guard:
        async def ask(row: Row) -> bool:
            terms = {"subject": row.subject or "", "tenant": row.tenant, "event_id": row.event_id}
            joint = "&" if urlsplit(url).query else "?"
            request = HttpRequest(
                "GET",
                url + joint + urlencode(terms),
                headers=(("Accept", "application/json"),),
                timeout=seconds,
                connect_timeout=seconds,
            )
            return decision(await self._call(request))

        return ask

    async def _call(self, request: HttpRequest) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def deliver(answers: Sequence[tuple[object, Answer]]) -> None:
            for _, answer in answers:
                if not answered.done():
                    answered.set_result(answer)

        self._wire.submit([(answered, request)], deliver)
        return await answered


def decision(answer: Answer) -> bool:
    """Is it wanted? Raises NoDecisionError."""
    if not isinstance(answer, HttpAnswer):
        raise NoDecisionError("no answer")
    if answer.status == GONE:
        return False
    if answer.status != OK or answer.truncated:
        raise NoDecisionError(f"HTTP {answer.status}")
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    wanted = said.get("wanted") if isinstance(said, dict) else None
    if not isinstance(wanted, bool):
        raise NoDecisionError('the answer has no boolean "wanted"')
    return wanted
