"""The scenario of the demo: how many, for whom, what goes wrong."""

import pytest

from ringonce.vendors.scenario import MOST_RECIPIENTS, Scenario


@pytest.mark.parametrize("notifications", [20, 21, 60, 997, 1_000, 2_500])
def test_exactly_so_many(notifications: int) -> None:
    """The events make exactly the notifications that were asked for, for 200 recipients at most, each event once."""
    scenario = Scenario(notifications, 1)
    made = sum(len(event["channels"]) for event in scenario.events)  # type: ignore[arg-type]
    assert made == sum(scenario.counts.values()) == notifications
    assert len({str(event["event_id"]) for event in scenario.events}) == len(scenario.events)
    assert scenario.recipients <= MOST_RECIPIENTS


def test_a_thousand_for_two_hundred() -> None:
    """The demo's own size."""
    assert Scenario(1_000, 1).recipients == 200


@pytest.mark.parametrize("notifications", [20, 60, 1_000])
def test_every_server_misbehaves(notifications: int) -> None:
    """Every kind of fault is planned at every size: status codes, Retry-After, resets, silence after acceptance."""
    scenario = Scenario(notifications, 1)
    planned = {
        way.channel: {rule.fault.label for rule in way.server.plan.rules if rule.numbers}
        for way in scenario.ways
    }
    assert planned["email"] >= {"accept_then_reset"}
    assert planned["hook"] >= {"503", "429", "accept_then_hang"}
    assert planned["telegram"] >= {"429", "accept_then_hang"}
    if notifications >= 60:
        assert planned["email"] == {"accept_then_reset", "451", "reset"}
        assert planned["hook"] >= {"accept_then_reset", "reset"}
    assert [bool(way.refused) for way in scenario.ways] == [True, False, True]


def test_the_seed_repeats_it() -> None:
    """The same seed, the same faults, repeats and kill; another seed, others."""
    one, same, other = Scenario(1_000, 1), Scenario(1_000, 1), Scenario(1_000, 2)

    def facts(scenario: Scenario) -> list[object]:
        return [
            scenario.kill_at,
            scenario.repeated,
            *((way.refused, way.server.plan.rules, way.provider) for way in scenario.ways),
        ]

    assert facts(one) == facts(same)
    assert facts(one) != facts(other)
