"""Frozen dataclasses made in C: faster, and nothing else."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from inspect import signature

import pytest

from ringonce.model import exchange, notification, outcome, records, transition
from ringonce.model.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Thing:
    """Fields of all sorts; two are named like what an ``__init__`` may have inside."""

    kind: str
    cls: int = 1
    items: dict[str, int] = field(default_factory=dict, repr=False)


def test_it_is_made_by_position_by_name_and_by_default() -> None:
    """Arguments go where the dataclass says, and a factory makes a new value for each object."""
    assert (Thing("a").kind, Thing("a").cls, Thing("a").items) == ("a", 1, {})
    assert Thing("a").items is not Thing("a").items
    assert Thing("a", 2, {"x": 1}) == Thing(items={"x": 1}, cls=2, kind="a")
    assert list(signature(Thing).parameters) == ["kind", "cls", "items"]


def test_wrong_arguments_are_refused() -> None:
    """Too few, too many, unknown: as for any other function."""
    with pytest.raises(TypeError, match="kind"):
        Thing()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Thing("a", 1, {}, 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Thing("a", colour="red")  # type: ignore[call-arg]


def test_it_is_frozen_once_it_is_made() -> None:
    """No field of a finished object can be set or deleted."""
    thing = Thing("a")
    with pytest.raises(FrozenInstanceError):
        thing.kind = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del thing.cls
    assert type(thing) is Thing


def test_it_is_copied_like_any_other() -> None:
    """``replace``, ``copy``, ``pickle`` and ``fields`` see a dataclass; a hidden field stays hidden."""
    thing = Thing("a", 2, {"x": 1})
    assert replace(thing, kind="b") == Thing("b", 2, {"x": 1})
    assert copy.deepcopy(thing) == thing == pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own
    assert [f.name for f in fields(Thing)] == ["kind", "cls", "items"]
    assert repr(thing) == "Thing(kind='a', cls=2)"


def test_a_subclass_stays_one() -> None:
    """An object of a subclass without further fields is of that class."""

    class More(Thing):
        pass

    assert type(More("a")) is More


def test_what_it_does_not_know_is_refused() -> None:
    """A class with an ``__init__`` of other rules is not silently changed."""

    @dataclass(frozen=True, slots=True)
    class Base:
        some: int = 0

    @dataclass(frozen=True, slots=True)
    class Derived(Base):
        more: int = 0

    @dataclass(frozen=True, slots=True)
    class Checked:
        one: int

        def __post_init__(self) -> None:
            raise AssertionError

    @dataclass(frozen=True, slots=True)
    class Named:
        one: int = field(kw_only=True)

    for cls in (Derived, Checked):
        with pytest.raises(TypeError, match="no plain frozen dataclass"):
            quick(cls)
    with pytest.raises(TypeError, match="in order"):
        quick(Named)


@pytest.mark.parametrize("module", [exchange, notification, outcome, records, transition])
def test_the_model_stays_frozen(module: object) -> None:
    """Every class of the model refuses to be changed, quick or not."""
    for cls in vars(module).values():
        if isinstance(cls, type) and hasattr(cls, "__dataclass_fields__"):
            assert cls.__dataclass_params__.frozen
            made = cls(**dict.fromkeys(cls.__dataclass_fields__))
            for name in cls.__dataclass_fields__:
                with pytest.raises(FrozenInstanceError):
                    setattr(made, name, None)


def test_its_signature_can_be_asked_for() -> None:
    """Also of a class whose types are imported for type checkers only, as ``help`` does."""
    assert next(iter(signature(records.Row).parameters)) == "id"
    names = ["attempt", "outcome", "begun", "excused", "elsewhere"]
    assert list(signature(transition.Answered).parameters) == names
