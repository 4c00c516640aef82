"""ringonce.toml: what is read, what is refused, and what the refusal says."""

from pathlib import Path

import pytest

from ringonce.config import Config, from_mapping, load
from ringonce.errors import ConfigError
from ringonce.model.policy import BackoffKind, InDoubt, OnAuth

SECOND = 1_000_000


def written(folder: Path, text: str) -> Path:
    """A configuration file with this text."""
    file = folder / "ringonce.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(folder: Path, text: str) -> str:
    """What the refusal of this text says."""
    with pytest.raises(ConfigError) as refused:
        load(written(folder, text), environ={})
    return str(refused.value)


def test_defaults_without_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file the database is ./ringonce.db, the API listens on loopback and there is no channel."""
    monkeypatch.chdir(tmp_path)
    config = load(environ={})
    assert config == Config()
    assert config.store.url == "sqlite:///ringonce.db"
    assert (config.api.host, config.api.port, config.api.key) == ("127.0.0.1", 8070, None)
    assert config.limits.max_payload == 256 * 1024
    assert not config.channels


def test_file_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """./ringonce.toml is read when no other file is named."""
    written(tmp_path, '[retry]\ncycle = "5s"\n')
    monkeypatch.chdir(tmp_path)
    assert load(environ={}).retry.cycle == 5 * SECOND


def test_a_whole_channel(tmp_path: Path) -> None:
    """Every key of a channel reaches its place; what is left are the provider's own settings."""
    config = load(
        written(
            tmp_path,
            """
            [channels.email]
            provider = "smtp"
            enabled = false
            max_attempts = 5
            in_doubt = "hold"
            hold_for = "10m"
            on_auth = "fail"
            max_age = "none"
            timeout = "500ms"
            lease = 20
            concurrency = 7
            rate_limited_factor = 2
            backoff = { kind = "schedule", delays = ["5s", "30s", "1h30m"], jitter = "10%" }
            budgets = { transient = 1, rate_limited = 2, unknown = 0 }
            floors = { greylist = "1s" }
            url = "smtp://mail.example.com"
            from = "a@example.com"
            """,
        ),
        environ={},
    )
    channel = config.channels["email"]
    policy = channel.policy
    assert (channel.name, channel.provider, channel.enabled) == ("email", "smtp", False)
    assert (channel.timeout, channel.lease, channel.concurrency) == (500_000, 20 * SECOND, 7)
    assert (policy.max_attempts, policy.in_doubt, policy.hold_for) == (5, InDoubt.HOLD, 600 * SECOND)
    assert (policy.on_auth, policy.max_age, policy.rate_limited_factor) == (OnAuth.FAIL, None, 2.0)
    assert policy.backoff.kind is BackoffKind.SCHEDULE
    assert policy.backoff.delays == (5 * SECOND, 30 * SECOND, 5400 * SECOND)
    assert (policy.backoff.jitter, policy.backoff.jitter_ratio) == (0, 0.1)
    assert (policy.budgets.transient, policy.budgets.rate_limited, policy.budgets.unknown) == (1, 2, 0)
    assert policy.floors == {"greylist": SECOND, "rate_limited": 0}
    assert channel.settings == {"url": "smtp://mail.example.com", "from": "a@example.com"}
    assert config.given["email"] >= {"in_doubt", "budgets.unknown"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[stroe]\nurl = 'x'", ("stroe", "did you mean store?")),
        ("[store]\nurll = 'x'", ("store.urll", "did you mean url?")),
        ("[channels.a]\nprovider='x'\nbudgets={transiet=1}", ("channels.a.budgets.transiet", "transient?")),
        ("[channels.a]\nprovider='x'\nbackoff={bse='1s'}", ("channels.a.backoff.bse", "did you mean base?")),
        ("[channels.a]\nprovider='x'\nfloors={graylist='1s'}", ("floors.graylist", "did you mean greylist?")),
        ("[channels.a]\nurl='x'", ("channels.a.provider", "missing", 'provider = "smtp"')),
        ("[channels]\na = 'smtp'", ("channels.a", "table", "[channels.a]")),
        ("[channels.'a b']\nprovider='x'", ("channels.a b", "no name for a channel")),
        ("[channels.a]\nprovider='x'\nmax_attempts=0", ("max_attempts", "at least 1")),
        ("[channels.a]\nprovider='x'\nmax_attempts='3'", ("max_attempts", "whole number", "without quotes")),
        ("[channels.a]\nprovider='x'\nenabled=1", ("enabled", "true or false")),
        ("[channels.a]\nprovider='x'\ntimeout=-1", ("timeout", "negative")),
        ("[channels.a]\nprovider='x'\ntimeout='5 parsecs'", ("timeout", "no duration", '"500ms"')),
        ("[channels.a]\nprovider='x'\ntimeout=inf", ("timeout", "duration")),
        ("[channels.a]\nprovider='x'\ntimeout=nan", ("timeout", "duration")),
        ("[channels.a]\nprovider='x'\nmax_age='4000d'", ("max_age", "ten years")),
        ("[channels.a]\nprovider='x'\nin_doubt='resnd'", ("in_doubt", "did you mean resend?")),
        ("[channels.a]\nprovider='x'\nmark=0", ("mark", "true or false")),
        ("[channels.a]\nprovider='x'\nin_doubt='resend'\nhold_for='1m'", ("hold_for", "no effect")),
        ("[channels.a]\nprovider='x'\nbackoff={kind='schedule'}", ("backoff.delays", "missing")),
        ("[channels.a]\nprovider='x'\nbackoff={kind='fixed',factor=2}", ("backoff.factor", "no effect")),
        ("[channels.a]\nprovider='x'\nbackoff={jitter='200%'}", ("backoff.jitter", "100%")),
        ("[channels.a]\nprovider='x'\nbackoff={kind='schedule',delays=['1s',true]}", ("delays", "item 2")),
        ("[channels.a]\nprovider='x'\nproviders=['b']", ("providers", "one or the other")),
        ("[rules.presence]\nurl='x'", ("rules", "not available yet")),
        ("[digest.x]\nwindow='1s'", ("digest", "not available yet")),
        ("[sources.x]\nkind='redis'", ("sources", "not available yet")),
        ("[outbox]\nkind='kafka'", ("outbox.kind", "not available yet", "table")),
        ("[outbox]\nkind='tabel'", ("outbox.kind", "did you mean table?")),
        (
            "[security]\nallow_private_networks=['10.0.0.0/99']",
            ("allow_private_networks", "item 1", "network"),
        ),
        ("[limits]\nmax_payload='1GB'", ("limits.max_payload", "size")),
        ("[api]\nport=70000", ("api.port", "65535")),
        ("store = 3", ("store", "table")),
    ],
)
def test_refusals_name_the_key_and_the_mend(tmp_path: Path, text: str, said: tuple[str, ...]) -> None:
    """A wrong key or value is refused with the file, the key path and what would be right."""
    message = refusal(tmp_path, text)
    assert "ringonce.toml" in message
    for word in said:
        assert word in message


