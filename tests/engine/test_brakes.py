"""The brake: nobody loses all devices to a wrong key."""

from ringonce.engine.brake import DropBrake
from ringonce.model.outcome import Outcome, OutcomeClass

from .conftest import KeptTelemetry

DEAD = Outcome(OutcomeClass.INVALID_RECIPIENT, drop_address=True, rule="gone")
GOOD = Outcome(OutcomeClass.ACCEPTED)


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
