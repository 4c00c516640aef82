"""The page of providers names everything that their files declare."""

import re

import pytest

from ringonce import registry
from ringonce.cli.classify import classify_case
from ringonce.provider import Provider
from tools.providers_page import page

PAGE = page()
SECTIONS = dict(re.findall(r"^## ([a-z]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PROVIDERS = [registry.provider(name) for name in registry.names()]


@pytest.mark.parametrize("cls", PROVIDERS, ids=lambda cls: cls.name)
def test_every_provider_is_told_in_full(cls: type[Provider]) -> None:
    """Both tables have its row; its section has each rule with what it means and its source, and each option."""
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| [`{cls.name}`]")]
    assert len(rows) == 2
    assert cls.second_send in rows[1]
    section = SECTIONS[cls.name]
    for rule in cls.rules:
        (line,) = [line for line in section.splitlines() if line.startswith(f"| `{rule.name}` |")]
        assert f"| {rule.cls.value} |" in line
        assert rule.source.replace("|", "\\|") in line
    means = {rule.cls.value for rule in cls.rules}
    assert {line.split(" | ")[0][2:] for line in section.splitlines() if line.count(" | ") == 3} >= means


def test_the_codes_are_those_of_classify() -> None:
    """What the table says of a dead push token and of a limit is what an answer of that kind gets."""
    for case in (
        {"provider": "apns", "http_status": 410, "body": {"reason": "Unregistered"}},
        {"provider": "telegram", "http_status": 429, "body": {"ok": False, "error_code": 429}},
    ):
        row = classify_case(case)
        wanted = rf"^\| {row['class']} \| `{row['code']}` \|.*`{row['rule'].split('.')[1]}`"
        assert re.search(wanted, SECTIONS[str(case["provider"])], re.MULTILINE), row
