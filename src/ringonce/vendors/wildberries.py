"""A stand-in for Wildberries' feedbacks and questions: answers are published, can be read, and changed once.

Facts: eslazarev/wildberries-sdk ``specs/09-communications.yaml``. A feedback's id is not looked at (204 all the same),
a question's is. A PATCH changes the published answer, once. What a second POST of an answer does is not documented:
here it uses up the only change, so that a test sees it, and a third is ignored.

As a program: ``python -m ringonce.vendors.wildberries --token t --feedback f1 --question q1 --fault 503:first=9``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ringonce.vendors.bodies import document, reply
from ringonce.vendors.http import Call, HttpStandIn, Reply
from ringonce.vendors.standin import arguments, common

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.vendors.script import Fault

SHORTEST, LONGEST = 2, 5_000
WAIT = "X-Ratelimit-Retry"


class WildberriesApi(HttpStandIn):
    """Knows one seller. In a plan, the stage ``read`` is the reading of what is published.

    Args:
        token: the seller's.
        feedbacks: ids of feedbacks.
        questions: ids of questions.
        more: see StandIn.
    """

    def __init__(
        self, token: str, *, feedbacks: Collection[str] = (), questions: Collection[str] = (), **more: Any
    ) -> None:
        super().__init__(**more)
        self._token = token
        self._ids = {"feedback": set(feedbacks), "question": set(questions)}
        self.answers: dict[tuple[str, str], str] = {}
        """What is published: by kind and id."""
        self.published: Counter[tuple[str, str]] = Counter()
        """How often it was: 1 is the answer, 2 the only change."""
        self.changed: set[tuple[str, str]] = set()
        """Those that were changed as it is done: a feedback's answer by PATCH, a question's as it was given."""

    def stage(self, call: Call) -> str:
        """``read`` for the reading of what is published."""
        return "read" if call.method == "GET" else ""

    def identify(self, call: Call) -> tuple[str, str]:
        """The text, for there is no reference, and what is answered."""
        kind, id_, text = _told(call)
        return text, f"{kind}:{id_}"

    def respond(self, call: Call) -> Reply:
        """What the API says."""
        if call.headers.get("authorization") != self._token:
            return _problem(401, "unauthorized")
        kind, id_, text = _told(call)
        if not kind:
            return Reply(404, b"<html>404</html>", (("Content-Type", "text/html"),))
        if call.method == "GET":
            return self._read(kind, id_)
        if not SHORTEST <= len(text) <= LONGEST:
            return _said(400, "the text has no good length")
        known = id_ in self._ids[kind]
        if kind == "question" and not known:
            return _said(404, "there is no such question")
        times = self.published[kind, id_]
        edits = kind == "feedback" and call.method == "PATCH"
        taken = known and (times == 1 if edits else times < 2)
        if taken:
            self.published[kind, id_] += 1
            self.answers[kind, id_] = text
            if times and call.method == "PATCH":
                self.changed.add((kind, id_))
        return _said(200, accepted=taken) if kind == "question" else Reply(204, accepted=taken)

    def refusal(self, fault: Fault) -> Reply:
        """An error as the API words it; its wait has a header of its own."""
        if fault.body is not None:
            return Reply(fault.status, fault.body, fault.headers)
        reply_ = _problem(fault.status, "refused")
        headers = tuple((WAIT if name == "Retry-After" else name, value) for name, value in fault.headers)
        return Reply(fault.status, reply_.body, (*reply_.headers, *headers))

    def _read(self, kind: str, id_: str) -> Reply:
        if id_ not in self._ids[kind]:
            return _said(422, f"there is no such {kind}")
        text = self.answers.get((kind, id_))
        answer = None if text is None else {"text": text, "editable": self.published[kind, id_] < 2}
        return _said(200, data={"id": id_, "answer": answer})


def _told(call: Call) -> tuple[str, str, str]:
    """Kind, id and text of a call; no kind: another path."""
    url = urlsplit(call.path)
    if call.method == "GET":
        kind = {"/api/v1/feedback": "feedback", "/api/v1/question": "question"}.get(url.path, "")
        return kind, parse_qs(url.query).get("id", [""])[-1], ""
    body = document(call)
    id_ = str(body.get("id", ""))
    if call.method in {"POST", "PATCH"} and url.path == "/api/v1/feedbacks/answer":
        return "feedback", id_, str(body.get("text", ""))
    if (call.method, url.path) == ("PATCH", "/api/v1/questions"):
        answer = body.get("answer")
        return "question", id_, str(answer.get("text", "")) if isinstance(answer, dict) else ""
    return "", id_, ""


def _said(status: int, trouble: str = "", *, data: object = None, accepted: bool = False) -> Reply:
    body = {"data": data, "error": bool(trouble), "errorText": trouble, "additionalErrors": None}
    return reply(status, body, accepted=accepted)


def _problem(status: int, title: str) -> Reply:
    return reply(status, {"title": title, "detail": "", "status": status, "statusText": title})


def main() -> None:
    """Run as a program."""
    parser = arguments("A stand-in for Wildberries' feedbacks and questions that fails as it is told.")
    parser.add_argument("--token", required=True)
    parser.add_argument("--feedback", action="append", default=[], metavar="ID")
    parser.add_argument("--question", action="append", default=[], metavar="ID")
    options = parser.parse_args()
    WildberriesApi(
        options.token, feedbacks=options.feedback, questions=options.question, **common(options)
    ).run_until_stopped()


if __name__ == "__main__":
    main()
