"""The sandbox: scripts."""

import pytest

from ringonce.errors import ConfigError
from ringonce.provider import ScriptedRequest
from ringonce.providers.sandbox import Sandbox, SandboxOptions
from tests.providers.samples import ID, address, content, context, message


def steps(script: str | tuple[str, ...], attempts: int) -> list[ScriptedRequest]:
    """Build the requests of the first attempts."""
    sandbox = Sandbox(SandboxOptions(script))
    return [sandbox.request(message(attempt=n), address("x"), context()) for n in range(1, attempts + 1)]


def test_step_by_attempt() -> None:
    """Each attempt takes its step, and the last step is repeated."""
    assert [r.step for r in steps("transient, rate_limited:30,ok", 4)] == [
        "transient",
        "rate_limited:30",
        "ok",
        "ok",
    ]
    assert [r.step for r in steps(("blocked",), 2)] == ["blocked", "blocked"]
    assert steps("ok", 1)[0].reference == str(ID)


def test_delay() -> None:
    """A delay is a success that takes its time."""
    assert steps("delay:0.5", 1) == [ScriptedRequest(str(ID), "ok", 0.5)]


def test_hang() -> None:
    """A hanging call is answered when the channel's timeout is over."""
    assert steps("hang", 1) == [ScriptedRequest(str(ID), "hang", 15.0)]


@pytest.mark.parametrize(
    "script",
    [
        "",
        "ok,",
        "dance",
        "rate_limited:",
        "rate_limited:-1",
        "delay",
        "invalid_recipient:x",
        (),
        ("ok", "OK"),
    ],
)
def test_bad_script(script: str | tuple[str, ...]) -> None:
    """An unknown step is refused at start-up."""
    with pytest.raises(ConfigError) as error:
        Sandbox(SandboxOptions(script))
    assert error.value.field == "script"
    assert error.value.mend


def test_carries_everything() -> None:
    """The sandbox takes any content, and any text as an address."""
    sandbox = Sandbox(SandboxOptions())
    sandbox.check(content(title="t", html="<p>x</p>", data={"a": 1}))
    assert sandbox.address(" anybody ") == "anybody"
    assert sandbox.account == "sandbox"
