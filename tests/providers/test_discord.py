"""Discord: webhooks as addresses, the call, what a text can not do, limits."""

import json

import pytest

from ringonce.errors import ConfigError, InputError, PayloadTooLarge
from ringonce.provider import HttpAnswer, HttpRequest, InDoubt
from ringonce.providers.discord import Discord, DiscordOptions
from ringonce.testing import check_provider
from tests.providers.samples import address, content, context, message

PATH = "223704706495545344/3d89bb7572e0fb30d8128367b3b1b44fecd1726de135cbe28a41f8b2f777c372"
HOOK = f"https://discord.com/api/webhooks/{PATH}"


def call(to: str = PATH, **said: str | None) -> HttpRequest:
    """Build the call."""
    return Discord(DiscordOptions()).request(message(content(**said)), address(to), context())


def test_kit() -> None:
    """It keeps what every provider has to keep."""
    check_provider("discord", {}, address=HOOK, bad_addresses=["https://discord.gg/abc", "#general"])


def test_call() -> None:
    """Title and text are one message, and the call waits until it is saved."""
    request = call(title="Order 42", text="on its way")
    assert request.url == f"https://discord.com/api/v10/webhooks/{PATH}?wait=true"
    assert json.loads(request.body)["content"] == "Order 42\n\non its way"


def test_nobody_is_mentioned() -> None:
    """What stands in a text mentions nobody, is no markup and hides no link; a visible link stays as it is."""
    body = json.loads(call(text="@everyone <@1> **x** [pay](https://evil.test/a_b) # `c`").body)
    assert body["allowed_mentions"] == {"parse": []}
    assert body["content"] == (r"@everyone \<@1\> \*\*x\*\* \[pay\](https://evil.test/a_b) \# \`c\`")


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (HOOK, PATH),
        (f" https://discordapp.com/api/v9/webhooks/{PATH} ", PATH),
        (f"https://ptb.discord.com/api/webhooks/{PATH}", PATH),
        (f"{HOOK}?thread_id=1234567", f"{PATH}?thread_id=1234567"),
        (PATH, PATH),
    ],
)
def test_hook(value: str, canonical: str) -> None:
    """A webhook's URL in each spelling is one address; a thread in it is another one."""
    assert Discord(DiscordOptions()).address(value) == canonical


def test_thread() -> None:
    """A message for a thread names it."""
    url = call(f"{PATH}?thread_id=1234567").url
    assert url == f"https://discord.com/api/v10/webhooks/{PATH}?thread_id=1234567&wait=true"


@pytest.mark.parametrize(
    "value",
    [
        f"https://evil.test/api/webhooks/{PATH}",
        f"{HOOK}/slack",
        f"{HOOK}?wait=false",
        "#general",
        7,
        HOOK[:-60],
    ],
)
def test_no_hook(value: object) -> None:
    """Other hosts, other paths and channels' names are refused with the mend, and the URL is not repeated."""
    with pytest.raises(InputError) as error:
        Discord(DiscordOptions()).address(value)
    assert error.value.mend
    assert "3d89bb" not in str(error.value)


def test_own_server() -> None:
    """All webhooks are called at the configured host, whose own URLs are taken too."""
    other = Discord(DiscordOptions("http://127.0.0.1:9/"))
    assert other.address(f"http://127.0.0.1:9/api/webhooks/{PATH}") == other.address(HOOK) == PATH
    url = other.request(message(), address(PATH), context()).url
    assert url == f"http://127.0.0.1:9/api/v10/webhooks/{PATH}?wait=true"
    with pytest.raises(ConfigError) as error:
        Discord(DiscordOptions("discord"))
    assert error.value.field == "base_url"


def test_limit_counts_what_is_sent() -> None:
    """2,000 UTF-16 code units are carried, and an escaped character counts as two."""
    provider = Discord(DiscordOptions())
    provider.check(content(text="*" * 1_000))
    for text in ("x" * 2_001, "*" * 1_001, "😀" * 1_001):
        with pytest.raises(PayloadTooLarge):
            provider.check(content(text=text))


def test_own_words() -> None:
    """The code is kept as the provider's own word."""
    answer = HttpAnswer(404, {}, b'{"message": "Unknown Webhook", "code": 10015}')
    assert Discord.outcome(answer, context()).provider_code == "10015"


def test_declarations() -> None:
    """Nothing folds a second message, so a doubt counts as sent."""
    assert Discord.in_doubt is InDoubt.ASSUME_SENT
