"""Plans of faults: when each condition fits, and what is wrong with a rule that is none."""

import pytest

from ringonce.errors import InputError
from ringonce.vendors.script import Fault, Plan, Rule, plan, rule
from ringonce.vendors.standin import arguments


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time that it shows."""
        return self.now


def verdicts(made: Plan, *addresses: str) -> list[str]:
    """What happens to one request after the other."""
    faults = [made.next(address) for address in addresses]
    return ["-" if fault is None else fault.label for fault in faults]


def test_the_first_rule_that_fits_wins() -> None:
    """Rules are asked in their order."""
    assert verdicts(plan(["503:numbers=2", "reset:first=3"]), *"abcd") == ["reset", "503", "reset", "-"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("503:first=2", "503 503 - - - -"),
        ("503:every=3", "- - 503 - - 503"),
        ("503:numbers=1+5", "503 - - - 503 -"),
        ("503:each=1", "503 503 - 503 - -"),
        ("503:address=a", "503 - 503 - 503 -"),
        ("503:times=1", "503 - - - - -"),
        ("503", "503 503 503 503 503 503"),
        ("accept_then_hang:first=1", "accept_then_hang - - - - -"),
    ],
)
def test_a_condition_picks_its_requests(text: str, expected: str) -> None:
    """Each condition counts as its name says."""
    assert verdicts(plan([text]), *"abacab") == expected.split()


def test_a_time_window_opens_and_closes() -> None:
    """``after`` and ``until`` are counted from the plan's start."""
    clock = Hand()
    made = Plan((Rule(Fault("hang"), after=5, until=10),), clock=clock)
    seen = []
    for now in (100.0, 104.9, 105.0, 109.9, 110.0):
        clock.now = now
        seen += verdicts(made, "a")
    assert seen == ["-", "-", "hang", "hang", "-"]


def test_a_share_repeats_with_its_seed() -> None:
    """The same seed picks the same requests; about as many as asked for."""
    first = verdicts(plan(["503:share=0.2"], seed=7), *("a" * 1000))
    assert first == verdicts(plan(["503:share=0.2"], seed=7), *("a" * 1000))
    assert first != verdicts(plan(["503:share=0.2"], seed=8), *("a" * 1000))
    assert 150 < first.count("503") < 250


def test_stages_are_counted_apart() -> None:
    """A rule of a stage sees that stage's requests only."""
    made = plan(["450:first=1,stage=RCPT"])
    assert made.next("a") is None
    assert made.next("a", "RCPT") == Fault("status", 450)
    assert made.next("a", "RCPT") is None


def test_what_a_rule_may_say_of_its_fault() -> None:
    """A status, a delay and a Retry-After come from the words."""
    assert rule("429:retry_after=2").fault == Fault("status", 429, headers=(("Retry-After", "2"),))
    assert rule("delay:seconds=0.5").fault == Fault("delay", seconds=0.5)


@pytest.mark.parametrize("text", ["explode", "status", "503:first=x", "503:often=1", "503:first", ""])
def test_a_rule_that_is_none_says_what_is_possible(text: str) -> None:
    """The error names the field and the mend."""
    with pytest.raises(InputError) as error:
        rule(text)
    assert error.value.field == "fault"
    assert error.value.mend


def test_a_rule_that_is_none_ends_the_program_with_the_mend(capsys: pytest.CaptureFixture[str]) -> None:
    """A stand-in as a program names the option and what is possible, and shows no trace."""
    with pytest.raises(SystemExit) as error:
        arguments("a server").parse_args(["--fault", "explode"])
    assert error.value.code == 2
    told = capsys.readouterr().err
    assert "--fault" in told
    assert "'explode' is no fault" in told
    assert "accept_then_reset" in told
