"""Frozen dataclasses that are made by the thousand: the same classes, made in C.

The ``__init__`` of a frozen dataclass calls ``object.__setattr__`` once per field, 0.2 µs each, and a notification
passes through some hundred fields on its way. Here the class is a msgspec Struct with the same fields. To whoever
reads it, and to type checkers, it stays a dataclass: ``fields``, ``replace``, ``repr`` and ``match`` know no
difference, and what is stored is decoded by its annotations. Python's collector leaves its objects alone, so none may
ever be part of a cycle: their fields are values.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, fields
from typing import Any, Never, TypeVar, get_type_hints

import msgspec

T = TypeVar("T")

_OF_DATACLASSES = ("__dataclass_fields__", "__dataclass_params__", "__doc__", "__repr__")


def quick(cls: type[T]) -> type[T]:
    """Make a ``@dataclass(frozen=True, slots=True)`` anew, with a quick constructor of the same signature.

    Raises:
        TypeError: it has what this does not know: a base with fields, ``__post_init__``, ``init=False``.
    """
    known: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]  # it is a dataclass
    slots = cls.__dict__.get("__slots__")
    if slots != tuple(f.name for f in known) or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} is no plain frozen dataclass with slots")
    if not all(f.init and not f.kw_only for f in known):
        raise TypeError(f"{cls.__name__} has fields that are not given in order")
    own = {
        name: value for name, value in vars(cls).items() if name not in slots and not name.startswith("__")
    }
    kept = {name: vars(cls)[name] for name in _OF_DATACLASSES}
    types = _types(cls)
    made = msgspec.defstruct(
        cls.__name__,
        [(f.name, types.get(f.name, Any), _default(f)) for f in known],
        module=cls.__module__,
        namespace=own | kept,
        frozen=True,
        gc=False,
    )
    made.__setattr__ = made.__delattr__ = _refuse  # type: ignore[method-assign]
    made.__qualname__ = cls.__qualname__
    return made  # type: ignore[return-value]  # read as the dataclass that it stands for


def _types(cls: type[Any]) -> dict[str, Any]:
    """What decoding checks and makes: nothing, where a type is imported for type checkers only."""
    try:
        return get_type_hints(cls)
    except NameError:
        return {}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.NODEFAULT if field.default is MISSING else field.default


def _refuse(self: object, name: str, *_: object) -> Never:
    raise FrozenInstanceError(f"{name} of a {type(self).__name__} can not be changed")
