"""URLs of the configuration."""

import pytest

from ringonce.core.url import http_url
from ringonce.errors import ConfigError


def test_url() -> None:
    """A URL is kept without spaces around it and without a slash at its end; a query only where it may be."""
    assert http_url(" https://a.example:8443/b/ ", "base_url") == "https://a.example:8443/b"
    assert http_url("http://a?b=1", "callback", query=True) == "http://a?b=1"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "ftp://a",
        "https://",
        "https://a:b",
        "http://a:0",
        "http://a?b=1",
        "http://a#b",
        "http://ä",
    ],
)
def test_no_url(url: str) -> None:
    """Anything else is refused by the option's name, and is not repeated."""
    with pytest.raises(ConfigError) as error:
        http_url(url, "base_url")
    assert error.value.field == "base_url"
    assert not url or f'"{url}"' not in str(error.value)
