"""In-app copies: no call, no address but the recipient's id."""

import pytest

from ringonce import registry
from ringonce.errors import ConfigError, InputError
from ringonce.provider import Content


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
