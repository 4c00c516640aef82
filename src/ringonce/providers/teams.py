"""Microsoft Teams: one call to a workflow's webhook posts one card into a channel or chat.

Facts: https://learn.microsoft.com/connectors/teams (28 KB a message) and
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook; a
workflow answers 202 before it has posted anything, and nothing tells what became of it. The older connectors answer
200 whatever happened, with the failure in words. The URL is address and credential at once, so what is wrong with
it concerns nobody else. Nothing makes a second send harmless.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ringonce.provider import (
    Address,
    Content,
    Context,
    Features,
    HttpRequest,
    InputError,
    Message,
    OutcomeClass,
    PayloadTooLarge,
    Provider,
    Rule,
    http_url,
    json_call,
    together,
)

_LARGEST = 28_000
# Workflows, their older URLs, and the connectors before them; also those of national clouds.
_HOSTS = re.compile(
    r"(?:[a-z0-9-]+\.)+(?:api\.powerplatform\.(?:com|us|cn)|logic\.azure\.(?:com|us|cn)|webhook\.office(?:365)?\.com)"
    r"|outlook\.office(?:365)?\.com"
)
_FLOW = "learn.microsoft.com/troubleshoot/power-platform/power-automate, trigger errors"
_WRAPPED = "github.com/MicrosoftDocs/msteams-docs/issues/1810: connectors wrap each failure in a 200"
_OWN_FAULT = "policy: the URL itself is refused; others are not concerned"
_OFF = "WorkflowTriggerIsNotEnabled"
_IR, _IP, _A = OutcomeClass.INVALID_RECIPIENT, OutcomeClass.INVALID_PAYLOAD, OutcomeClass.AUTH


def _wrapped(name: str, cls: OutcomeClass, code: str, **then: Any) -> Rule:
    """A connector's 200 that is none."""
    text = rf"returned HTTP error {code}\b"
    found = r"text:HTTP error (\d+)"
    return Rule(f"teams.{name}", cls, _WRAPPED, status=200, text=text, provider_code=found, **then)


def _flow(name: str, cls: OutcomeClass, code: str, text: str = "", **then: Any) -> Rule:
    """A workflow's own error."""
    said = {"error.code": code}
    return Rule(
        f"teams.{name}",
        cls,
        _FLOW,
        status=range(400, 500),
        json=said,
        text=text,
        provider_code="json:error.code",
        **then,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "teams.accepted",
        OutcomeClass.ACCEPTED,
        "learn.microsoft.com/azure/connectors/connectors-native-reqres: 202, and the run goes on",
        status=202,
        message_id="header:x-ms-workflow-run-id",
    ),
    _wrapped("wrapped_limit", OutcomeClass.RATE_LIMITED, "429", scope="address"),
    _wrapped("wrapped_message", _IP, "4(?:00|13)"),
    _wrapped("wrapped_refusal", _A, "40[13]", scope="endpoint"),
    _wrapped("wrapped_gone", _IR, "4(?:04|10)"),
    Rule(
        "teams.wrapped_failure",
        OutcomeClass.TRANSIENT,
        _WRAPPED,
        status=200,
        text="message delivery failed with error",
    ),
    Rule(
        "teams.foreign_page",
        OutcomeClass.TRANSIENT,
        "policy: a page on 2xx is a proxy's or a captive portal's",
        status=range(200, 300),
        form=("page",),
    ),
    _flow("deleted", _IR, _OFF, r"state '?Deleted", drop_address=True),
    _flow("switched_off", OutcomeClass.BLOCKED, _OFF),
    _flow("not_found", _IR, "WorkflowNotFound", drop_address=True),
    _flow("needs_sign_in", _A, "DirectApiAuthorizationRequired", scope="endpoint"),
    Rule("teams.refused", _A, _OWN_FAULT, status=(401, 403), scope="endpoint"),
    Rule("teams.gone", _IR, _OWN_FAULT, status=(404, 410)),
    Rule("teams.limited", OutcomeClass.RATE_LIMITED, "RFC 6585 section 4", status=429, scope="address"),
)


@dataclass(frozen=True)
class TeamsOptions:
    """``base_url``: where addresses have to begin instead of at Microsoft's hosts; of a server that stands in."""

    base_url: str = ""


class Teams(Provider):
    """Cards into channels and chats."""

    name = "teams"
    title = "Microsoft Teams (workflows)"
    features = Features(max_bytes=_LARGEST)
    rules = RULES
    endpoints = True
    Options = TeamsOptions

    def __init__(self, options: TeamsOptions) -> None:
        """Check the URL. Raises ConfigError."""
        super().__init__(options)
        usual = "https://….api.powerplatform.com, or leave it out"
        self._base = f"{http_url(options.base_url, 'base_url', usual=usual)}/" if options.base_url else ""

    def address(self, value: object) -> str:
        """A webhook's URL, as the workflow shows it. Raises InputError; its message never repeats the URL."""
        text = value.strip(" ") if isinstance(value, str) else ""
        if re.fullmatch(r"[\x21-\x7e]{1,2048}", text) and "#" not in text:
            if self._base:
                if text.startswith(self._base):
                    return text
            elif (url := _microsoft(text)) is not None:
                return url
        raise InputError(
            "a Teams address is the URL of a workflow's webhook",
            field="address",
            mend=f"give {self._base or 'https://….api.powerplatform.com/'}…; copy it from the workflow's trigger",
        )

    def check(self, content: Content) -> None:
        """Refuse HTML alone, data, and a card of more than 28,000 bytes."""
        super().check(content)
        _card(content)

    def request(self, message: Message, address: Address, context: Context) -> HttpRequest:
        """The call. The texts are shown as they are: a text run knows no markup and no mentions."""
        return json_call(address.value, _card(message.content), context.timeout, guarded=True)


def _microsoft(text: str) -> str | None:
    """The URL with its host in lower case, if it is https and one of Microsoft's."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    known = parts.scheme == "https" and parts.username is None and port in {None, 443}
    if not known or not _HOSTS.fullmatch(parts.hostname or "") or len(parts.path) < 2:
        return None
    return parts._replace(netloc=parts.netloc.lower()).geturl()


def _card(content: Content) -> dict[str, object]:
    """An Adaptive Card: the title in bold, then a block for each line. Raises PayloadTooLarge."""
    together(content)
    blocks = [_block(content.title, weight="Bolder", size="Medium")] if content.title else []
    for number, line in enumerate((content.text or "").splitlines()):
        more = {"spacing": "None"} if number and line.strip() else {}
        blocks.append(_block(line if line.strip() else " ", **more))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    message: dict[str, object] = {"type": "message", "attachments": [{"contentType": kind, "content": card}]}
    size = len(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode())
    if size > _LARGEST:
        raise PayloadTooLarge(
            f"the card has {size} bytes, and a message carries {_LARGEST}",
            field="content.text",
            mend="shorten it",
        )
    return message


def _block(text: str, *, weight: str = "", size: str = "", **block: str) -> dict[str, object]:
    style = {name: value for name, value in (("weight", weight), ("size", size)) if value}
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}], **block}
