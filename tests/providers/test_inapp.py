"""In-app copies: no call, no address but the recipient's id."""

import pytest

from ringonce import registry
from ringonce.errors import ConfigError, InputError
from ringonce.provider import Content, Provider


def test_it_only_stores() -> None:
    """It says that it stores, and carries whatever an application may show."""
    provider = registry.build("inapp", {})
    assert provider.stored
    provider.check(Content("title", "text", "<p>html</p>", {"order": 42}))
    provider.check(Content(data={"badge": 1}))


def test_the_address_is_the_recipient() -> None:
    """An id of 1 to 256 characters, and nothing else."""
    provider = registry.build("inapp", {})
    assert provider.address(" ada ") == "ada"
    assert provider.identity("ada") == "ada"
    for wrong in ("", "x" * 257, 7):
        with pytest.raises(InputError):
            provider.address(wrong)


def test_it_has_no_options() -> None:
    """Every key is an error."""
    with pytest.raises(ConfigError):
        registry.build("inapp", {"url": "x"})


@pytest.mark.parametrize(
    ("setting", "stops"),
    [
        ({}, ""),
        ({"stop_when_read": True}, "order.left news"),
        ({"stop_when_read": ["order.*"]}, "order.left"),
    ],
)
def test_what_reading_stops(setting: dict[str, object], stops: str) -> None:
    """Reading stops others always, never, or for the event types named."""
    provider = registry.build("inapp", setting)
    assert " ".join(type_ for type_ in ("order.left", "news") if provider.stops_others(type_)) == stops
    assert not Provider.stops_others(provider, "order.left")
    assert Provider.unsubscribed(provider, "token") is None
