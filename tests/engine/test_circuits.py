"""Circuits and rate limits as one worker counts them."""

from dataclasses import replace

import pytest

from ringonce import Ringonce
from ringonce.engine.channels import Entry
from ringonce.engine.circuits import Circuits
from ringonce.engine.limits import Limits
from ringonce.engine.stops import Stops, labels_of
from ringonce.engine.traffic import Traffic, lane_of
from ringonce.model.outcome import Outcome, OutcomeClass
from ringonce.model.policy import Circuit, Rate, Share
from ringonce.ports import Batch, LanePause, Probe

from .conftest import KeptTelemetry, entry

S = 1_000_000
NOW = 1_800_000_000 * S
DOWN = Outcome(OutcomeClass.TRANSIENT)
GOOD = Outcome(OutcomeClass.ACCEPTED)
DENIED = Outcome(OutcomeClass.AUTH)


def channel(**changes: object) -> Entry:
    """A channel with three calls to open its circuit."""
    made = entry("box", "sandbox", {})
    few = replace(made.channel, circuit=Circuit(calls=3, open=10 * S, cap=60 * S))
    return replace(made, channel=replace(few, **changes))  # type: ignore[arg-type]


def test_it_opens_for_the_tenant_that_fails() -> None:
    """The circuit of one tenant opens and stops only that tenant; the answer that opens it is excused."""
    circuits, box = Circuits(), channel()
    for tenant in ("a", "a", "b"):
        assert circuits.judge(box, tenant, DOWN, NOW, NOW + 1).pauses == ()
    ruling = circuits.judge(box, "a", DOWN, NOW, NOW + 2)
    assert ruling.pauses == (LanePause("box/a", "circuit", NOW + 2 + 10 * S, 1),)
    assert ruling.excused
    assert not circuits.judge(box, "b", DOWN, NOW, NOW + 3).excused


def test_what_was_on_its_way_is_excused() -> None:
    """Calls begun before the opening, here or elsewhere, burden no row when they fail; later ones count anew."""
    circuits, box = Circuits(), channel()
    circuits.told(["box/"], NOW)
    assert circuits.judge(box, "", DOWN, NOW - 1, NOW + S).excused
    assert not circuits.judge(box, "", GOOD, NOW - 1, NOW + S).excused
    assert not circuits.judge(box, "", DOWN, NOW + 1, NOW + S).excused


def test_a_failed_probe_opens_it_for_longer() -> None:
    """Each failed probe doubles the time, up to the cap; its row is excused."""
    circuits, box = Circuits(), channel()
    for opened, seconds in ((1, 20), (2, 40), (3, 60), (40, 60)):
        ruling = circuits.judge(box, "", DOWN, NOW, NOW, [Probe("box/", "circuit", opened)])
        assert ruling.pauses == (LanePause("box/", "circuit", NOW + seconds * S, opened + 1),)
        assert ruling.excused
        assert ruling.resumes == ()


@pytest.mark.parametrize("outcome", [GOOD, DENIED, Outcome(OutcomeClass.INVALID_RECIPIENT)])
def test_any_answer_closes_it(outcome: Outcome) -> None:
    """A provider that answers is not down, whatever it says."""
    ruling = Circuits().judge(channel(), "", outcome, NOW, NOW, [Probe("box/", "circuit", 1)])
    assert (ruling.resumes, ruling.pauses, ruling.excused) == (("box/",), (), False)


def test_a_probed_credential_is_good_when_it_is_not_refused() -> None:
    """Neither a refusal nor a failure says that the credential is good again."""
    probe = [Probe("box", "auth", 0)]
    resumes = [Circuits().judge(channel(), "", o, NOW, NOW, probe).resumes for o in (GOOD, DENIED, DOWN)]
    assert resumes == [("box",), (), ()]


def test_it_can_be_off() -> None:
    """Switched off it never opens, and what another worker had opened is closed by the next probe."""
    circuits, box = Circuits(), channel(circuit=None)
    assert not any(circuits.judge(box, "", DOWN, NOW, NOW + i).pauses for i in range(100))
    assert circuits.judge(box, "", DOWN, NOW, NOW, [Probe("box/", "circuit", 1)]).resumes == ("box/",)


