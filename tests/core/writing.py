"""Templates for tests, without files."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from ringonce.core.locales import Writing, locale_of
from ringonce.core.render import Template, Wording, wording
from ringonce.core.sandbox import compile_part
from ringonce.model.records import Reader

NOBODY = Reader(locale="en", timezone="UTC")


def written(locale: str = "en", zone: str = "UTC") -> Writing:
    """How things are written for a locale in a zone."""
    return Writing(locale_of(locale), ZoneInfo(zone))


def shown(
    source: str,
    data: Mapping[str, object] | None = None,
    *,
    locale: str = "en",
    zone: str = "UTC",
    html: bool = False,
    isolate: bool = False,
) -> str:
    """What one part renders to."""
    program = compile_part(source, html=html)
    return program.run(data or {}, {"id": "u1"}, written(locale, zone), isolate=isolate)


def said(**parts: str) -> Wording:
    """One wording. Raises the first thing that is wrong with it."""
    made, wrong = wording({name: (source, 1) for name, source in parts.items()}, "t/en.toml")
    if made is None:
        raise wrong[0]
    return made


def template(texts: Mapping[str, Mapping[str, Wording]], defaults: Reader = NOBODY) -> Template:
    """A template; ``texts``: locale -> channel -> wording."""
    return Template("t", texts, defaults)
