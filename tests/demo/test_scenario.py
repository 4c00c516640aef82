"""The scenario of the demo: how many, for whom, what goes wrong."""

import pytest

from ringonce import registry
from ringonce.vendors import flaky_more
from ringonce.vendors.scenario import MOST_RECIPIENTS, Scenario


@pytest.mark.parametrize("notifications", [20, 21, 60, 997, 1_000, 2_500])
def test_exactly_so_many(notifications: int) -> None:
    """The events make exactly the notifications that were asked for, for 200 recipients at most, each event once."""
    scenario = Scenario(notifications, 1)
    made = sum(len(event["channels"]) for event in scenario.events)  # type: ignore[arg-type]
    assert made == sum(scenario.counts.values()) == notifications
    assert len({str(event["event_id"]) for event in scenario.events}) == len(scenario.events)
    assert scenario.recipients <= MOST_RECIPIENTS


def test_every_channel_has_its_share() -> None:
    """At the demo's own size there are 200 recipients, and every channel tells more than half of them."""
    scenario = Scenario(1_000, 1)
    assert scenario.recipients == 200
    assert set(scenario.counts) == {way.channel for way in scenario.ways}
    assert min(scenario.counts.values()) > 100


@pytest.mark.parametrize("notifications", [20, 60, 1_000])
def test_devices_die_and_come_back(notifications: int) -> None:
    """At every size an app and a browser are dead for good, and one of each comes back."""
    devices = Scenario(notifications, 1).devices
    assert {(device.channel, device.returns) for device in devices} == {
        (channel, returns) for channel in ("push", "webpush") for returns in (True, False)
    }


@pytest.mark.parametrize("notifications", [20, 60, 1_000])
def test_every_server_misbehaves(notifications: int) -> None:
    """Every kind of fault is planned at every size: status codes, Retry-After, resets, silence after acceptance."""
    scenario = Scenario(notifications, 1)
    planned = {
        way.channel: {rule.fault.label for rule in way.server.plan.rules if rule.numbers}
        for way in scenario.ways
        if way.server is not None
    }
    assert planned["email"] >= {"accept_then_reset"}
    assert planned["hook"] >= {"503", "429", "accept_then_hang"}
    assert planned["telegram"] >= {"429", "accept_then_hang"}
    if notifications >= 60:
        assert planned["email"] == {"accept_then_reset", "451", "reset"}
        assert planned["hook"] >= {"accept_then_reset", "reset"}
        assert planned["push"] >= {"503", "429", "accept_then_hang", "accept_then_reset"}
        assert planned["webpush"] == {"500", "429", "accept_then_hang", "accept_then_reset"}
    assert [way.channel for way in scenario.ways if way.refused] == ["email", "telegram", "push"]


def test_the_seed_repeats_it() -> None:
    """The same seed, the same faults, repeats and kill; another seed, others."""
    one, same, other = Scenario(1_000, 1), Scenario(1_000, 1), Scenario(1_000, 2)

    def facts(scenario: Scenario) -> list[object]:
        return [
            scenario.kill_at,
            scenario.repeated,
            scenario.devices,
            *((way.refused, way.server and way.server.plan.rules, way.provider) for way in scenario.ways),
        ]

    assert facts(one) == facts(same)
    assert facts(one) != facts(other)


@pytest.mark.parametrize("notifications", [100, 1_000, 3_000])
def test_every_provider_is_shown(notifications: int) -> None:
    """With everything, each provider has a way that misbehaves, or is named as left out; nothing else changes."""
    scenario = Scenario(notifications, 1, everything=True)
    assert sum(scenario.counts.values()) == notifications
    assert set(scenario.counts) == {way.channel for way in scenario.ways}
    shown = {way.provider.split('"')[1] for way in scenario.ways}
    assert shown | set(scenario.left_out) | {"sandbox"} == set(registry.names())
    assert not shown & set(scenario.left_out)
    for way in scenario.ways[6:]:
        assert way.server is not None
        faults = {rule.fault.label for rule in way.server.plan.rules if rule.numbers}
        assert "accept_then_reset" in faults or notifications == 100 or way.channel == "apprise"
        assert faults


def test_nobody_is_answered_twice() -> None:
    """A marketplace's question is answered once: nobody has two notifications on that channel."""
    scenario = Scenario(3_000, 1, everything=True)
    told = [scenario._who[str(e["event_id"])] for e in scenario.events if "replies" in e["channels"]]  # type: ignore[operator]
    assert len(told) == len(set(told))


def test_an_extra_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the module of an extra its provider is named, with the reason, and the rest is shown."""
    monkeypatch.setattr(flaky_more, "find_spec", lambda _module: None)
    scenario = Scenario(300, 1, everything=True)
    assert scenario.left_out["smpp"] == "the extra smpp is not installed"
    assert "smpp" not in scenario.counts
