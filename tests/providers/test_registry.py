"""Finding providers: ours by name, others by entry point; options with clear errors."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from ringonce import registry
from ringonce.cli.classify import classify_case
from ringonce.errors import ConfigError
from ringonce.provider import HttpRequest, OutcomeClass
from tests.providers.samples import address, content, context, message

PIGEON = """
from dataclasses import dataclass

from ringonce.provider import Context, Features, HttpRequest, OutcomeClass, Provider, Rule


@dataclass(frozen=True)
class PigeonOptions:
    loft: str
    speed: int = 60
    calm: bool = True
    stops: tuple[str, ...] = ()


class Pigeon(Provider):
    name = "pigeon"
    answers_as = ("pigeon_receipt",)
    features = Features(title=False, max_text=20)
    rules = (Rule("pigeon.hawk", OutcomeClass.BLOCKED, "ornithology", status=409),)
    Options = PigeonOptions

    def request(self, message, address, context):
        return HttpRequest("POST", self.options.loft + address.value, body=message.content.text.encode())


NO_PROVIDER = 7
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Install a distribution with a module ``ringonce_pigeon`` and the given entry points."""
    caches = (registry._foreign, registry._answering)

    def write(entries: str, source: str = PIGEON) -> None:
        (tmp_path / "ringonce_pigeon.py").write_text(source)
        info = tmp_path / "ringonce_pigeon-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ringonce-pigeon\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ringonce.providers]\n{entries}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        for cache in caches:
            cache.cache_clear()

    yield write
    sys.modules.pop("ringonce_pigeon", None)
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_ours() -> None:
    """Our own providers are found by the names of their files, sorted."""
    assert set(registry.names()) >= {"sandbox", "smtp", "telegram", "webhook"}
    assert list(registry.names()) == sorted(registry.names())
    for point in registry.names():
        assert registry.provider(point).name == point
    assert list(registry.answer_names()) == sorted(registry.answer_names())


def test_unknown() -> None:
    """An unknown provider is an error that suggests the nearest name, or lists all."""
    with pytest.raises(ConfigError) as error:
        registry.provider("webhok")
    assert error.value.mend == "did you mean webhook?"
    with pytest.raises(ConfigError) as error:
        registry.build("zzz", {})
    assert "sandbox" in error.value.mend
    assert registry.answering("zzz") is None


def test_third_party(install: Callable[..., None]) -> None:
    """A provider from another distribution is configured, asked and classified like ours."""
    install("pigeon = ringonce_pigeon:Pigeon")
    assert [point.name for point in entry_points(group=registry.GROUP)] == ["pigeon"]
    assert "pigeon" in registry.names()
    assert {"pigeon", "pigeon_receipt"} <= set(registry.answer_names())
    pigeon = registry.build("pigeon", {"loft": "https://loft.example/", "speed": "70", "stops": ["a", "b"]})
    assert (pigeon.options.speed, pigeon.options.stops) == (70, ("a", "b"))
    request = pigeon.request(message(content(text="coo")), address("bob"), context())
    assert request == HttpRequest("POST", "https://loft.example/bob", body=b"coo")
    assert classify_case({"provider": "pigeon_receipt", "http_status": 409})["class"] == OutcomeClass.BLOCKED
    assert classify_case({"provider": "pigeon", "http_status": 500})["class"] == OutcomeClass.TRANSIENT


@pytest.mark.parametrize(
    ("settings", "key", "told"),
    [
        ({}, "loft", "needs loft"),
        ({"loft": "x", "sped": 1}, "sped", "did you mean speed?"),
        ({"loft": 7}, "loft", "expected `str`"),
        ({"loft": "x", "speed": "fast"}, "speed", "expected `int`"),
        ({"loft": "x", "stops": ["a", 7]}, "stops", "expected `str`"),
    ],
)
def test_options(install: Callable[..., None], settings: dict[str, object], key: str, told: str) -> None:
    """A missing, unknown or mistyped option is an error that names the key."""
    install("pigeon = ringonce_pigeon:Pigeon")
    with pytest.raises(ConfigError) as error:
        registry.build("pigeon", settings)
    assert error.value.field == key
    assert told in str(error.value)


def test_wrong_value_is_not_repeated() -> None:
    """An option's value may be a secret, so the error does not hold it."""
    with pytest.raises(ConfigError) as error:
        registry.build("telegram", {"token": ["hunter2"]})
    assert error.value.field == "token"
    assert "hunter2" not in str(error.value)


def test_broken_third_party(install: Callable[..., None]) -> None:
    """A distribution that can not be imported is an error for those who use it, and for nobody else."""
    install("pigeon = ringonce_pigeon:Pigeon", "import nothing_of_this_name")
    with pytest.raises(ConfigError) as error:
        registry.provider("pigeon")
    assert "ringonce-pigeon" in str(error.value)
    assert registry.answering("webhook") is not None
    assert classify_case({"provider": "pigeon", "http_status": 500})["class"] is None


def test_no_provider(install: Callable[..., None]) -> None:
    """An entry point that names something else is refused."""
    install("pigeon = ringonce_pigeon:NO_PROVIDER")
    with pytest.raises(ConfigError) as error:
        registry.provider("pigeon")
    assert "is no provider" in str(error.value)


def test_stolen_name(install: Callable[..., None]) -> None:
    """A distribution can not take the place of one of our providers."""
    install("webhook = ringonce_pigeon:Pigeon")
    with pytest.raises(ConfigError) as error:
        registry.provider("webhook")
    assert "ringonce_pigeon:Pigeon" in str(error.value)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider whose extra is not installed is an error that names the package and the extra."""
    registry._load_own.cache_clear()
    monkeypatch.delitem(sys.modules, "ringonce.providers.sandbox", raising=False)
    real = registry.importlib.import_module

    def missing(name: str) -> object:
        if name == "ringonce.providers.sandbox":
            raise ModuleNotFoundError(name="sand")
        return real(name)

    monkeypatch.setattr(registry.importlib, "import_module", missing)
    with pytest.raises(ConfigError) as error:
        registry.provider("sandbox")
    assert '"sand"' in str(error.value)
    assert error.value.mend == 'pip install "ringonce[sandbox]"'


def test_missing_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider whose requests an optional package carries is refused without it, but its answers are known."""
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    with pytest.raises(ConfigError) as error:
        registry.build("smpp", {"url": "smpp://a:b@localhost", "from": "Acme"})
    assert '"smpplib"' in str(error.value)
    assert error.value.mend == 'pip install "ringonce[smpp]"'
    assert registry.answering("smpp_dlr") is registry.provider("smpp")
