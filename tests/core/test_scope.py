"""How far a refusal reaches, and what the table makes of it."""

import pytest

from ringonce.core.machine import step
from ringonce.core.scope import PROBE_AFTER, apart, in_words, kind_of, part, pause_of
from ringonce.model.notification import LastError, State, Status
from ringonce.model.outcome import CODE_OF, Outcome, OutcomeClass
from ringonce.model.policy import OnAuth, Policy
from ringonce.model.transition import Alert, Answered, Pause, Send, Step

NOW = 1_000
DUE = NOW + PROBE_AFTER


def refused(cls: OutcomeClass, scope: str | None, last: str | None = None, **policy: OnAuth) -> Step:
    """What becomes of a pending row."""
    error = None if last is None else LastError(last)
    state = State(Status.PENDING, 1, next_attempt_at=NOW - 1, open=True, last_error=error)
    outcome = Outcome(cls, CODE_OF[cls], scope=scope, text="no")
    return step(state, Answered(1, outcome), NOW, 0.0, Policy(**policy))


def alerts(made: Step) -> list[tuple[str, str]]:
    """What people are told."""
    return [(effect.kind, effect.text) for effect in made.effects if isinstance(effect, Alert)]


def pauses(made: Step) -> list[Pause]:
    """What stops."""
    return [effect for effect in made.effects if isinstance(effect, Pause)]


@pytest.mark.parametrize(
    ("cls", "scope", "pause"),
    [
        (OutcomeClass.AUTH, None, Pause("channel", "auth", DUE)),
        (OutcomeClass.AUTH, "channel", Pause("channel", "auth", DUE)),
        (OutcomeClass.AUTH, "sender", Pause("sender", "auth", DUE)),
        (OutcomeClass.AUTH, "platform", Pause("platform", "auth", DUE)),
        (OutcomeClass.AUTH, "country:49", Pause("country:49", "auth", DUE)),
        (OutcomeClass.AUTH, "endpoint:x#1", Pause("endpoint:x#1", "auth", DUE)),
        (OutcomeClass.AUTH, "endpoint", None),
        (OutcomeClass.AUTH, "address", None),
        (OutcomeClass.NOT_IMPLEMENTED, None, Pause("channel", "not_implemented")),
        (OutcomeClass.NOT_IMPLEMENTED, "sender", Pause("channel", "not_implemented")),
        (OutcomeClass.DISABLED, "channel", Pause("channel", "disabled")),
        (OutcomeClass.NOT_IMPLEMENTED, "template:a", Pause("template:a", "not_implemented", DUE)),
        (OutcomeClass.DISABLED, "template", Pause("template", "disabled", DUE)),
        (OutcomeClass.NOT_IMPLEMENTED, "endpoint", None),
    ],
)
def test_what_stops(cls: OutcomeClass, scope: str | None, pause: Pause | None) -> None:
    """A part stops by itself and is probed, a channel that is not served waits for a person, a row's own delays it."""
    assert pause_of(Outcome(cls, scope=scope), NOW) == pause
    made = refused(cls, scope)
    assert pauses(made) == ([] if pause is None else [pause])
    (due,) = [effect.due_at for effect in made.effects if isinstance(effect, Send)]
    assert due == (DUE if pause is None else NOW)
    assert (made.state.status, made.state.attempts, made.state.next_attempt_at) == (Status.PENDING, 0, due)


def test_what_is_told() -> None:
    """A pause of a credential or of a part is told with what waits; a channel that is not served is not."""
    assert alerts(refused(OutcomeClass.AUTH, "country:49")) == [
        ("auth", "NTF_PROVIDER_AUTH: no (country 49 alone waits)")
    ]
    assert alerts(refused(OutcomeClass.AUTH, "channel")) == [("auth", "NTF_PROVIDER_AUTH: no")]
    assert alerts(refused(OutcomeClass.NOT_IMPLEMENTED, "template:a")) == [
        ("scope_paused", "NTF_PROVIDER_NOT_IMPLEMENTED: no (template a alone waits)")
    ]
    assert alerts(refused(OutcomeClass.NOT_IMPLEMENTED, "channel")) == []


def test_a_row_by_itself_tells_once() -> None:
    """An endpoint that is refused again at the next look is told to nobody; after another failure it is."""
    assert len(alerts(refused(OutcomeClass.AUTH, "endpoint"))) == 1
    assert alerts(refused(OutcomeClass.AUTH, "endpoint", last="NTF_PROVIDER_AUTH")) == []
    assert len(alerts(refused(OutcomeClass.AUTH, "endpoint", last="NTF_PROVIDER_TRANSIENT"))) == 1


def test_under_on_auth_fail_nothing_stops() -> None:
    """The row ends, people are told, and no part is paused."""
    made = refused(OutcomeClass.AUTH, "country:49", on_auth=OnAuth.FAIL)
    assert (made.state.final, pauses(made), len(alerts(made))) == (True, [], 1)


def test_spelling() -> None:
    """A scope is a word, or a kind with a key; a key may hold anything."""
    assert part("template", "a:b") == "template:a:b"
    assert kind_of("template:a:b") == "template"
    assert in_words("template:a:b") == "template a:b"
    assert [apart(scope) for scope in ("template:a", "platform", "sender", "channel", "", None)] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_long_key_is_cut_and_told_apart() -> None:
    """Two keys that begin alike stay two, and neither makes a name that is longer than a lane's may be."""
    first, second = part("template", "a" * 200), part("template", "a" * 199 + "b")
    assert first != second
    assert len(first) == len(second) == len("template:") + 80
    assert (kind_of(first), part("template", "a")) == ("template", "template:a")


def test_where_no_call_is_left_nobody_else_is_asked() -> None:
    """Under ``on_auth = fail`` a refusal that another provider could answer ends it all the same with the last call."""
    error = LastError("NTF_PROVIDER_AUTH")
    state = State(Status.PENDING, 2, attempts=1, next_attempt_at=NOW - 1, open=True, last_error=error)
    outcome = Outcome(OutcomeClass.AUTH, CODE_OF[OutcomeClass.AUTH], text="no")
    event = Answered(2, outcome, elsewhere=True)
    made = step(state, event, NOW, 0.0, Policy(on_auth=OnAuth.FAIL, max_attempts=2))
    assert (made.state.status, made.state.final) == (Status.FAILED, True)
    more = step(state, event, NOW, 0.0, Policy(on_auth=OnAuth.FAIL, max_attempts=3))
    assert not more.state.final
