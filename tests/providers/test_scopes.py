"""Rules that name a part of the provider, and the keys by which messages belong to one."""

from dataclasses import replace

import pytest

from ringonce import registry
from ringonce.core.scope import APART
from ringonce.provider import Content, Provider
from tests.providers.samples import address

NUMBER = "+18765550123"
TEMPLATE = Content(data={"template": {"name": "sale", "language": "en"}})
SUBSCRIPTION = '{"endpoint":"https://push.example.com/a","keys":{"auth":"x","p256dh":"y"}}'
KNOWN = {
    ("whatsapp", "template"): "sale",
    ("whatsapp", "country"): "1876",
    ("twilio", "country"): "1876",
    ("fcm", "platform"): None,
    ("webhook", "endpoint"): "example.com",
    ("webpush", "endpoint"): "push.example.com",
    ("slack", "endpoint"): "",
    ("discord", "endpoint"): "",
    ("teams", "endpoint"): "example.com",
}
WHERE = {"whatsapp": NUMBER, "twilio": NUMBER, "webpush": SUBSCRIPTION, "slack": "T/B/x", "discord": "1/x"}


def of(name: str) -> type[Provider]:
    """The provider's class."""
    return registry.provider(name)


def key(name: str, scope: str) -> str | None:
    """The key of the sample message; no options are needed for it."""
    cls = of(name)
    provider = cls.__new__(cls)
    to = replace(address(""), value=WHERE.get(name, "https://example.com/a"))
    return provider.scope_key(scope, TEMPLATE, to)


def test_all_rules_are_known_here() -> None:
    """Whoever adds a rule about a part of a provider says which messages belong to it."""
    found = {
        (name, rule.scope) for name in registry.names() for rule in of(name).rules if rule.scope in APART
    }
    assert found == set(KNOWN)


@pytest.mark.parametrize(("name", "scope"), KNOWN)
def test_keys(name: str, scope: str) -> None:
    """A template by its name, a number by its country, an endpoint by host and digest; a platform is not known."""
    found, known = key(name, scope), KNOWN[name, scope]
    if scope == "endpoint":
        assert found is not None
        host, _, digest = found.partition("#")
        assert (host, len(digest)) == (known, 12)
    else:
        assert found == known


@pytest.mark.parametrize("name", sorted({name for name, _ in KNOWN}))
def test_no_other_keys(name: str) -> None:
    """Asked for a part that it does not have, a provider knows none."""
    assert {scope for scope in APART if key(name, scope) is not None} == {
        scope for one, scope in KNOWN if one == name and KNOWN[one, scope] is not None
    }


def test_a_message_without_a_template() -> None:
    """A plain text belongs to no template."""
    cls = of("whatsapp")
    assert cls.__new__(cls).scope_key("template", Content(text="x"), address(NUMBER)) is None
