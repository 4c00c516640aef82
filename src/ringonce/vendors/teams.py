"""A stand-in for the workflows behind Microsoft Teams: 202 before anything is posted.

Facts: learn.microsoft.com/azure/connectors/connectors-native-reqres. An address is the webhook's whole URL; all of
them exist but those that are refused. A refusal's word is the workflow's error code.

As a program: ``python -m ringonce.vendors.teams --port 8025 --refused http://127.0.0.1:8025/a=WorkflowNotFound``.
"""

from __future__ import annotations

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.chat import ChatApi, Said, run
from ringonce.vendors.http import Call, Reply

_STATUS = {"WorkflowNotFound": 404, "DirectApiAuthorizationRequired": 401}


class TeamsFlows(ChatApi):
    """All workflows of all tenants."""

    def said(self, call: Call) -> Said:
        """The URL, and the card's lines."""
        return Said(f"{self.url}{call.path}", "\n".join(_lines(document(call))))

    def wrong(self, call: Call, said: Said) -> Reply | None:
        """A body that the trigger's schema does not know."""
        return None if said.text.strip() else self.no("TriggerInputSchemaMismatch")

    def taken(self, said: Said, number: int) -> Reply:
        """Accepted, with the run's id in a header."""
        return Reply(202, headers=(("x-ms-workflow-run-id", f"{number:032d}CU00"),))

    def no(self, word: str) -> Reply:
        """An error by its code."""
        return reply(
            _STATUS.get(word, 400), {"error": {"code": word, "message": f"{word}: state 'Disabled'"}}
        )

    def fails(self, status: int) -> Reply:
        """An error by its status."""
        return reply(status, {"error": {"code": str(status), "message": ""}})


def _lines(body: dict[str, object]) -> list[str]:
    """The texts of a card, wherever they are."""
    found: list[str] = []
    queue: list[object] = [body.get("attachments")]
    while queue:
        node = queue.pop(0)
        if isinstance(node, dict):
            text = node.get("text")
            found += [text] if isinstance(text, str) else []
            queue = [*node.values(), *queue]
        elif isinstance(node, list):
            queue = [*node, *queue]
    return found


if __name__ == "__main__":
    run(TeamsFlows, "A stand-in for the workflows behind Microsoft Teams that fails as it is told.")
