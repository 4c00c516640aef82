"""The environment and references to secrets."""

from pathlib import Path

import pytest

from ringonce.config import Config, from_mapping, load
from ringonce.errors import ConfigError

CHANNEL = '[channels.Web-Push]\nprovider = "x"\nmax_attempts = 4\n'


def loaded(folder: Path, text: str = "", **environ: str) -> Config:
    """The configuration of a file with this text under these variables."""
    file = folder / "ringonce.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, environ=environ)


@pytest.mark.parametrize("name", ["RINGONCE_STORE__URL", "RINGONCE_STORE_URL"])
def test_environment_wins_over_the_file(tmp_path: Path, name: str) -> None:
    """A variable overrides the file, with two underscores or, for a plain section, with one."""
    config = loaded(tmp_path, '[store]\nurl = "sqlite:///file.db"\n', **{name: "sqlite:///env.db"})
    assert config.store.url == "sqlite:///env.db"


def test_environment_is_read_as_what_the_key_wants(tmp_path: Path) -> None:
    """Text from the environment becomes the number, flag, list, duration or table that its key is."""
    config = loaded(
        tmp_path,
        CHANNEL,
        RINGONCE_STORE_POOL_SIZE="9",
        RINGONCE_RETRY_CYCLE="250ms",
        RINGONCE_SECURITY_ALLOW_PRIVATE_NETWORKS="127.0.0.0/8, 10.0.0.0/8",
        RINGONCE_CHANNELS__WEB_PUSH__ENABLED="no",
        RINGONCE_CHANNELS__WEB_PUSH__BUDGETS__TRANSIENT="1",
        RINGONCE_CHANNELS__WEB_PUSH__BACKOFF='{ kind = "fixed", base = "2s" }',
        RINGONCE_CHANNELS__WEB_PUSH__TOKEN="12345",
        RINGONCE_CHANNELS__WEB_PUSH__SCRIPT='["ok"]',
    )
    channel = config.channels["Web-Push"]
    assert config.store.pool_size == 9
    assert config.retry.cycle == 250_000
    assert config.security.allow_private_networks == ("127.0.0.0/8", "10.0.0.0/8")
    assert not channel.enabled
    assert channel.policy.max_attempts == 4
    assert channel.policy.budgets.transient == 1
    assert channel.policy.backoff.base == 2_000_000
    assert channel.settings == {"token": "12345", "script": ["ok"]}


def test_environment_alone_makes_a_channel(tmp_path: Path) -> None:
    """A channel needs no file."""
    config = loaded(tmp_path, "", RINGONCE_CHANNELS__SMS__PROVIDER="x")
    assert config.channels["sms"].provider == "x"


def test_unknown_variable_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A variable that fits no key is refused by its own name, with the nearest key."""
    with pytest.raises(ConfigError, match=r"RINGONCE_STORE_URI.*did you mean url\?"):
        loaded(tmp_path, "", RINGONCE_STORE_URI="x")


def test_unknown_section_of_a_variable_suggests_the_nearest_variable(tmp_path: Path) -> None:
    """A variable whose section does not exist is refused with the nearest variable."""
    with pytest.raises(ConfigError, match=r"RINGONCE_STOER_URL.*did you mean RINGONCE_STORE_URL\?"):
        loaded(tmp_path, "", RINGONCE_STOER_URL="x")


def test_wrong_value_names_the_variable(tmp_path: Path) -> None:
    """A wrong value from the environment is blamed on the variable, not on the file."""
    with pytest.raises(ConfigError, match=r"RINGONCE_API_PORT.*whole number"):
        loaded(tmp_path, "", RINGONCE_API_PORT="http")


def test_variables_of_kubernetes_are_left_alone(tmp_path: Path) -> None:
    """What Kubernetes injects for a service called ringonce or ringonce-api configures nothing."""
    config = loaded(
        tmp_path,
        "",
        RINGONCE_PORT="tcp://10.0.0.1:8070",
        RINGONCE_SERVICE_HOST="10.0.0.1",
        RINGONCE_API_PORT="tcp://10.0.0.1:8070",
        RINGONCE_API_SERVICE_PORT_HTTP="8070",
        RINGONCE_API_PORT_8070_TCP_ADDR="10.0.0.1",
        RINGONCE_TEST_PG_URL="postgresql://",
    )
    assert config.api.port == 8070


def test_named_file(tmp_path: Path) -> None:
    """RINGONCE_CONFIG names the file."""
    file = tmp_path / "x.toml"
    file.write_text("[api]\nport = 1\n", encoding="utf-8")
    assert load(environ={"RINGONCE_CONFIG": str(file)}).api.port == 1


def test_references(tmp_path: Path) -> None:
    """A reference is replaced by the variable or by the file's text without its line end."""
    (tmp_path / "secret").write_text("p@ss/word\n", encoding="utf-8")
    config = loaded(
        tmp_path,
        '[channels.a]\nprovider="x"\nurl="smtp://u:${file:secret}@h:587"\ntoken="${env:TOKEN}"\nlist=["${env:TOKEN}"]\n'
        'link="https://h/${env:TOKEN}?a=b@c"\n',
        TOKEN="t/1",
    )
    assert config.channels["a"].settings == {
        "url": "smtp://u:p%40ss%2Fword@h:587",
        "token": "t/1",
        "list": ["t/1"],
        "link": "https://h/t/1?a=b@c",
    }


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${env:NOT_THERE}", "NOT_THERE is not set"),
        ("${file:/not/there}", "/not/there can not be read"),
        ("${vault:x}", "unknown reference"),
    ],
)
def test_references_that_lead_nowhere(tmp_path: Path, reference: str, said: str) -> None:
    """A reference that can not be followed is an error at its key, never an empty secret."""
    with pytest.raises(ConfigError, match=r"channels\.a\.token") as refused:
        loaded(tmp_path, f'[channels.a]\nprovider="x"\ntoken="{reference}"\n')
    assert said in str(refused.value)


def test_secrets_are_not_in_any_repr(tmp_path: Path) -> None:
    """Neither the repr of the configuration nor that of a channel shows a secret."""
    config = loaded(
        tmp_path,
        '[store]\nurl="postgresql://u:hidden1@h/d"\n[api]\nkey="hidden2"\n'
        '[channels.a]\nprovider="x"\ntoken="hidden3"\nsecrets=["hidden4"]\ncount=3\n',
    )
    shown = repr(config) + str(config) + config.store.shown
    assert "hidden" not in shown
    assert "'count': 3" in shown


def test_secrets_are_not_in_an_error() -> None:
    """A wrong value is described, never quoted."""
    with pytest.raises(ConfigError) as refused:
        from_mapping({"channels": {"a": {"provider": "x", "timeout": "hidden"}}})
    assert "hidden" not in str(refused.value)


def test_a_mapping_is_not_overridden_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration written in code is taken as it is."""
    monkeypatch.setenv("RINGONCE_STORE_URL", "sqlite:///env.db")
    assert from_mapping({}).store.url == "sqlite:///ringonce.db"
