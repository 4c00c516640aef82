"""The reference page of providers, written from the provider files."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields

from ringonce import registry
from ringonce.provider import DAY, Features, Provider, Rule

UNITS = {"chars": "characters", "bytes": "bytes", "utf16": "UTF-16 code units"}


def page() -> str:
    """Write the page: a table of all providers, then options and rules of each."""
    providers = [registry.provider(name) for name in registry.names()]
    return "\n".join(_lines(providers))


def _lines(providers: list[type[Provider]]) -> Iterator[str]:
    yield "# Providers"
    yield ""
    yield "A channel names its provider in `[channels.NAME]`; the options below stand beside `provider`. What a"
    yield "provider can not carry is refused when a notification is accepted. HTML beside a text is another form of"
    yield "the same message, so a provider without HTML sends the text."
    yield ""
    yield "| provider | carries | limit | a second send under our reference is | doubt |"
    yield "|---|---|---|---|---|"
    for cls in providers:
        carries, limit = _carries(cls.features), _limit(cls.features)
        yield f"| [`{cls.name}`](#{cls.name}) | {carries} | {limit} | {cls.second_send} | {_doubt(cls)} |"
    yield ""
    yield "*Doubt*: what happens to an attempt that began and got no verdict, unless the channel sets `in_doubt`. How"
    yield "an answer is read is told in [What an answer means](../explanation/classification.md)."
    for cls in providers:
        yield ""
        yield f"## {cls.name}"
        yield ""
        yield f"{cls.title}. {_sentence(cls.Options.__doc__)}{_edits(cls)}"
        yield ""
        yield "| option | |"
        yield "|---|---|"
        for field in fields(cls.Options):
            optional = field.default is not MISSING or field.default_factory is not MISSING
            yield f"| `{field.name.rstrip('_')}` | {_default(field.default) if optional else 'required'} |"
        yield ""
        yield "Rules, in the order in which they are tried; after them come the defaults of the status families."
        yield ""
        yield "| rule | means | also | source |"
        yield "|---|---|---|---|"
        for rule in cls.rules:
            yield f"| `{rule.name}` | {rule.cls.value} | {_also(rule)} | {_escaped(rule.source)} |"


def _carries(features: Features) -> str:
    return ", ".join(name for name in ("title", "text", "html", "data") if getattr(features, name))


def _limit(features: Features) -> str:
    limits = []
    if features.max_text is not None:
        limits.append(f"{features.max_text:,} {UNITS[features.unit]} of text")
    if features.max_bytes is not None:
        limits.append(f"{features.max_bytes:,} bytes in all")
    return ", ".join(limits) or "—"


def _edits(cls: type[Provider]) -> str:
    if cls.edits is None:
        return ""
    times = "once" if cls.edits.times == 1 else f"{cls.edits.times} times"
    within = "" if cls.edits.within is None else f", within {cls.edits.within // DAY} days"
    return f" What is published can be changed {times}{within}: see [Replies](../how-to/replies.md)."


def _doubt(cls: type[Provider]) -> str:
    times = "" if cls.unknown_budget is None else f", {cls.unknown_budget} time"
    held = "" if cls.hold_for is None else f" for {cls.hold_for // 60_000_000} min"
    return f"`{cls.in_doubt.value}`{times}{held}"


def _default(value: object) -> str:
    return f"`{value!r}`" if value not in ("", (), None) else "—"


def _also(rule: Rule) -> str:
    facts = {
        "drops the address": rule.drop_address,
        "ambiguous": rule.ambiguous,
        "a fresh credential is tried once": rule.refresh,
        f"scope: {rule.scope}": rule.scope,
        f"floor: {rule.floor}": rule.floor,
        "new address": rule.re_address,
    }
    return ", ".join(fact for fact, holds in facts.items() if holds)


def _sentence(doc: str | None) -> str:
    return _escaped(" ".join(inspect.cleandoc(doc or "").replace("``", "`").split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
