"""Who approves drafts, as it is written."""

import pytest

from ringonce.config import from_mapping, load
from ringonce.errors import ConfigError
from ringonce.model.draft import DraftMode, DraftModes


def test_modes() -> None:
    """A mode for all, and one by scenario; a channel for drafts that name none."""
    keys = {"channel": "reply", "mode": "auto", "scenarios": {"complaint": "manual"}}
    modes = from_mapping({"drafts": keys}).drafts
    assert modes == DraftModes(DraftMode.AUTO, {"complaint": DraftMode.MANUAL}, "reply")


def test_nothing_is_sent_by_itself() -> None:
    """Without the section every draft waits for a person."""
    assert from_mapping({}).drafts == DraftModes(DraftMode.MANUAL, {}, None)


def test_from_the_environment() -> None:
    """The table of scenarios is written as inline TOML there."""
    modes = load(environ={"RINGONCE_DRAFTS_SCENARIOS": '{ praise = "auto" }'}).drafts
    assert modes.scenarios == {"praise": DraftMode.AUTO}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"mode": "automatic"}, r"drafts\.mode"),
        ({"scenarios": {"praise": "never"}}, r"drafts\.scenarios: praise"),
        ({"scenarios": "praise"}, r"drafts\.scenarios: expected a table"),
        ({"scenario": {}}, r"drafts\.scenario: unknown key"),
    ],
)
def test_a_wrong_mode(keys: dict[str, object], message: str) -> None:
    """What is no mode is refused, with the place of it."""
    with pytest.raises(ConfigError, match=message):
        from_mapping({"drafts": keys})
