"""Apprise: which URLs may be called, what is called, and that the tables know the library's schemas."""

from typing import Any

import pytest
from apprise import Apprise as Library

from ringonce.errors import ConfigError, InputError
from ringonce.provider import Content, InDoubt, LibraryAnswer, LibraryRequest
from ringonce.providers.apprise import _HOSTED, _LOCAL, Apprise, AppriseOptions, _hosted
from ringonce.testing import Case, check_provider
from tests.providers.samples import address, content, context, message

HOOK = "json://hooks.example.com"


def apprise(**options: Any) -> Apprise:
    """Build a provider."""
    return Apprise(AppriseOptions(**(options or {"schemas": ("tgram", HOOK)})))


def failed(why: str) -> LibraryAnswer:
    """What the library says of a connection."""
    said = f"A Connection error occurred posting to Discord. Socket Exception: {why}"
    return LibraryAnswer(made=True, value=False, text=said)


CASES = (
    Case("done", LibraryAnswer(made=True, value=True), "accepted"),
    Case("failed", LibraryAnswer(made=True, value=False, text="error=401"), "transient"),
    Case(
        "refused",
        failed("NewConnectionError('Failed to establish a new connection: [Errno 111]')"),
        "transient",
    ),
    Case(
        "late",
        failed("HTTPConnectionPool(): Read timed out. (read timeout=4.0)"),
        "transient",
        ambiguous=True,
    ),
    Case("nothing", LibraryAnswer(made=True), "transient"),
    Case("unknown", LibraryAnswer(made=False), "invalid_recipient"),
)


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ({"schemas": ["tgram", HOOK]}, f"{HOOK}/path"),
        ({"url": "tgram://123456789:secret-token/{address}/"}, "4815162342"),
    ],
)
def test_kit(options: dict[str, object], good: str) -> None:
    """It keeps what every provider has to keep, and each of its rules decides an answer."""
    check_provider("apprise", options, address=good, cases=CASES)


def call(channel: Apprise, value: str, said: Content | None = None) -> LibraryRequest:
    """Build the request."""
    return channel.request(message(said), address(channel.address(value)), context())


def test_call() -> None:
    """One service is made of the URL and told title and text, not through the part of the library that repeats."""
    request = call(apprise(), f"{HOOK}/a", content(title="Order 42", text="On its way"))
    assert (request.make.name, request.make.args) == ("apprise:Apprise.instantiate", (f"{HOOK}/a",))
    assert request.call.name == "notify"
    assert dict(request.call.kwargs) == {"body": "On its way", "title": "Order 42", "body_format": "text"}
    assert request.timeout == 15.0
    assert "hooks" not in repr(request)


def test_a_title_alone_is_the_text() -> None:
    """The library needs a body."""
    request = call(apprise(), f"{HOOK}/a", content(title="Order 42", text=None))
    assert dict(request.call.kwargs) == {"body": "Order 42", "title": "", "body_format": "text"}


def test_an_address_in_a_url() -> None:
    """What goes into a URL of ours is one value there, whatever it holds."""
    channel = apprise(url="tgram://token/{address}/?silent=yes")
    assert call(channel, "a/b?c#d &%").make.args == ("tgram://token/a%2Fb%3Fc%23d%20%26%25/?silent=yes",)
    assert channel.account != apprise(url="tgram://other/{address}/").account
    assert "token" not in channel.account + repr(channel.options)
    for bad in ("a\nb", "x" * 501):
        with pytest.raises(InputError):
            channel.address(bad)


@pytest.mark.parametrize(
    "value",
    [
        "tgram://token/chat",
        f"{HOOK}/a",
        HOOK,
        "json://HOOKS.example.com/x",
    ],
)
def test_good_addresses(value: str) -> None:
    """A URL of a listed schema, with the listed host where there is one."""
    assert apprise().address(f" {value} ") == value


@pytest.mark.parametrize(
    "value",
    [
        "tgram",
        "xml://hooks.example.com",
        "jsons://hooks.example.com",
        "TGRAM://token/chat",
        "json://localhost/",
        "json://hooks.example.com:22/",
        "json://hooks.example.com.evil.example/",
        "json://user@hooks.example.com/",
        "json://evil.example%2F@hooks.example.com/",
        "json://hooks.example.com%00.evil.example/",
        "json://hooks.example.com\\@evil.example/",
        "json://[::1/",
        "json://[::1]/",
        "json:///",
        "tgram://token/chat?retry=5",
        "tgram://token/chat?keyfile=/etc/passwd",
        "json://hooks.example.com/?verify=no",
        "tgram://to ken/chat",
        "tgram://token/chat\njson://localhost",
        "dbus://",
        "gnome://x",
        "file:///etc/passwd",
    ],
)
def test_bad_addresses(value: str) -> None:
    """Other schemas, other hosts, what may be read as another host, and queries; the value is not repeated."""
    with pytest.raises(InputError) as error:
        apprise().address(value)
    assert "evil" not in str(error.value)
    assert "token" not in str(error.value)


def test_ports() -> None:
    """A port belongs to the host."""
    channel = apprise(schemas=("json://127.0.0.1:8025",))
    assert channel.address("json://127.0.0.1:8025/x") == "json://127.0.0.1:8025/x"
    with pytest.raises(InputError):
        channel.address("json://127.0.0.1/x")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"schemas": (), "url": ""}, "schemas"),
        ({"schemas": ("tgram",), "url": "tgram://t/{address}"}, "schemas"),
        ({"schemas": ("json",)}, "schemas"),
        ({"schemas": ("mailtos",)}, "schemas"),
        ({"schemas": ("dbus",)}, "schemas"),
        ({"schemas": ("gnome://host",)}, "schemas"),
        ({"schemas": ("not a schema",)}, "schemas"),
        ({"url": "tgram://secret/chat"}, "url"),
        ({"url": "tgram://secret/{address}/{address}"}, "url"),
        ({"url": "{address}"}, "url"),
        ({"url": "syslog://{address}"}, "url"),
    ],
)
def test_bad_options(options: dict[str, Any], field: str) -> None:
    """Nothing is allowed that is not listed, no host that is not named, nothing of this machine."""
    with pytest.raises(ConfigError) as error:
        apprise(**options)
    assert error.value.field == field
    assert "secret" not in str(error.value)


def test_doubt() -> None:
    """What the library does in its own way can not be undone: a doubt counts as sent."""
    assert Apprise.in_doubt is InDoubt.ASSUME_SENT


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # by one of its plugins
def test_the_tables_know_the_library() -> None:
    """Every schema of the installed library whose URL names a host is held to need one; a local one is refused."""
    free, unknown = [], []
    for service in Library().details(show_disabled=True)["schemas"]:
        names = [*(service["protocols"] or ()), *(service["secure_protocols"] or ())]
        templates = service["details"]["templates"]
        if any("{host}" in template for template in templates):
            free += [name for name in names if not _hosted(name)]
        if all("{" not in template.partition("://")[2] for template in templates):
            unknown += [name for name in names if name not in _LOCAL]
    assert free == []
    assert unknown == []
    assert not _HOSTED & _LOCAL
