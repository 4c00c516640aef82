"""What a provider that can be asked what became of a call has to keep, as a part of ``check_provider``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ringonce.errors import InputError
from ringonce.model.exchange import HttpAnswer, HttpRequest, NoAnswer
from ringonce.provider import Finding, InDoubt, Outcome, Presence, Provider
from ringonce.testing import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringonce.model.exchange import Answer
    from ringonce.model.notification import Content

TRIES, SEED = 400, 7


def check_looks(provider: Provider, value: str, content: Content) -> Iterator[str]:
    """Everything that is wrong with ``lookup`` and ``looked``. ``value``: a good address."""
    cls = type(provider)
    written = {
        cls.lookup is not Provider.lookup,
        cls.looked.__func__ is not Provider.looked.__func__,  # type: ignore[attr-defined]
    }
    if written != {cls.looks_up}:
        yield "looks_up: True needs both lookup and looked, and they need it"
        return
    if not cls.looks_up:
        if cls.in_doubt is InDoubt.LOOKUP:
            yield "in_doubt: lookup needs looks_up"
        return
    message, to, context = samples.message(content), samples.address(value), samples.context()
    try:
        request = provider.lookup(message, to, context)
    except InputError as error:
        yield f"lookup: refuses the good address: {error}"
        return
    if isinstance(request, HttpRequest):
        if request.method not in {"GET", "HEAD", "POST"}:
            yield f"lookup: {request.method} is no reading"
        if not (request.url.isascii() and request.url.isprintable() and " " not in request.url):
            yield "lookup: the URL holds raw characters"
    broken = (NoAnswer(fault, sent=True) for fault in samples.PERHAPS_SENT)
    for answer in chain(broken, samples.http_answers(), samples.fuzz(cls.transport, SEED, TRIES)):
        try:
            told: object = cls.looked(answer, message, context)
        except Exception as error:
            yield f"looked: raises {type(error).__name__} for {_short(answer)}"
            return
        if not isinstance(told, (Finding, Outcome)):
            yield f"looked: returns {type(told).__name__}, not a Finding or an Outcome"
            return
        certain = isinstance(told, Finding) and told.presence is not Presence.UNSURE
        if certain and not _complete(answer):
            yield f"looked: says {told.presence} after {_short(answer)}, which proves nothing"  # type: ignore[union-attr]
            return


def _complete(answer: Answer) -> bool:
    """A whole answer that may tell something."""
    if isinstance(answer, HttpAnswer):
        return not answer.truncated and (answer.status in range(200, 300) or answer.status == 404)
    return not isinstance(answer, NoAnswer)


def _short(answer: Answer) -> str:
    return f"HTTP {answer.status}" if isinstance(answer, HttpAnswer) else type(answer).__name__
