"""How long what is over is kept."""

from dataclasses import replace

import pytest

from ringonce.model.policy import DAY
from ringonce.model.retention import STATUSES, Pruned, Retention, Snapshot


@pytest.mark.parametrize("status", STATUSES)
def test_each_final_status_has_an_age(status: str) -> None:
    """A notification is kept as long as the setting of its final status says."""
    assert replace(Retention(), **{status: 7 * DAY}).of(status) == 7 * DAY
    assert replace(Retention(), **{status: None}).of(status) is None


@pytest.mark.parametrize("status", ["pending", "in_doubt", "draft", "outbox", "journal"])
def test_what_is_not_final_is_kept(status: str) -> None:
    """What waits has no age, and neither has what is no status at all."""
    assert Retention().of(status) is None


def test_the_youngest_age_is_the_least_of_all() -> None:
    """Nothing of a notification can go before the least of the ages of the statuses and of the attempts."""
    assert replace(Retention(), failed=3 * DAY, attempts=2 * DAY).youngest == 2 * DAY
    assert replace(Retention(), failed=3 * DAY).youngest == 3 * DAY
    assert replace(Retention(), **dict.fromkeys((*STATUSES, "attempts"))).youngest is None


def test_a_step_that_says_nothing_did_nothing() -> None:
    """By default nothing was removed, the walk goes on from its beginning, and the lease is held."""
    step = Pruned()
    assert (step.counts, step.looked, step.walk.table, step.done, step.held) == ({}, 0, 0, False, True)
    assert Snapshot("somebody", "1").age is None
