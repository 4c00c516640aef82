"""Which part of a provider a row belongs to, and which parts are paused."""

from typing import Any

import pytest

from ringonce.core.scope import LONGEST_KEY, part
from ringonce.engine.channels import Entry
from ringonce.engine.scopes import MOST, Scopes
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.ports import LaneState
from ringonce.provider import Address, Content, Provider

from .conftest import entry

REFUSED = Outcome(OutcomeClass.AUTH, scope="endpoint")
HOOK = {"secret": "whsec_" + "A" * 32}
TO = Address(1, "", "ada", "hook", "https://example.com/secret-path", 0)
SAID = Content(text="hello")


def hook() -> Entry:
    """A channel whose addresses are endpoints."""
    return entry("hook", "webhook", HOOK)


def keyed(key: object) -> Entry:
    """A channel whose provider gives this key, or raises it."""

    class Keyed(Provider):
        name = "keyed"

        def scope_key(self, scope: str, content: Content, address: Address) -> Any:
            if isinstance(key, Exception):
                raise key
            return key

    return Entry(hook().channel, Keyed(None))


def lane(name: str, **more: Any) -> LaneState:
    """A pause as the store tells it."""
    facts: dict[str, Any] = {"paused": True, "until": None, "reason": "auth", **more}
    return LaneState(name, **facts)


def test_what_is_paused() -> None:
    """Parts that are paused or being probed are known by their channel; channels, tenants and what goes on are not."""
    scopes = Scopes(
        [
            lane("hook//template%3Aa"),
            lane("hook//country%3A49", paused=False, probing=True),
            lane("hook//country%3A1", paused=False),
            lane("hook"),
            lane("hook/acme"),
            lane("other//platform"),
        ]
    )
    assert set(scopes.of("hook")) == {"template:a", "country:49"}
    assert set(scopes.of("other")) == {"platform"}
    scopes.told([])
    assert not scopes.of("hook")
    scopes.began(["hook//template%3Ab", "hook", "@account"])
    assert set(scopes.of("hook")) == {"template:b"}


def test_an_endpoint_is_known_by_its_host() -> None:
    """The key tells the host and hides the path; the same endpoint has the same one."""
    scope = Scopes().located(hook(), SAID, TO, REFUSED).scope
    assert scope is not None
    assert scope.startswith("endpoint:example.com#")
    assert "secret-path" not in scope
    scopes = Scopes([lane("hook//" + scope.replace(":", "%3A").replace("#", "%23"))])
    assert scopes.stops(hook(), SAID, TO, "hook") == scope
    assert scopes.stops(hook(), SAID, TO, "hook//" + scope.replace(":", "%3A").replace("#", "%23")) == ""
    other = Address(2, "", "bob", "hook", "https://example.com/other", 0)
    assert scopes.stops(hook(), SAID, other, "hook") == ""


@pytest.mark.parametrize(
    ("key", "scope"),
    [
        ("x", "endpoint:x"),
        ("", "channel"),
        (None, "endpoint"),
        (7, "endpoint"),
        (ZeroDivisionError(), "endpoint"),
    ],
)
def test_what_the_provider_says(key: object, scope: str) -> None:
    """A key, all of the channel, or nothing that is known; a provider that fails to say so knows nothing."""
    assert Scopes().located(keyed(key), SAID, TO, REFUSED).scope == scope


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(OutcomeClass.AUTH, scope="sender"),
        Outcome(OutcomeClass.ACCEPTED),
        Outcome(OutcomeClass.INVALID_RECIPIENT, scope="country"),
        Outcome(OutcomeClass.RATE_LIMITED, scope="endpoint"),
    ],
)
def test_what_has_no_part(outcome: Outcome) -> None:
    """Only what pauses a part is asked for its key."""
    assert Scopes().located(keyed("x"), SAID, TO, outcome) is outcome
    assert Scopes().located(keyed("x"), SAID, None, REFUSED) is REFUSED


def test_they_are_few() -> None:
    """Beyond fifty a new one stays without its key, and one that is paused already keeps it."""
    scopes = Scopes([lane(f"hook//endpoint%3A{n}") for n in range(MOST)])
    assert scopes.located(keyed("new"), SAID, TO, REFUSED).scope == "endpoint"
    assert scopes.located(keyed("7"), SAID, TO, REFUSED).scope == "endpoint:7"


def test_long_keys_stay_apart() -> None:
    """A key that is too long is cut, and two that begin alike are not the same."""
    one, two = part("template", "x" * 200 + "1"), part("template", "x" * 200 + "2")
    assert one != two
    assert len(one) == len("template:") + LONGEST_KEY
