"""The reference page of providers, written from the provider files."""

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields

from ringonce import registry
from ringonce.model.outcome import CODE_OF, Code, OutcomeClass
from ringonce.provider import DAY, Features, Provider, Rule

UNITS = {"chars": "characters", "bytes": "bytes", "utf16": "UTF-16 code units"}
NAMED_BY = {
    "reference": "by our reference",
    "message_id": "by its message id",
    "address": "who blocked us, who is back",
    "nothing": "only proved and answered",
}
RETRIED = {
    OutcomeClass.ACCEPTED: "—",
    OutcomeClass.TRANSIENT: "with backoff, 3 times by default",
    OutcomeClass.RATE_LIMITED: "with long backoff, 5 times by default, never before Retry-After",
    OutcomeClass.AUTH: "when the credential works again",
    OutcomeClass.DISABLED: "when the channel is enabled",
    OutcomeClass.NOT_IMPLEMENTED: "when the channel is enabled",
}
"""What becomes of the notification; the classes that are not here end it."""


def page() -> str:
    """Write the page: tables of all providers, then options, answers and rules of each."""
    providers = [registry.provider(name) for name in registry.names()]
    return "\n".join(_lines(providers))


def _lines(providers: list[type[Provider]]) -> Iterator[str]:
    yield "# Providers"
    yield ""
    yield "A channel names its provider in `[channels.NAME]`; the options below stand beside `provider`. What a"
    yield "provider can not carry is refused when a notification is accepted. HTML beside a text is another form of"
    yield "the same message, so a provider without HTML sends the text."
    yield ""
    yield "| provider | carries | limit | needs |"
    yield "|---|---|---|---|"
    for cls in providers:
        extra = f"the extra `{cls.name}`" if cls.needs else ""
        yield f"| [`{cls.name}`](#{cls.name}) | {_carries(cls.features)} | {_limit(cls.features)} | {extra} |"
    yield ""
    yield "## When a call had no verdict, and what is told later"
    yield ""
    yield "| provider | a second send under our reference is | doubt | look-up | receipts | parts |"
    yield "|---|---|---|---|---|---|"
    for cls in providers:
        facts = (cls.second_send, _doubt(cls), "yes" if cls.looks_up else "", _receipts(cls), _scopes(cls))
        yield f"| [`{cls.name}`](#{cls.name}) | {' | '.join(facts)} |"
    yield ""
    yield "*Doubt*: what happens to an attempt that began and got no verdict, unless the channel sets `in_doubt`."
    yield "*Look-up*: it can be asked what became of a call. *Receipts*: it reports what it took, and what the report"
    yield "names. *Parts*: what a refusal pauses alone, while the rest of the channel goes on. How an answer is read is"
    yield "told in [What an answer means](../explanation/classification.md); `ringonce classify` reads one for you."
    for cls in providers:
        yield from _section(cls)


def _section(cls: type[Provider]) -> Iterator[str]:
    yield ""
    yield f"## {cls.name}"
    yield ""
    yield f"{cls.title}. {_sentence(cls.Options.__doc__)}{_edits(cls)}"
    if options := fields(cls.Options):
        yield ""
        yield "| option | |"
        yield "|---|---|"
        for field in options:
            optional = field.default is not MISSING or field.default_factory is not MISSING
            yield f"| `{field.name.rstrip('_')}` | {_default(field.default) if optional else 'required'} |"
    if not cls.rules:
        return
    yield ""
    yield "| its answers mean | code | it is tried again | by the rules |"
    yield "|---|---|---|---|"
    for kind in OutcomeClass:
        if rules := [rule for rule in cls.rules if rule.cls is kind]:
            names = ", ".join(f"`{rule.name.removeprefix(f'{cls.name}.')}`" for rule in rules)
            codes = ", ".join(dict.fromkeys(_code(cls, rule) for rule in rules))
            yield f"| {kind.value} | {codes} | {RETRIED.get(kind, 'no')} | {names} |"
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
    if cls.stored:
        return "—"
    times = "" if cls.unknown_budget is None else f", {cls.unknown_budget} time"
    held = "" if cls.hold_for is None else f" for {cls.hold_for // 60_000_000} min"
    return f"`{cls.in_doubt.value}`{times}{held}"


def _receipts(cls: type[Provider]) -> str:
    return NAMED_BY[cls.receipts_by] if cls.receipts_by else ""


def _scopes(cls: type[Provider]) -> str:
    found = {rule.scope for rule in cls.rules if rule.scope and rule.scope not in {"channel", "address"}}
    if cls.endpoints:
        found.add("endpoint")
    return ", ".join(sorted(found))


def _code(cls: type[Provider], rule: Rule) -> str:
    code = rule.code or CODE_OF[rule.cls]
    if rule.cls is OutcomeClass.INVALID_RECIPIENT and cls.push and rule.code is None:
        code = Code.PUSH_TOKEN_INVALID
    return "—" if code is None else f"`{code.value}`"


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
