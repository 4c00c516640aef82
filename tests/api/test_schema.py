"""The OpenAPI document and what is served agree, for requests that nobody would think of."""

import asyncio
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)

from ringonce.api.app import create_app
from ringonce.app import Ringonce

EXAMPLES = 15
KEY = "s3cret"
RING = Ringonce(
    {
        "store": {"url": "sqlite://"},
        "channels": {"ok": {"provider": "sandbox"}, "app": {"provider": "inapp"}},
    }
)
# What a document can not say (somebody must be told, a channel must exist) is refused all the same; and that the key
# is asked for is a test of its own, for the check mistakes one of two headers for none. In a query everything is text,
# so what the check takes for an object or null is a name like any other.
KNOWN_BETTER = [positive_data_acceptance, negative_data_rejection, ignored_auth]
# Streams have no end and are tested elsewhere.
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", create_app(RING, key=KEY)).exclude(
    path_regex="/stream$"
)


@pytest.fixture(scope="module", autouse=True)
def opened() -> Iterator[None]:
    """There is something to find."""

    async def begin() -> None:
        await RING.open()
        await RING.notify(recipients=["ada"], content={"text": "hello"})

    asyncio.run(begin())
    yield
    asyncio.run(RING.close())


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_a_documented_one(case: schemathesis.Case) -> None:
    """Whatever is sent: never a 500, only statuses, types and forms that the document names."""
    case.call_and_validate(headers={"authorization": f"Bearer {KEY}"}, excluded_checks=KNOWN_BETTER)