def test_all_problems_at_once(tmp_path: Path) -> None:
    """A file with several problems is refused once, and all of them are listed."""
    message = refusal(tmp_path, "[store]\nurll='x'\n[api]\nport='x'\n[channels.a]\nmax_attempts=0\n")
    assert "4 problems" in message
    for path in ("store.urll", "api.port", "channels.a.provider", "channels.a.max_attempts"):
        assert path in message


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    """A file that is no TOML is refused with the line."""
    assert "line 2" in refusal(tmp_path, "[store]\nurl = \n")


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    """A file in another encoding is refused, not guessed at."""
    file = tmp_path / "ringonce.toml"
    file.write_bytes(b'[store]\nurl = "\xff"\n')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(file, environ={})


def test_missing_file(tmp_path: Path) -> None:
    """A file that was named and is not there is an error, not the defaults."""
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "other.toml", environ={})


def test_a_mapping_and_overrides() -> None:
    """A configuration written in code has the file's structure, and overrides change single keys of it."""
    config = from_mapping(
        {"store": {"url": "sqlite://", "pool_size": 3}}, overrides={"store": {"url": "sqlite:///x"}}
    )
    assert (config.store.url, config.store.pool_size) == ("sqlite:///x", 3)


@pytest.mark.parametrize(
    ("written_as", "micros"),
    [
        ("1s", SECOND),
        ("1500ms", 1_500_000),
        ("1.5s", 1_500_000),
        ("1h30m", 5_400 * SECOND),
        ("7d", 604_800 * SECOND),
        ("2w", 1_209_600 * SECOND),
        (3, 3 * SECOND),
        (1.25, 1_250_000),
    ],
)
def test_durations(written_as: object, micros: int) -> None:
    """A duration is a text with units or a number of seconds, and becomes microseconds."""
    config = from_mapping({"channels": {"a": {"provider": "x", "max_age": written_as}}})
    assert config.channels["a"].policy.max_age == micros


def test_templates_section(tmp_path: Path) -> None:
    """Folder, locale and zone have defaults, and a locale or zone that means nothing is refused."""
    config = load(
        written(tmp_path, '[templates]\nlocale = "pt-BR"\ntimezone = "Asia/Kathmandu"\n'), environ={}
    )
    assert (config.templates.path, config.templates.locale, config.templates.timezone) == (
        "templates",
        "pt-BR",
        "Asia/Kathmandu",
    )
    for text in ('locale = "../x"', "locale = 5", 'timezone = "Europe/Berlni"', "timezone = 5"):
        assert "templates." in refusal(tmp_path, f"[templates]\n{text}\n")


def test_guards_and_tenant_keys() -> None:
    """Guards have a URL each; a tenant's key has key and tenant, and no two are the same; none is ever shown."""
    config = from_mapping(
        {
            "guards": {"order": {"url": "https://app.example.com/wanted?token=s3cret", "timeout": "1s"}},
            "api": {"keys": {"a": {"key": "s3cret-a", "tenant": "acme"}}},
        }
    )
    assert (config.guards["order"].timeout, config.api.keys[0].tenant, config.api.locked) == (
        1_000_000,
        "acme",
        True,
    )
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"guards": {"order": {}}}, "guards.order.url"),
        ({"guards": {"order": {"url": "ftp://x"}}}, "guards.order.url"),
        ({"guards": {"order": {"url": "https://[x"}}}, "guards.order.url"),
        ({"guards": {"order": {"url": "https://x", "method": "GET"}}}, "guards.order.method"),
        ({"api": {"keys": "x"}}, "api.keys"),
        ({"api": {"keys": {"a": {"key": "k"}}}}, "api.keys"),
        ({"api": {"keys": {"a": {"key": "", "tenant": "t"}}}}, "api.keys"),
        (
            {"api": {"keys": {"a": {"key": "k", "tenant": "t"}, "b": {"key": "k", "tenant": "u"}}}},
            "api.keys",
        ),
    ],
)
def test_wrong_guards_and_keys(raw: dict[str, object], field: str) -> None:
    """What is wrong with a guard or a key is named."""
    with pytest.raises(ConfigError) as error:
        from_mapping(raw)
    assert error.value.field == field
