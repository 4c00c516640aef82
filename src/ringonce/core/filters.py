"""The filters and tests of templates, all of them. A filter takes the scene, the value, and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jinja2.runtime import Undefined
from markupsafe import Markup, escape

from ringonce.core.locales import FORMS, Misuse, kind
from ringonce.core.purse import scalar, size_of
from ringonce.core.text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.core.purse import Scene


def _given(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)
    return value


def _items(value: Any) -> Sequence[Any]:
    if isinstance(_given(value), (list, tuple)):
        return value  # type: ignore[no-any-return]
    raise Misuse(f"{kind(value)} is no list", "use a list of the event's data")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise Misuse("this is no whole number", "0 or more")


def _of(value: Any, attribute: Any) -> Any:
    """A key of each item, or the item."""
    if attribute is None:
        return value
    if isinstance(value, dict) and isinstance(attribute, str) and attribute in value:
        return value[attribute]
    raise Misuse("an item has no such key", "every item needs it")


# --- numbers, moments, money --------------------------------------------------------------------------------------


def plural(scene: Scene, value: Any, **forms: Any) -> Any:
    """The form that goes with a number in the text's language."""
    if unknown := sorted(set(forms) - set(FORMS)):
        raise Misuse(f"there is no plural form {unknown[0]}", f"forms: {', '.join(FORMS)}")
    return scene.writing.plural(_given(value), forms)


def number(scene: Scene, value: Any, digits: Any = None) -> str:
    """1234.5 as the reader writes it."""
    return scene.writing.number(_given(value), digits)


def percent(scene: Scene, value: Any, digits: Any = 0) -> str:
    """0.25 as 25 %."""
    return scene.writing.percent(_given(value), digits)


def currency(scene: Scene, value: Any, code: Any) -> str:
    """An amount of money."""
    return scene.writing.currency(_given(value), code)


def date(scene: Scene, value: Any, width: Any = "medium") -> str:
    """The day where the recipient is."""
    return scene.writing.day(_given(value), width)


def time(scene: Scene, value: Any, width: Any = "short", zone: Any = True) -> str:  # noqa: FBT002 - read in a template
    """The time of day where the recipient is."""
    return scene.writing.hour(_given(value), width, named=bool(zone))


def datetime(scene: Scene, value: Any, width: Any = "medium", zone: Any = True) -> str:  # noqa: FBT002 - see time
    """Day and time where the recipient is."""
    return scene.writing.moment(_given(value), width, named=bool(zone))


def rounded(_scene: Scene, value: Any, digits: Any = 0) -> Any:
    """Half to even."""
    if isinstance(_given(value), (int, float)) and not isinstance(value, bool) and _count(digits) <= 15:
        return round(value, digits) if digits else round(value)
    raise Misuse(f"{kind(value)} is no number", "round a number, to 15 places at most")


# --- texts --------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    return str(scalar(value))


def replace(scene: Scene, value: Any, old: Any, new: Any) -> str:
    """Every ``old`` by ``new``."""
    text, old, new = _plain(value), _plain(old), _plain(new)
    # Its size is known before it is made.
    scene.purse.spend(max(0, text.count(old) * (len(new) - len(old))))
    return text.replace(old, new)


def truncate(_scene: Scene, value: Any, length: Any, end: Any = "…") -> str:
    """At most ``length`` characters, the mark at its end included; no character is broken."""
    return cut(_plain(value), _count(length), mark=_plain(end))


def default(_scene: Scene, value: Any, other: Any = "") -> Any:
    """``other`` for what is not there or null."""
    return other if value is None or isinstance(value, Undefined) else value


def bare(scene: Scene, value: Any) -> str:
    """Without isolates: for a code that is copied."""
    text = _plain(value)
    scene.plain.add(text)
    return text


def isolate(scene: Scene, value: Any) -> str:
    """With isolates whatever its direction: ``<bdi>`` in HTML."""
    return scene.isolate_now(value)


# --- lists --------------------------------------------------------------------------------------------------------


def length(_scene: Scene, value: Any) -> int:
    """How many characters, items or keys."""
    if isinstance(_given(value), (str, list, tuple, dict)):
        return size_of(value)
    raise Misuse(f"{kind(value)} has no length", "use a text or a list")


def first(_scene: Scene, value: Any) -> Any:
    """The first item. An empty list has none."""
    return _end(value, 0)


def last(_scene: Scene, value: Any) -> Any:
    """The last item. An empty list has none."""
    return _end(value, -1)


def _end(value: Any, index: int) -> Any:
    if not _items(value):
        raise Misuse("the list is empty", "ask with {% if %} before")
    return value[index]


def join(scene: Scene, value: Any, by: Any = "", attribute: Any = None) -> str:
    """Items with ``by`` between them."""
    items, between = _items(value), _plain(by)
    texts = [scene.text(_of(item, attribute)) for item in items]
    scene.purse.spend(sum(map(len, texts)) + len(between) * len(texts))
    if any(isinstance(text, Markup) for text in texts):
        return escape(between).join(escape(text) for text in texts)
    return between.join(texts)


def mapped(_scene: Scene, value: Any, attribute: Any) -> list[Any]:
    """A key of each item."""
    return [_of(item, attribute) for item in _items(value)]


def ordered(_scene: Scene, value: Any, attribute: Any = None, reverse: Any = False) -> list[Any]:  # noqa: FBT002
    """In order of a key, or of the items themselves; texts by their code points."""
    items = list(_items(value))
    return sorted(items, key=lambda item: scalar(_of(item, attribute)), reverse=bool(reverse))


def backwards(_scene: Scene, value: Any) -> list[Any]:
    """The last first."""
    return list(reversed(_items(value)))


def total(_scene: Scene, value: Any, attribute: Any = None) -> Any:
    """The sum of numbers."""
    numbers = [_of(item, attribute) for item in _items(value)]
    if all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and abs(one) < 10**18 for one in numbers
    ):
        return sum(numbers)
    raise Misuse("only numbers have a sum", "sum(attribute=…) for a key of each item")


def pairs(_scene: Scene, value: Any) -> list[Any]:
    """(key, value) of a mapping."""
    if isinstance(_given(value), dict):
        return list(value.items())
    raise Misuse(f"{kind(value)} is no mapping", "use a mapping of the event's data")


def _on_text(method: Callable[[str], str]) -> Callable[[Scene, Any], str]:
    def apply(_scene: Scene, value: Any) -> str:
        return method(_plain(value))

    return apply


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "plural": plural,
    "number": number,
    "percent": percent,
    "currency": currency,
    "date": date,
    "time": time,
    "datetime": datetime,
    "round": rounded,
    "upper": _on_text(str.upper),
    "lower": _on_text(str.lower),
    "capitalize": _on_text(str.capitalize),
    "trim": _on_text(str.strip),
    "urlencode": _on_text(lambda text: quote(text, safe="")),
    "replace": replace,
    "truncate": truncate,
    "default": default,
    "bare": bare,
    "isolate": isolate,
    "length": length,
    "first": first,
    "last": last,
    "join": join,
    "map": mapped,
    "sort": ordered,
    "reverse": backwards,
    "sum": total,
    "items": pairs,
}
MOMENTS: Final = frozenset({"date", "time", "datetime"})
"""These show the recipient's zone."""

TESTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "defined": lambda value: not isinstance(value, Undefined),
    "undefined": lambda value: isinstance(value, Undefined),
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, (list, tuple)),
}
