"""Wildberries' seller API: the public answer to a customer's feedback or question.

Facts: eslazarev/wildberries-sdk ``specs/09-communications.yaml``; dev.wildberries.ru. A feedback is answered by POST, a
question by PATCH. An answer can be changed once within 60 days, both by PATCH. A second send may use that up: after a
doubt what stands there is read first. That a feedback exists is not looked at: 204 says no more than that the call was
well formed.

What is read back is the answer's text, in whatever state it is (``none``, ``reviewRequired``, ``wbRu``, ``rejected``:
answers are moderated, and one that was rejected had arrived as well). Unconfirmed: whether a question's answer can be
read while it is moderated, and whether white space around a text is kept.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

_SPEC = "eslazarev/wildberries-sdk specs/09-communications.yaml"
_WAIT = ("header:x-ratelimit-retry",)
_SHORTEST, _LONGEST = 2, 5_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS = ("feedback", "question")

RULES: tuple[api.Rule, ...] = (
    api.Rule("wildberries.taken", To.ACCEPTED, _SPEC, status=204),
    api.Rule("wildberries.answered", To.ACCEPTED, _SPEC, status=200, json={"error": False}),
    api.Rule(
        "wildberries.refused", To.INVALID_PAYLOAD, _SPEC, status=(200, 400, 413, 422), json={"error": True}
    ),
    *api.JSON_API,
    api.Rule("wildberries.conflict", To.INVALID_PAYLOAD, _SPEC, status=409),
    api.Rule("wildberries.gone", To.INVALID_RECIPIENT, _SPEC, status=404, json={"error": True}),
    # The limit is the seller's, for all methods of feedbacks and questions together.
    api.Rule("wildberries.limited", To.RATE_LIMITED, _SPEC, status=429, retry_after=_WAIT, scope="channel"),
    api.Rule(
        "wildberries.failed",
        To.TRANSIENT,
        "policy: it may have been published; a repeat may use up the only change",
        status=range(500, 600),
        ambiguous=True,
    ),
)


@dataclass(frozen=True)
class WildberriesOptions:
    """``token``: of the category feedbacks and questions. ``base_url``: of the sandbox or of a stand-in."""

    token: str = field(repr=False)
    base_url: str = "https://feedbacks-api.wildberries.ru"


class Wildberries(api.Provider):
    """Answers to feedbacks and questions."""

    name = "wildberries"
    title = "Wildberries feedbacks and questions"
    features = api.Features(title=False, max_text=_LONGEST)
    in_doubt = api.InDoubt.LOOKUP
    looks_up = True
    edits = api.Edits(1, 60 * api.DAY)
    second_send = "may use up the only change"
    rules = tuple(replace(rule, provider_code="json:errorText") for rule in RULES)
    Options = WildberriesOptions

    def __init__(self, options: WildberriesOptions) -> None:
        """Check token and URL. Raises ConfigError; its message never repeats the token."""
        super().__init__(options)
        if not re.fullmatch(r"[!-~]{1,4096}", options.token):
            raise api.ConfigError("this is no token", field="token", mend="copy it from the seller's portal")
        self._url = api.http_url(options.base_url, "base_url")
        self._headers = (
            ("content-type", "application/json"),
            ("user-agent", "ringonce"),
            ("authorization", options.token),
        )

    @cached_property
    def account(self) -> str:
        """A digest of the token, which is of one seller."""
        return f"wildberries:{sha256(self.options.token.encode()).hexdigest()[:8]}"

    def address(self, value: object) -> str:
        """``{"feedback": id}`` or ``{"question": id}``, or as text ``feedback:id``. Raises InputError."""
        if isinstance(value, dict) and len(value) == 1:
            kind, id_ = next(iter(value.items()))
        else:
            kind, _, id_ = value.strip(" ").partition(":") if isinstance(value, str) else ("", "", "")
        if kind not in _KINDS or not isinstance(id_, str) or not _ID.fullmatch(id_):
            mend = 'give {"feedback": "…"} or {"question": "…"} with its id'
            raise api.InputError("this is neither a feedback nor a question", field="address", mend=mend)
        return f"{kind}:{id_}"

    def check(self, content: api.Content) -> None:
        """Refuse titles, HTML alone, data, and texts of less than 2 or more than 5,000 characters."""
        super().check(content)
        if len((content.text or "").strip()) < _SHORTEST:
            raise api.InputError(
                "an answer has at least two characters", field="content.text", mend="say more"
            )

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.HttpRequest:
        """The call that publishes the answer, or changes the published one."""
        kind, _, id_ = address.value.partition(":")
        said: dict[str, object] = {"text": message.content.text}
        method, path = "PATCH" if message.replaces else "POST", "/api/v1/feedbacks/answer"
        if kind == "question":
            method, path, said = "PATCH", "/api/v1/questions", {"answer": said, "state": "wbRu"}
        body = api.json_bytes({"id": id_, **said}, "content.text")
        return api.HttpRequest(method, self._url + path, self._headers, body, context.timeout)

    def lookup(self, message: api.Message, address: api.Address, context: api.Context) -> api.HttpRequest:
        """The call that reads the feedback or the question with its answer."""
        kind, _, id_ = address.value.partition(":")
        return api.HttpRequest(
            "GET", f"{self._url}/api/v1/{kind}?id={id_}", self._headers, timeout=context.timeout
        )

    @classmethod
    def looked(
        cls, answer: api.Answer, message: api.Message, context: api.Context
    ) -> api.Finding | api.Outcome:
        """Our text stands there, nothing does, or another text: that one a second send could replace."""
        outcome = cls.outcome(answer, context)
        if outcome.cls is not To.ACCEPTED or not isinstance(answer, api.HttpAnswer):
            return outcome
        read = _data(answer.body)
        if "answer" not in read:
            return api.Finding(
                api.Presence.UNSURE, text="the reading shows neither a feedback nor a question"
            )
        said = read["answer"]
        text = said.get("text") if isinstance(said, dict) else said
        if not text:
            return api.Finding(api.Presence.ABSENT)
        if isinstance(text, str) and _bare(text) == _bare(message.content.text or ""):
            return api.Finding(api.Presence.ARRIVED)
        return api.Finding(api.Presence.UNSURE, text="another answer stands there")


def _data(body: bytes) -> dict[str, object]:
    """What a reading shows."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    read = told.get("data") if isinstance(told, dict) else None
    return read if isinstance(read, dict) else {}


def _bare(text: str) -> str:
    """Without what a form may add or take away around a text: the words decide."""
    return text.replace("\r\n", "\n").strip()