def test_three_addresses_make_a_channel() -> None:
    """A limit of unknown reach is the address's, until three different ones are limited within their hints."""
    limits = Limits()
    limited = Outcome(OutcomeClass.RATE_LIMITED, retry_after_s=10)
    assert limits.judge("box", 1, limited, NOW).scope is None
    assert limits.judge("box", 1, limited, NOW + S).scope is None
    assert limits.judge("box", 2, limited, NOW + 2 * S).scope is None
    assert limits.judge("other", 3, limited, NOW + 2 * S).scope is None
    assert limits.judge("box", 3, limited, NOW + 3 * S).scope == "channel"
    assert limits.judge("box", 4, limited, NOW + 3 * S).scope is None
    assert limits.judge("box", 5, limited, NOW + 14 * S).scope is None
    assert limits.judge("box", 6, limited, NOW + 15 * S).scope is None
    known = replace(limited, scope="address")
    assert [limits.judge("box", n, known, NOW).scope for n in range(9)] == ["address"] * 9
    assert limits.judge("box", 7, GOOD, NOW) is GOOD


def test_terms_only_where_they_are_needed() -> None:
    """A channel with one lane and no limit claims without; a rate, a share, an account or a stray lane need them."""
    traffic = Traffic()
    assert traffic.terms(channel(), []) is None
    rate = Rate(1, S, 1)
    assert traffic.terms(channel(rate=rate), []).rate == rate  # type: ignore[union-attr]
    assert traffic.terms(channel(account="x"), []).lots[0].stops == ("@x", "box", "box/")  # type: ignore[union-attr]
    traffic.found(["box", "box/gone", "other/x"])
    terms = traffic.terms(channel(shares={"a": Share(weight=3, concurrency=2)}), ["box/a", "box"])
    assert terms is not None
    assert [(lot.lane, lot.weight, lot.room) for lot in terms.lots] == [
        ("box", 1, None),
        ("box/a", 3, 1),
        ("box/gone", 1, None),
    ]
    assert not terms.limited


def test_the_lane_of_a_tenant() -> None:
    """A tenant with a share waits in its own lane, everybody else in the channel's."""
    box = channel(shares={"a": Share()})
    assert (lane_of(box, "box", "a"), lane_of(box, "box", "b"), lane_of(None, "box", "a")) == (
        "box/a",
        "box",
        "box",
    )
    assert lane_of(box, "box", "a", "platform") == "box/a/platform"


def test_a_claim_tells_of_open_circuits() -> None:
    """What another worker has opened excuses what is on its way here."""
    traffic = Traffic()
    traffic.learn(Batch(NOW, 0, (), braked=("box/",)))
    assert traffic.judge(channel(), "", DOWN, NOW - 1, NOW + 1, ()).excused


async def test_one_alert_and_one_all_clear(telemetry: KeptTelemetry) -> None:
    """Two workers find the same provider down and up again: people are told once of each, and not of failed probes."""
    async with Ringonce({"store": {"url": "sqlite:///:memory:"}}) as ringonce:
        store, now = ringonce.store, await ringonce.store.now()
        for opened in (1, 1, 2):
            stops = Stops([LanePause("box/", "circuit", now + opened * S, opened)])
            await stops.carry_out(store, telemetry)
            assert not stops
        for _ in range(2):
            await Stops(resumes=["box/"]).carry_out(store, telemetry)
    assert [kind for kind, _ in telemetry.alerts] == ["circuit_open", "resumed"]
    assert [count[2] for count in telemetry.counts] == [{"channel": "box"}] * 2


def test_what_people_are_told_of() -> None:
    """Labels name the channel, the tenant and the part, or the account."""
    assert labels_of("box/acme") == {"channel": "box", "tenant": "acme"}
    assert labels_of("box//platform") == {"channel": "box", "scope": "platform"}
    assert labels_of("@shared") == {"account": "shared"}
