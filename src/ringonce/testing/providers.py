"""``check_provider``: what every provider has to keep, whoever wrote it.

It asks the provider the questions that the engine and the wire will ask: is an address what it says it is, is
refused what can not be carried, is a request the same each time and free of injected headers, do secrets stay out
of texts, and does each answer mean something careful. It does no I/O and needs no database.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass, fields, is_dataclass, replace
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from ringonce import registry
from ringonce.errors import ConfigError, InputError
from ringonce.model.exchange import HttpRequest, LibraryRequest, MailRequest, Request, SmsRequest
from ringonce.model.notification import Content
from ringonce.provider import Features, Provider, length
from ringonce.testing import samples
from ringonce.testing.answers import Case, check_answers
from ringonce.testing.looks import check_looks
from ringonce.testing.parts import check_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRANSPORTS = ("http", "smtp", "smpp", "library", "script")
_REQUESTS = get_args(Request)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET = re.compile(r"secret|token|password|private|credential|api_?key|_key$|^key$")
_OUTSIDE = frozenset(
    (
        *(
            "aiohttp",
            "aiosmtplib",
            "asyncio",
            "concurrent",
            "httpx",
            "logging",
            "multiprocessing",
            "os",
            "pycurl",
        ),
        *(
            "random",
            "requests",
            "secrets",
            "select",
            "smtplib",
            "socket",
            "ssl",
            "subprocess",
            "threading",
            "time",
        ),
        "urllib3",
    )
)
_LINE_ENDS = re.compile(r"[\r\n\0]")


@dataclass
class _Kit:
    cls: type[Provider]
    provider: Provider
    options: Mapping[str, object]
    value: str
    content: Content
    findings: list[str]

    def __call__(self, holds: object, finding: str) -> bool:
        """Add a finding unless it holds."""
        if not holds:
            self.add(finding)
        return bool(holds)

    def add(self, finding: str) -> None:
        """Add a finding, once."""
        if finding not in self.findings:
            self.findings.append(finding)


def check_provider(
    provider: type[Provider] | str,
    options: Mapping[str, object],
    *,
    address: object,
    cases: Sequence[Case] = (),
    content: Content | None = None,
    bad_addresses: Sequence[object] = (),
) -> None:
    """Check a provider against all rules that ringonce relies on.

    Args:
        provider: its class, or the name of an installed one.
        options: the keys of a channel, as in ``[channels.NAME]``.
        address: one that is good.
        cases: its own answers and what they mean; with cases, every rule of the provider must decide one of them.
        content: something it carries; None: a text, or what its features allow.
        bad_addresses: values that it must refuse, besides those that everybody must.

    Raises:
        AssertionError: it lists everything that was found.
    """
    cls = registry.provider(provider) if isinstance(provider, str) else provider
    built = _build(cls, options)
    try:
        value = built.address(address)
    except InputError as error:
        raise AssertionError(f"{cls.__name__}: the good address is refused: {error}") from None
    kit = _Kit(cls, built, options, value, content or _carried(cls.features), [])
    _check_form(kit)
    _check_secrets(kit)
    _check_addresses(kit, bad_addresses)
    _check_content(kit)
    _check_requests(kit)
    kit.findings += check_answers(cls, cases, echo=value)
    kit.findings += check_looks(built, value, kit.content)
    kit.findings += check_parts(built, value, kit.content)
    if kit.findings:
        lines = "".join(f"\n  - {finding}" for finding in kit.findings)
        raise AssertionError(f"provider {cls.__name__}: {len(kit.findings)} findings{lines}")


def _build(cls: type[Provider], options: Mapping[str, object]) -> Provider:
    if not is_dataclass(getattr(cls, "Options", None)):
        raise AssertionError(f"{cls.__name__}: Options must be a frozen dataclass")
    try:
        return registry.construct(cls, options)
    except ConfigError as error:
        raise AssertionError(f"{cls.__name__}: the options are refused: {error}") from None


def _carried(features: Features) -> Content:
    if features.text:
        return Content(text="It is on its way.")
    return Content(
        title="On its way" if features.title else None,
        html="<p>On its way</p>" if features.html else None,
        data={"order": 42} if features.data else {},
    )


# --- its form ---


def _check_form(kit: _Kit) -> None:
    cls = kit.cls
    kit(_NAME.fullmatch(getattr(cls, "name", "")), "name: give one of lower-case letters, digits and _")
    kit(cls.title, "title: give one, the reference shows it")
    kit(cls.transport in _TRANSPORTS, f"transport: must be one of {', '.join(_TRANSPORTS)}")
    doc = cls.Options.__doc__ or ""
    made_up = doc.startswith(f"{cls.Options.__name__}(")  # what dataclass writes where there is none
    kit(doc and not made_up, "Options: say what each option is in its docstring")
    kit(cls.Options.__dataclass_params__.frozen, "Options: must be frozen")
    names = [rule.name for rule in cls.rules]
    kit(len(set(names)) == len(names), "rules: two have the same name")
    for rule in cls.rules:
        kit(rule.source.strip(), f"rule {rule.name}: say where the fact comes from in source")
    try:
        registry.construct(cls, {**kit.options, "no_such_option": 1})
    except ConfigError:
        pass
    else:
        kit.add("options: an unknown key must be refused")
    _check_source(kit)


def _check_source(kit: _Kit) -> None:
    """No I/O can be seen from outside, so its source is read where there is one."""
    module = inspect.getmodule(kit.cls)
    try:
        text = inspect.getsource(module) if module is not None else ""
    except OSError:
        return
    if "ringonce.testing" in text:  # a class that lives in a test, with the test's imports
        return
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await)):
            kit.add(f"line {node.lineno}: a provider never waits")
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            clock = isinstance(node.value, ast.Name) and node.value.id in {"datetime", "date"}
            kit(not clock, f"line {node.lineno}: asks a clock; context.now is the time")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            kit(
                node.func.id not in {"open", "input", "print"}, f"line {node.lineno}: {node.func.id} does I/O"
            )
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [node.module]
        for name in found:
            inner = name == "ringonce" or (name.startswith("ringonce.") and name != "ringonce.provider")
            kit(not inner, f"imports {name}: ringonce.provider is all that a provider needs")
            kit(
                name.partition(".")[0] not in _OUTSIDE,
                f"imports {name}: a provider does no I/O and asks no clock",
            )


def _check_secrets(kit: _Kit) -> None:
    shown = f"{kit.provider.options!r} {kit.provider!r} {kit.provider.account}"
    for field in fields(kit.cls.Options):
        value = kit.options.get(field.name.rstrip("_"))
        if not isinstance(value, str) or len(value) < 4:
            continue
        if _SECRET.search(field.name):
            kit(not field.repr, f"option {field.name}: looks like a secret, mark it field(repr=False)")
        if not field.repr or _SECRET.search(field.name):
            kit(value not in shown, f"option {field.name}: its value shows in a repr or in account")


# --- addresses and content ---


def _check_addresses(kit: _Kit, more: Sequence[object]) -> None:
    kit(type(kit.value) is str and kit.value != "", "address: must return a non-empty text")
    try:
        again = kit.provider.address(kit.value)
        kit(again == kit.value, "address: its own result is changed when it is checked again")
    except InputError:
        kit.add("address: its own result is refused when it is checked again")
    for bad in (None, True, 7.5, [], {}, b"bytes", "", " \t", *more):
        _refuses(kit, lambda bad=bad: kit.provider.address(bad), f"address {bad!r}", "address")
    for hostile in samples.HOSTILE[:4]:
        try:
            value = kit.provider.address(kit.value + hostile)
        except InputError:
            continue
        except Exception as error:
            kit.add(f"address: raises {type(error).__name__} for a hostile text instead of InputError")
            continue
        try:
            request = kit.provider.request(
                samples.message(kit.content), samples.address(value), samples.context()
            )
        except InputError:
            continue
        _check_safe(kit, request, "an address with a line break")


def _refuses(kit: _Kit, call: Any, what: str, field: str) -> None:
    try:
        call()
    except InputError as error:
        kit((error.field or "").startswith(field), f"{what}: the error must name the field {field}")
        kit(error.mend or field == "address", f"{what}: the error must say the mend")
    except Exception as error:
        kit.add(f"{what}: raises {type(error).__name__} instead of InputError")
    else:
        kit.add(f"{what}: must be refused")


def _check_content(kit: _Kit) -> None:
    features, good = kit.cls.features, kit.content
    try:
        kit.provider.check(good)
    except InputError as error:
        kit.add(f"check: refuses what it should carry: {error}")
    extra: dict[str, object] = {"title": "t", "text": "t", "data": {"a": 1}}
    for name, value in extra.items():
        if not getattr(features, name):
            _refuses(
                kit,
                lambda name=name, value=value: kit.provider.check(replace(good, **{name: value})),
                f"content.{name}, which features rule out",
                "content",
            )
    if not features.html:
        alone = Content(html="<b>x</b>")
        _refuses(
            kit, lambda: kit.provider.check(alone), "content.html alone, which features rule out", "content"
        )
    _refuses(kit, lambda: kit.provider.check(Content()), "empty content", "content")
    if features.text:
        for trouble, text in (("U+0000", "a\0b"), ("half a surrogate pair", "\ud800")):
            bad = replace(good, text=text)
            _refuses(kit, lambda bad=bad: kit.provider.check(bad), f"text with {trouble}", "content")
        if features.max_text is not None:
            kit.provider.check(replace(good, text="a" * features.max_text))
            for letter in ("a", "ж", "🙂"):
                times = features.max_text // length(letter, features.unit) + 1
                long = replace(good, text=letter * times)
                _refuses(kit, lambda long=long: kit.provider.check(long), "text over max_text", "content")


# --- requests ---


def _check_requests(kit: _Kit) -> None:
    provider, to = kit.provider, samples.address(kit.value)
    if not kit(type(provider).request is not Provider.request, "request: must be written"):
        return
    first = provider.request(samples.message(kit.content), to, samples.context())
    if not kit(isinstance(first, _REQUESTS), "request: must return a Request"):
        return
    _check_safe(kit, first, "a plain message")
    again = registry.construct(kit.cls, kit.options).request(
        samples.message(kit.content), to, samples.context()
    )
    kit(again == first, "request: the same message, address and context gave another request")
    later = provider.request(
        samples.message(kit.content, attempt=2), to, samples.context(samples.NOW + 60_000_000)
    )
    if isinstance(first, HttpRequest) and isinstance(later, HttpRequest):
        kit((later.method, later.url) == (first.method, first.url), "request: a repeat goes to another URL")
        kit(
            later.body == first.body,
            "request: a repeat has another body; what depends on time belongs into headers",
        )
        kit(
            first.guarded or not _is_from(kit.value, first.url),
            "request: the address decides the host, so set guarded=True",
        )
        short = provider.request(samples.message(kit.content), to, samples.context(timeout=2.0))
        kit(
            isinstance(short, HttpRequest) and short.timeout <= 2.0,
            "request: timeout must come from the context",
        )
    elif isinstance(first, MailRequest):
        kit(
            later == first,
            "request: a repeat of a mail must be the same in each byte, so that mailboxes fold it",
        )
    elif isinstance(first, (SmsRequest, LibraryRequest)):
        short = provider.request(samples.message(kit.content), to, samples.context(timeout=2.0))
        kit(getattr(short, "timeout", 3.0) <= 2.0, "request: timeout must come from the context")
    shown = repr(first)
    kit(kit.value not in shown, "request: its repr shows the address")
    for field in fields(kit.cls.Options):
        value = kit.options.get(field.name.rstrip("_"))
        if not field.repr and isinstance(value, str) and value:
            kit(value not in shown, f"request: its repr shows option {field.name}")
    _try_hostile(kit)


def _is_from(address: str, url: str) -> bool:
    """Does the host come from the address? It may stand anywhere in it: a subscription is JSON."""
    host = urlsplit(url).hostname
    return bool(host) and f"://{host}" in address


def _try_hostile(kit: _Kit) -> None:
    features, to = kit.cls.features, samples.address(kit.value)
    for hostile in samples.HOSTILE:
        contents = [kit.content]
        contents += [replace(kit.content, title=hostile)] if features.title else []
        contents += [replace(kit.content, text=hostile)] if features.text else []
        contents += [replace(kit.content, html=hostile)] if features.html else []
        contents += [replace(kit.content, data={"a": hostile})] if features.data else []
        more: tuple[dict[str, object], ...] = (
            {},
            {"event_type": hostile, "event_id": hostile, "recipient": hostile, "tenant": hostile},
            {"collapse": hostile, "priority": "high", "expires_at": samples.NOW + 3_600_000_000},
            {
                "reference": f"{samples.ID}.r2",
                "revision": 2,
                "priority": "low",
                "expires_at": samples.NOW - 1,
            },
        )
        for content in contents:
            for extra in more:
                try:
                    kit.provider.check(content)
                    request = kit.provider.request(samples.message(content, **extra), to, samples.context())
                except InputError:
                    continue
                except Exception as error:
                    kit.add(
                        f"request: raises {type(error).__name__} ({error}) instead of InputError for hostile input",
                    )
                    continue
                _check_safe(kit, request, "hostile input")


def _check_safe(kit: _Kit, request: object, where: str) -> None:
    if isinstance(request, HttpRequest):
        parts = urlsplit(request.url)
        kit(request.method in {"GET", "POST", "PUT", "PATCH", "DELETE"}, f"request: method {request.method}")
        kit(parts.scheme in {"http", "https"} and parts.hostname, f"{where}: the URL is not absolute")
        kit(
            request.url.isascii() and request.url.isprintable() and " " not in request.url,
            f"{where}: the URL holds raw characters",
        )
        for name, value in request.headers:
            kit(_TOKEN.fullmatch(name), f"{where}: a header's name is no token")
            kit(not _LINE_ENDS.search(value), f"{where}: line break in header {name}")
            kit(value.isascii(), f"{where}: header {name} holds raw characters")
            kit(
                name.lower() not in {"host", "content-length", "transfer-encoding", "connection"},
                f"header {name} is the wire's",
            )
        limit = kit.cls.features.max_bytes
        kit(
            limit is None or len(request.body) <= limit,
            f"{where}: the body is larger than features.max_bytes",
        )
    elif isinstance(request, MailRequest):
        for text in (request.sender, request.recipient):
            kit(not _LINE_ENDS.search(text), f"{where}: line break in the envelope")
        head = message_from_bytes(request.message, policy=policy.default)
        kit(samples.MARK not in head, f"{where}: it became a header of the mail")
        names = [name.lower() for name in head]
        for name in ("from", "to", "subject", "date", "message-id"):
            kit(names.count(name) <= 1, f"{where}: the mail has more than one {name}")
        raw = request.message.replace(b"\r\n", b"")
        kit(b"\r" not in raw and b"\n" not in raw, f"{where}: the mail has bare line ends")
    elif isinstance(request, SmsRequest):
        longest = 65_535 if request.payload else 254  # SMPP 3.4 sections 5.2.22 and 5.3.2.32
        kit(request.parts and all(request.parts), f"{where}: a short message without a text")
        kit(all(len(part) <= longest for part in request.parts), f"{where}: a part is longer than {longest}")
        written = (request.source[2], request.destination[2], request.service_type, request.validity)
        kit(all(map(_plain, written)), f"{where}: a field holds raw characters")


def _plain(text: str) -> bool:
    return text.isascii() and (not text or text.isprintable())
