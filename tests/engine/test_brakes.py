"""The two brakes: nobody loses all devices to a wrong key, and nobody hammers what is down."""

from dataclasses import replace

from ringonce.engine.brake import DropBrake, LaneBrake
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.ports import LanePause

from .conftest import KeptTelemetry

DEAD = Outcome(OutcomeClass.INVALID_RECIPIENT, drop_address=True, rule="gone")
GOOD = Outcome(OutcomeClass.ACCEPTED)
DOWN = Outcome(OutcomeClass.TRANSIENT)


def test_a_few_drops_are_committed(telemetry: KeptTelemetry) -> None:
    """Up to five drops in the last hundred answers of a credential are believed."""
    brake = DropBrake(telemetry)
    assert all(brake.judge("a", DEAD).drop_address for _ in range(5))
    assert telemetry.alerts == []


def test_many_drops_are_held_back_and_told(telemetry: KeptTelemetry) -> None:
    """More than five that are more than a fifth are held back; the verdict itself stays, a person is told."""
    brake = DropBrake(telemetry)
    for _ in range(5):
        brake.judge("a", DEAD)
    judged = brake.judge("a", DEAD)
    assert (judged.cls, judged.drop_address) == (OutcomeClass.INVALID_RECIPIENT, False)
    assert [kind for kind, _ in telemetry.alerts] == ["mass_invalidation"]


def test_a_small_share_is_no_wipe(telemetry: KeptTelemetry) -> None:
    """Six drops among many good answers are an ordinary day."""
    brake = DropBrake(telemetry)
    for _ in range(94):
        brake.judge("a", GOOD)
    assert all(brake.judge("a", DEAD).drop_address for _ in range(6))


def test_credentials_are_counted_apart(telemetry: KeptTelemetry) -> None:
    """The drops of one credential do not hold back those of another."""
    brake = DropBrake(telemetry)
    for _ in range(10):
        brake.judge("a", DEAD)
    assert brake.judge("b", DEAD).drop_address


def test_failures_in_a_row_pause_the_lane(telemetry: KeptTelemetry) -> None:
    """The n-th failure in a row pauses the lane and leaves it probing; one success ends that."""
    brake = LaneBrake(telemetry, after=3, pause=7_000_000)
    assert [brake.judge("x", DOWN, 100) for _ in range(2)] == [None, None]
    assert not brake.probing("x")
    assert brake.judge("x", replace(DOWN, ambiguous=True), 100) == LanePause("x", "failing", 7_000_100)
    assert brake.probing("x")
    assert not brake.probing("y")
    brake.judge("x", GOOD, 200)
    assert not brake.probing("x")
    assert brake.judge("x", DOWN, 300) is None


def test_refusals_are_no_failures_of_the_provider(telemetry: KeptTelemetry) -> None:
    """An answer that is about the message or the person shows that the provider works."""
    brake = LaneBrake(telemetry, after=2, pause=1)
    brake.judge("x", DOWN, 0)
    brake.judge("x", DEAD, 0)
    assert brake.judge("x", DOWN, 0) is None


def test_greylisting_is_no_failure_of_the_provider(telemetry: KeptTelemetry) -> None:
    """A receiver that asks every first call to wait neither pauses the lane nor proves that it works."""
    brake = LaneBrake(telemetry, after=2, pause=1)
    wait = replace(DOWN, floor="greylist")
    assert [brake.judge("x", wait, 0) for _ in range(50)] == [None] * 50
    brake.judge("x", DOWN, 0)
    brake.judge("x", wait, 0)
    assert brake.judge("x", DOWN, 0) is not None
