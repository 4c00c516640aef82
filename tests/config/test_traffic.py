"""Rates, circuits and lanes, as they are written."""

import pytest

from ringonce.config import change, from_mapping
from ringonce.errors import ConfigError
from ringonce.model.policy import MINUTE, SECOND, Channel, Circuit, Rate, Share


def read(everywhere: object = None, **keys: object) -> Channel:
    """A channel with these keys."""
    whole = {"channels": {"x": {"provider": "sandbox", **keys}}}
    return from_mapping(whole if everywhere is None else {**whole, "lanes": everywhere}).channels["x"]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50/s", Rate(50, SECOND, 5)),
        ("3000/m", Rate(50, SECOND, 5)),
        ("1/h", Rate(1, 3600 * SECOND, 1)),
        ("0.5/s", Rate(1, 2 * SECOND, 1)),
    ],
)
def test_a_rate(text: str, rate: Rate) -> None:
    """Calls per time; a tenth of a second's worth may go at once, one at least."""
    assert read(rate=text).rate == rate


def test_what_is_not_said_is_no_limit() -> None:
    """Without keys: no rate, no lanes, the usual circuit."""
    channel = read()
    assert (channel.rate, channel.shares, channel.circuit) == (None, {}, Circuit())


def test_a_burst() -> None:
    """It belongs to the rate, also to one that is changed while it runs, and to nothing else."""
    assert read(rate="50/s", burst=20).rate == Rate(50, SECOND, 20)
    running = read(rate="50/s")
    assert change(running, {"burst": 7}).rate == Rate(50, SECOND, 7)
    assert change(running, {"rate": "10/s"}).rate == Rate(10, SECOND, 1)
    with pytest.raises(ConfigError, match=r"burst: has no effect without rate"):
        read(burst=3)


def test_a_circuit() -> None:
    """Off, on, or with other thresholds; what is not said stays."""
    assert read(circuit="off").circuit is None
    assert read(circuit="on").circuit == Circuit()
    assert read(circuit={"calls": 5, "cap": "10m"}).circuit == Circuit(calls=5, cap=10 * MINUTE)


def test_lanes() -> None:
    """A weight, or a table; those of a channel win over those of all."""
    channel = read({"acme": 3, "bulk": 1}, lanes={"bulk": {"rate": "5/s", "burst": 2, "concurrency": 4}})
    bulk = Share(rate=Rate(5, SECOND, 2), concurrency=4)
    assert channel.shares == {"acme": Share(weight=3), "bulk": bulk}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"rate": 50}, r"rate: expected a rate"),
        ({"rate": "fast"}, r"rate: is no rate"),
        ({"rate": "2000000/s"}, r"rate: must be at most"),
        ({"rate": "0.1/d"}, r"rate: must be at least one a day"),
        ({"circuit": "maybe"}, r"circuit: expected a table"),
        ({"circuit": {"call": 3}}, r"circuit: call: unknown key \(did you mean calls"),
        ({"circuit": {"open": "10m"}}, r"circuit: needs a cap"),
        ({"lanes": ["acme"]}, r"lanes: expected a table"),
        ({"lanes": {"acme": 0}}, r"lanes: acme\.weight: must be at least 1"),
        ({"lanes": {"acme": {"burst": 1}}}, r"lanes: has no effect without rate: burst"),
        ({"lanes": {"": 2}}, r"lanes: needs a tenant"),
    ],
)
def test_what_is_wrong_is_named(keys: dict[str, object], told: str) -> None:
    """Each error names the key, and what would be right."""
    with pytest.raises(ConfigError, match=told):
        read(**keys)


def test_wrong_lanes_of_all_channels() -> None:
    """The section is checked like the key."""
    with pytest.raises(ConfigError, match=r"lanes: acme\.weigth: unknown key"):
        read({"acme": {"weigth": 1}})
