"""Where a row waits after an answer, and what the answer stops."""

from dataclasses import replace
from uuid import UUID

import pytest

from ringonce.engine.channels import Channels, Entry
from ringonce.engine.settle import Decider
from ringonce.model.notification import State, Status
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import SECOND, Share
from ringonce.model.transition import Answered
from ringonce.ports import Change, Row, Write

from .conftest import SteadyEntropy, entry

NOW = 1_800_000_000 * SECOND
DENIED = Outcome(OutcomeClass.AUTH, scope="channel")
LIMITED = Outcome(OutcomeClass.RATE_LIMITED, scope="channel", retry_after_s=9)


def decided(outcome: Outcome, *, tenant: str = "", account: str = "") -> Write:
    """What an answer on the channel box becomes; the tenant acme has a lane of its own there."""
    made = entry("box", "sandbox", {})
    channel = replace(made.channel, account=account, shares={"acme": Share()})
    channels = Channels({"box": Entry(channel, made.provider)}, lambda one, _: one)
    decide = Decider(channels, SteadyEntropy(), lambda _kind: True)
    row = Row(
        id=UUID(int=1), tenant=tenant, event_id="e", event_type="t", recipient="ada", channel="box", account=account,
        address=None, subject=None, thread=None, priority="normal", collapse=None, created_at=NOW,
        state=State(Status.PENDING, 1, next_attempt_at=NOW, open=True),
    )  # fmt: skip
    return decide(row, Change(row.id, Answered(1, outcome)), True, NOW)


@pytest.mark.parametrize(
    ("outcome", "account", "stopped"),
    [
        (DENIED, "", "box"),
        (DENIED, "shared", "@shared"),
        (LIMITED, "shared", "@shared"),
        (replace(DENIED, scope="sender"), "", "box"),
        (replace(DENIED, scope="platform"), "shared", "box//platform"),
        (Outcome(OutcomeClass.DISABLED), "shared", "box"),
    ],
)
def test_how_far_an_answer_reaches(outcome: Outcome, account: str, stopped: str) -> None:
    """A credential and its limits are those of all channels of the account; a part of the provider stops by itself."""
    assert [pause.lane for pause in decided(outcome, account=account).pauses] == [stopped]


@pytest.mark.parametrize(
    ("outcome", "tenant", "lane"),
    [
        (LIMITED, "", "box"),
        (LIMITED, "acme", "box/acme"),
        (LIMITED, "other", "box"),
        (replace(DENIED, scope="platform"), "", "box//platform"),
        (replace(DENIED, scope="platform"), "acme", "box/acme/platform"),
    ],
)
def test_where_it_waits(outcome: Outcome, tenant: str, lane: str) -> None:
    """In the lane of its tenant, or of the part that refused it; so the next answer brings it back."""
    due = decided(outcome, tenant=tenant).due
    assert due is not None
    assert due.lane == lane
