"""The base of all providers: what is refused at acceptance, addresses, measures."""

from dataclasses import dataclass

import pytest

from ringonce.errors import InputError, PayloadTooLarge
from ringonce.provider import Features, HttpAnswer, OutcomeClass, Provider, length
from tests.providers.samples import address, content, context, message


@dataclass(frozen=True)
class NoOptions:
    """Nothing to set."""


class Plain(Provider):
    """Carries short texts only."""

    name = "plain"
    features = Features(title=False, max_text=5)
    Options = NoOptions


class Picture(Provider):
    """Carries data and titles only."""

    name = "picture"
    features = Features(text=False, data=True)
    Options = NoOptions


@pytest.mark.parametrize(
    ("provider", "said", "field"),
    [
        (Plain, content(title="t"), "content.title"),
        (Plain, content(text=None, html="<b>"), "content.html"),
        (Plain, content(data={"a": 1}), "content.data"),
        (Plain, content(text=None), "content"),
        (Plain, content(text=""), "content"),
        (Plain, content(text="a\0b"), "content.text"),
        (Plain, content(text="\ud800"), "content.text"),
        (Plain, content(text="x", html="\0"), "content.html"),
        (Plain, content(text="123456"), "content.text"),
        (Picture, content(text="x"), "content.text"),
    ],
)
def test_refused(provider: type[Provider], said: object, field: str) -> None:
    """What a provider can not carry is refused, naming the field and the mend."""
    with pytest.raises(InputError) as error:
        provider(NoOptions()).check(said)  # type: ignore[arg-type]
    assert error.value.field == field
    assert error.value.mend


def test_carried() -> None:
    """What a provider can carry is not refused; HTML beside a text is another form of it."""
    Plain(NoOptions()).check(content(text="12345", html="<b>longer than that</b>"))
    Picture(NoOptions()).check(content(text=None, data={"a": 1}))
    Picture(NoOptions()).check(content(text=None, title="t"))


def test_too_long_is_too_large() -> None:
    """A text over the limit is a payload too large."""
    with pytest.raises(PayloadTooLarge):
        Plain(NoOptions()).check(content(text="123456"))


@pytest.mark.parametrize(("unit", "size"), [("chars", 3), ("bytes", 7), ("utf16", 4)])
def test_length(unit: str, size: int) -> None:
    """Texts are measured in the unit in which the vendor counts."""
    assert length("aж😀", unit) == size


def test_address() -> None:
    """Without a rule of its own a provider takes any text as an address, trimmed."""
    assert Plain(NoOptions()).address(" a ") == "a"
    for value in (None, 7, "", "  "):
        with pytest.raises(InputError) as error:
            Plain(NoOptions()).address(value)
        assert error.value.field == "address"


def test_defaults() -> None:
    """A provider answers by the defaults, its account is its name, and one that builds nothing says so."""
    plain = Plain(NoOptions())
    assert Plain.outcome(HttpAnswer(503), context()).cls is OutcomeClass.TRANSIENT
    assert plain.account == "plain"
    with pytest.raises(TypeError, match="plain builds no request"):
        plain.request(message(), address("a"), context())
