"""The stand-in for a service behind Apprise, called by the library itself."""

import pytest
from apprise import Apprise

from ringonce.vendors.apprise import JsonService
from ringonce.vendors.script import plan

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.mark.parametrize(
    ("path", "faults", "worked"), [("/a", (), True), ("/gone", (), False), ("/a", ("503",), False)]
)
def test_the_library_hears_whether_it_worked(path: str, faults: tuple[str, ...], worked: bool) -> None:
    """A message is taken and written down once; a refused path and a fault are failures, and nobody was told."""
    with JsonService(refused={"/gone": "403"}, plan=plan(faults)) as server:
        service = Apprise.instantiate(f"json://127.0.0.1:{server.port}{path}")
        assert service.notify(title="Order 42", body="on its way (e-1)") is worked
        (entry,) = server.ledger.entries
        assert (entry.address, entry.reference, entry.accepted) == (path, "on its way (e-1)", worked)


def test_without_a_message_it_is_no_call_of_the_library() -> None:
    """Whatever else is posted is refused."""
    import urllib.error
    import urllib.request

    with JsonService() as server, pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{server.url}/a", data=b"{}", timeout=30)  # noqa: S310 - our own
