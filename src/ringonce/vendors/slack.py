"""A stand-in for Slack's incoming webhooks: plain words, and no message id.

Facts: api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks. An address is the path behind
``/services/``; all of them exist but those that are refused.

As a program: ``python -m ringonce.vendors.slack --refused T0/B0/x=channel_is_archived``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.vendors.bodies import document
from ringonce.vendors.chat import ChatApi, Said, plain, run

if TYPE_CHECKING:
    from ringonce.vendors.http import Call, Reply

_STATUS = {
    "invalid_payload": 400,
    "no_text": 400,
    "user_not_found": 400,
    "action_prohibited": 403,
    "invalid_token": 403,
    "channel_is_archived": 410,
    "rate_limited": 429,
    "rollup_error": 500,
}
_WORDS = {429: "rate_limited", 500: "rollup_error"}


class SlackHooks(ChatApi):
    """All webhooks of all workspaces."""

    def said(self, call: Call) -> Said:
        """The webhook's path, and the text."""
        return Said(call.path.removeprefix("/services/"), str(document(call).get("text", "")))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """Another path, no JSON object, no text."""
        if said.address.count("/") != 2:
            return plain(404, "no_team")
        if not document(call):
            return self.no("invalid_payload")
        return None if said.text else self.no("no_text")

    def taken(self, said: Said, number: int) -> Reply:
        """The word ``ok``, and nothing else."""
        return plain(200, "ok")

    def no(self, word: str) -> Reply:
        """A word with the status that goes with it."""
        return plain(_STATUS.get(word, 404), word)

    def fails(self, status: int) -> Reply:
        """A word for a status."""
        return plain(status, _WORDS.get(status, ""))


if __name__ == "__main__":
    run(SlackHooks, "A stand-in for Slack's incoming webhooks that fails as it is told.")
