"""The public test kit: try your application, check a provider or a store of your own.

::

    from ringonce import testing

    async def test_an_order_that_left_is_told():
        async with testing.ringonce(["email"]) as ringonce:
            await tell_that_it_left(ringonce, order=42)
            await ringonce.drain()
            assert [call.address for call in ringonce.sent] == ["ada@example.com"]

Nothing here needs a test framework.
"""

from ringonce.testing.answers import Case
from ringonce.testing.providers import check_provider
from ringonce.testing.rehearsal import Rehearsal, Sent, ringonce
from ringonce.testing.stores import check_store

__all__ = ["Case", "Rehearsal", "Sent", "check_provider", "check_store", "ringonce"]
