"""No rule is there for nothing."""

import pytest

from ringonce import registry
from ringonce.cli.classify import classify_case
from tests.providers.test_answers import CASES

CHAT = ("discord", "max", "slack", "teams", "viber", "whatsapp")


@pytest.mark.parametrize("name", CHAT)
def test_each_rule_decides_a_case(name: str) -> None:
    """Each rule of a provider decides at least one of the known answers, so none is dead or hidden by another."""
    cls = registry.provider(name)
    rows = [classify_case(case) for case in CASES if case["provider"] in {name, *cls.answers_as}]
    assert {rule.name for rule in cls.rules} - {row["rule"] for row in rows} == set()
