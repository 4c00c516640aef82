"""JSON as bodies are written."""

import pytest

from ringonce.core.compact import json_bytes
from ringonce.errors import InputError, PayloadTooLarge


def test_compact() -> None:
    """There are no spaces, and no escapes that UTF-8 does not need."""
    assert json_bytes({"a": ["ж", 1, None]}) == '{"a":["ж",1,null]}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": "\ud800"}, {b"a": 1}])
def test_not_json(value: object) -> None:
    """What JSON has no word for is refused by the field's name."""
    with pytest.raises(InputError) as error:
        json_bytes(value, "content.text")
    assert error.value.field == "content.text"


def test_endless() -> None:
    """A value that holds itself is refused."""
    value: list[object] = []
    value.append(value)
    with pytest.raises(InputError):
        json_bytes(value)


def test_limit() -> None:
    """The limit counts bytes."""
    assert len(json_bytes("жж", most=6)) == 6
    with pytest.raises(PayloadTooLarge) as error:
        json_bytes("жж", most=5)
    assert error.value.field == "content"
