"""Provider defaults, and changes at run time."""

import pytest

from ringonce.config import change, from_mapping, with_provider_defaults
from ringonce.errors import ConfigError
from ringonce.model.policy import Backoff, BackoffKind, Channel, InDoubt


def made(**keys: object) -> tuple[Channel, frozenset[str]]:
    """The channel ``a`` with these keys, and which were given."""
    config = from_mapping({"channels": {"a": {"provider": "x", **keys}}})
    return config.channels["a"], config.given["a"]


def test_provider_fills_what_was_left_open() -> None:
    """in_doubt and budgets.unknown come from the provider when the file does not say them."""
    channel, given = made()
    policy = with_provider_defaults(channel, given, in_doubt=InDoubt.RESEND, unknown_budget=1).policy
    assert (policy.in_doubt, policy.budgets.unknown) == (InDoubt.RESEND, 1)


def test_the_file_wins_over_the_provider() -> None:
    """What the file says is not replaced by the provider's default."""
    channel, given = made(in_doubt="assume_sent", budgets={"unknown": 4})
    policy = with_provider_defaults(channel, given, in_doubt=InDoubt.RESEND, unknown_budget=1).policy
    assert (policy.in_doubt, policy.budgets.unknown) == (InDoubt.ASSUME_SENT, 4)


@pytest.mark.parametrize(
    ("keys", "held"),
    [
        ({}, 600_000_000),
        ({"hold_for": "1m"}, 60_000_000),
        ({"in_doubt": "hold"}, None),
        ({"in_doubt": "resend"}, None),
    ],
)
def test_how_long_a_doubt_is_held(keys: dict[str, object], held: int | None) -> None:
    """The provider says how long its own default holds; who sets in_doubt or hold_for has said it."""
    channel, given = made(**keys)
    policy = with_provider_defaults(
        channel, given, in_doubt=InDoubt.HOLD, unknown_budget=None, hold_for=600_000_000
    ).policy
    assert policy.hold_for == held


def test_a_key_that_contradicts_the_providers_default() -> None:
    """A hold_for is refused when the provider's own in_doubt is not hold."""
    channel, given = made(hold_for="1m")
    with pytest.raises(ConfigError, match=r"channels\.a"):
        with_provider_defaults(channel, given, in_doubt=InDoubt.ASSUME_SENT, unknown_budget=None)


def test_change_keeps_what_it_does_not_name() -> None:
    """A change at run time replaces single keys, in the same words as the file."""
    channel, _ = made(max_attempts=5, budgets={"transient": 1, "rate_limited": 2})
    changed = change(
        channel, {"enabled": False, "budgets": {"transient": 9}, "backoff": {"kind": "fixed", "base": "1s"}}
    )
    assert not changed.enabled
    assert changed.policy.max_attempts == 5
    assert (changed.policy.budgets.transient, changed.policy.budgets.rate_limited) == (9, 2)
    assert changed.policy.backoff == Backoff(kind=BackoffKind.FIXED, base=1_000_000)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_atempts": 3}, "did you mean max_attempts"),
        ({"provider": "y"}, "provider"),
        ({"account": "b"}, "account"),
        ({"max_attempts": 0}, "at least 1"),
        ({"providers": ["b"]}, "unknown key"),
        ({"mark": False, "in_doubt": "hold"}, "remove it, or set in_doubt"),
    ],
)
def test_change_refuses_what_is_no_change(changes: dict[str, object], said: str) -> None:
    """A change that is unknown, wrong or not possible without a restart is refused by name."""
    channel, _ = made()
    with pytest.raises(ConfigError, match=said):
        change(channel, changes)


# --- several providers ---


def several(*providers: object, **keys: object) -> Channel:
    """The channel ``a`` with these providers."""
    config = from_mapping({"channels": {"a": {"providers": list(providers), **keys}}})
    return config.channels["a"]


def test_providers_in_order() -> None:
    """The first is the channel's own, each other one has a name that no channel can have, and its own options."""
    channel = several({"provider": "x", "key": 1}, {"provider": "y", "key": 2}, {"provider": "x", "key": 3})
    assert (channel.provider, dict(channel.settings)) == ("x", {"key": 1})
    ways = [(way.name, way.provider, dict(way.settings)) for way in channel.ways]
    assert ways == [("a~y", "y", {"key": 2}), ("a~x2", "x", {"key": 3})]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"providers": []}, ("channels.a.providers", "a list with a table for each")),
        ({"providers": "x"}, ("channels.a.providers", "a list with a table for each")),
        ({"providers": [{}]}, ("channels.a.providers[0].provider", "missing")),
        ({"providers": ["x"]}, ("channels.a.providers[0]", "expected a table")),
        ({"providers": [{"provider": "x", "rate": "1/s"}]}, ("providers[0].rate", "belongs to the channel")),
        ({"providers": [{"provider": "x"}], "provider": "x"}, ("channels.a.provider", "one or the other")),
        (
            {"providers": [{"provider": "x"}], "token": "t"},
            ("channels.a.token", "an option stands in its table"),
        ),
        ({"providers": [{"provider": "x"}], "account": "t"}, ("channels.a.account", "remove it")),
    ],
)
def test_wrong_providers(keys: dict[str, object], words: tuple[str, ...]) -> None:
    """What is wrong with them is named by its place, with the mend."""
    with pytest.raises(ConfigError) as error:
        from_mapping({"channels": {"a": keys}})
    told = f"{error.value}"
    assert all(word in told for word in words), told
