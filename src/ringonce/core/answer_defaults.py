"""What answers mean when no provider's rule knows better: the defaults of the status families.

None of them drops an address: only a provider that knows its vendor's words can tell that one is dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.answer_rule import Rule
from ringonce.model.exchange import Fault
from ringonce.model.outcome import OutcomeClass

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACCEPTED = OutcomeClass.ACCEPTED
_TRANSIENT = OutcomeClass.TRANSIENT
_LIMITED = OutcomeClass.RATE_LIMITED
_RECIPIENT = OutcomeClass.INVALID_RECIPIENT
_PAYLOAD = OutcomeClass.INVALID_PAYLOAD
_AUTH = OutcomeClass.AUTH
_ABSENT = OutcomeClass.NOT_IMPLEMENTED

JSON_API: tuple[Rule, ...] = (
    Rule(
        "json_api.foreign_page",
        _TRANSIENT,
        "policy: a page on 2xx is a proxy's or a captive portal's",
        status=range(200, 300),
        form=("page",),
    ),
    Rule(
        "json_api.no_verdict",
        _TRANSIENT,
        "policy: 2xx without the promised JSON says nothing",
        status=range(200, 300),
        ambiguous=True,
    ),
)
"""For a provider whose success is a JSON body: put them behind the rule that recognises success."""

_HTTP: tuple[Rule, ...] = (
    Rule(
        "http.informational",
        _TRANSIENT,
        "RFC 9110 section 15.2: never a final answer",
        status=range(100, 200),
    ),
    Rule("http.success", _ACCEPTED, "RFC 9110 section 15.3", status=range(200, 300)),
    Rule("http.redirect", _TRANSIENT, "policy: a redirect is never followed", status=range(300, 400)),
    Rule("http.unauthorized", _AUTH, "RFC 9110 sections 15.5.2 to 15.5.4", status=(401, 402, 403)),
    Rule("http.proxy", _AUTH, "RFC 9110 section 15.5.8: our own proxy asks for credentials", status=407),
    Rule("http.request_timeout", _TRANSIENT, "RFC 9110 section 15.5.9", status=408),
    Rule(
        "http.wrong_place",
        _AUTH,
        "policy: a 404 without JSON is a wrong URL, not a recipient",
        status=404,
        form=("page", "other"),
    ),
    Rule("http.not_found", _RECIPIENT, "policy: unknown, but no proof that the address is dead", status=404),
    Rule(
        "http.gone", _RECIPIENT, "policy: gone, but no proof that the address is", status=410, form=("json",)
    ),
    Rule("http.too_many_requests", _LIMITED, "RFC 6585 section 4", status=429),
    Rule(
        "http.bad_request",
        _PAYLOAD,
        "RFC 9110 section 15.5: repeating it changes nothing",
        status=(400, 405, 406, 411, 413, 414, 415, 422, 431),
    ),
    Rule(
        "http.client_error",
        _TRANSIENT,
        "policy: an unknown 4xx is retried a bounded number of times",
        status=range(400, 500),
    ),
    Rule("http.not_implemented", _ABSENT, "RFC 9110 section 15.6.2", status=501),
    Rule(
        "http.gateway_timeout",
        _TRANSIENT,
        "RFC 9110 section 15.6.5: the upstream may have acted",
        status=504,
        ambiguous=True,
    ),
    Rule("http.server_error", _TRANSIENT, "RFC 9110 section 15.6", status=range(500, 600)),
    Rule("http.no_status", _TRANSIENT, "policy: no HTTP status at all, so nothing is known", ambiguous=True),
)

_DATA_END = ("DATA_END",)
_MAIL: tuple[Rule, ...] = (
    Rule(
        "mail.quit",
        _ACCEPTED,
        "RFC 5321 section 4.1.1.10: the message was accepted before",
        status=range(1000),
        stage=("QUIT",),
    ),
    Rule("mail.accepted", _ACCEPTED, "RFC 5321 section 4.2.5", status=250, stage=_DATA_END),
    Rule("mail.transient", _TRANSIENT, "RFC 5321 section 4.2.1: 4yz", status=range(400, 500)),
    Rule("mail.permanent", _PAYLOAD, "RFC 5321 section 4.2.1: 5yz", status=range(500, 600)),
    Rule(
        "mail.odd_verdict",
        _TRANSIENT,
        "policy: an unknown reply to the whole message says nothing",
        stage=_DATA_END,
        ambiguous=True,
    ),
    Rule("mail.odd_reply", _TRANSIENT, "policy: an unknown reply before the message was handed over"),
)

_SMPP = "SMPP 3.4 section 5.1.3"
_SMS: tuple[Rule, ...] = (
    Rule(
        "sms.in_part",
        _TRANSIENT,
        "policy: some parts were taken, so nobody can say what is shown",
        json={"in_part": True},
        ambiguous=True,
        provider_code="json:code",
    ),
    Rule(
        "sms.accepted",
        _ACCEPTED,
        f"{_SMPP}: ESME_ROK",
        status=0,
        stage=("submit_sm_resp",),
        message_id="json:message_id",
    ),
    Rule(
        "sms.refused",
        _TRANSIENT,
        "policy: an unknown status is retried a bounded number of times",
        provider_code="json:code",
    ),
)

_LIBRARY: tuple[Rule, ...] = (
    Rule("library.done", _ACCEPTED, "policy: the library says so", step="done"),
    Rule(
        "library.not_made",
        _PAYLOAD,
        "policy: the library made nothing of the arguments, and nothing was called",
        step="not made",
    ),
    Rule("library.not_done", _TRANSIENT, "policy: the library says that it failed, and not why"),
)

_SCRIPT: tuple[Rule, ...] = (
    Rule("script.unknown_step", _ABSENT, "policy: the script says something that the sandbox does not know"),
)

_NONE: tuple[Rule, ...] = (
    Rule(
        "fault.certificate",
        _AUTH,
        "policy: whom we talk to is not who it claims to be; nothing was sent",
        fault=(Fault.TLS_CERT_INVALID,),
        scope="endpoint",
    ),
    Rule(
        "fault.address_refused",
        _RECIPIENT,
        "policy: the endpoint is in a network that ringonce must not call",
        fault=(Fault.ADDRESS_REFUSED,),
    ),
    Rule("fault.not_sent", _TRANSIENT, "policy: nothing reached the provider", sent=False),
    Rule(
        "fault.unknown",
        _TRANSIENT,
        "policy: it may have been accepted, no verdict came",
        sent=True,
        ambiguous=True,
    ),
)

DEFAULTS: Mapping[str, tuple[Rule, ...]] = {
    "http": _HTTP,
    "mail": _MAIL,
    "sms": _SMS,
    "library": _LIBRARY,
    "script": _SCRIPT,
    "none": _NONE,
}
"""By kind of answer; the last of each holds for whatever is left."""
