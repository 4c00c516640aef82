"""A stand-in for the JSON service of Apprise: whatever is posted to any path is taken.

Facts: caronc/apprise ``plugins/custom_json.py``. An address is the path.

As a program: ``python -m ringonce.vendors.apprise --port 8025 --refused /a=403``; the address is then
``json://127.0.0.1:8025/a``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.vendors.bodies import document
from ringonce.vendors.chat import ChatApi, Said, plain, run

if TYPE_CHECKING:
    from ringonce.vendors.http import Call, Reply


class JsonService(ChatApi):
    """All addresses exist but those that are refused; a refusal's word is its status."""

    def said(self, call: Call) -> Said:
        """The path, and the message."""
        return Said(call.path, str(document(call).get("message", "")))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """No message."""
        return None if said.text else plain(400, "no message")

    def taken(self, said: Said, number: int) -> Reply:
        """Taken."""
        return plain(200, "ok")

    def no(self, word: str) -> Reply:
        """A status."""
        return plain(int(word), "refused")

    def fails(self, status: int) -> Reply:
        """A status."""
        return plain(status, "")


if __name__ == "__main__":
    run(JsonService, "A stand-in for the JSON service of Apprise that fails as it is told.")
