"""What providers spell alike: credentials, one text, a JSON call."""

import pytest

from ringonce.core.spelling import (
    JSON_HEADERS,
    digest,
    fits,
    json_call,
    secret_text,
    together,
)
from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.model.notification import Content


@pytest.mark.parametrize("value", ["", "a b", "a\n", "ключ", "x" * 1_025])
def test_no_secret(value: str) -> None:
    """What can not go into a header as it is, is no credential, and is not repeated."""
    with pytest.raises(ConfigError) as error:
        secret_text(value, "token", "write it again")
    assert (error.value.field, error.value.mend) == ("token", "write it again")
    assert not value or value not in str(error.value)


def test_secret_and_its_digest() -> None:
    """A credential stays as it is; its digest tells it apart and does not give it away."""
    assert secret_text("s3cret", "token", "") == "s3cret"
    assert len(digest("s3cret")) == 8
    assert digest("s3cret") != digest("s3cret2")


def test_together() -> None:
    """Title and text are one text with an empty line between, either alone is itself, nothing is refused."""
    assert together(Content(title="t", text="x")) == "t\n\nx"
    assert together(Content(title="t")) == "t"
    with pytest.raises(InputError) as error:
        together(Content(text=" \n"))
    assert error.value.field == "content.text"


def test_fits() -> None:
    """A text at its limit is given back, one beyond is refused, never cut."""
    assert fits("😀", 2, "utf16") == "😀"
    with pytest.raises(PayloadTooLarge) as error:
        fits("😀x", 2, "utf16")
    assert "3 UTF-16 code units" in str(error.value)


def test_json_call() -> None:
    """A call is a POST of compact UTF-8 JSON; its headers are the same object each time."""
    request = json_call("https://x/y", {"a": "ж"}, 7.0)
    assert (request.method, request.url, request.timeout, request.guarded) == (
        "POST",
        "https://x/y",
        7.0,
        False,
    )
    assert request.body == '{"a":"ж"}'.encode()
    assert request.headers is JSON_HEADERS
    assert json_call("https://x", {}, 7.0, (("a", "b"),), guarded=True).guarded
