"""The kit finds what is wrong with the parts of a provider."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ringonce.provider import Address, Content, OutcomeClass, Provider, Rule
from ringonce.testing.parts import check_parts

TO = "https://example.com/a"
SAID = Content(text="hello")


@dataclass(frozen=True)
class Options:
    """``key``: a secret."""

    key: str = field(default="", repr=False)


def found(**more: Any) -> list[str]:
    """What the kit says of a provider with these attributes."""
    made = type("Acme", (Provider,), {"name": "acme", "Options": Options, **more})
    return list(check_parts(made(Options()), TO, SAID))


def keyed(*keys: object) -> Any:
    """A scope_key that gives these, one after the other, or raises what is an exception."""
    left = list(keys) * 20

    def scope_key(_self: Provider, _scope: str, _content: Content, _address: Address) -> Any:
        key = left.pop(0)
        if isinstance(key, Exception):
            raise key
        return key

    return scope_key


def test_what_is_right() -> None:
    """A provider without parts, with endpoints, and one with keys of its own."""
    assert found() == found(endpoints=True) == found(scope_key=keyed("x")) == []


@pytest.mark.parametrize(
    ("keys", "finding"),
    [
        ([ZeroDivisionError()], "raises ZeroDivisionError for country"),
        ([7], "is a text or None"),
        (["a", "b"], "two keys of the same country"),
        ([TO], "is the address"),
    ],
)
def test_what_is_wrong(keys: list[object], finding: str) -> None:
    """A key that is no text, changes, tells the address, or does not come at all is named."""
    assert finding in " ".join(found(scope_key=keyed(*keys)))


def test_a_rule_without_its_key() -> None:
    """A rule that names endpoints asks for them to be told apart."""
    rule = Rule("acme.refused", OutcomeClass.AUTH, "policy", status=401, scope="endpoint")
    assert "set endpoints = True" in " ".join(found(rules=(rule,)))
    assert found(rules=(rule,), endpoints=True) == []
