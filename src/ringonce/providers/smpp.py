"""Short messages handed to an operator's or an aggregator's center (SMPP 3.4).

The center answers each with a status and an id, and reports later over the same connection what became of it. Nothing
makes a second send harmless, and each is billed. Statuses: SMPP 3.4 section 5.1.3 and python-smpplib/python-smpplib
``smpplib/consts.py``; reports: SMPP 3.4 appendix B, which is an example that most centers follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import unquote, urlsplit

import ringonce.provider as api
from ringonce.provider import OutcomeClass as To

_STATUS, _REPORT = "SMPP 3.4 section 5.1.3", "SMPP 3.4 appendix B"
_BIND = ("bind_transceiver_resp",)
_LONGEST_LIFE = 30 * 86_400  # seconds; beyond that the center's own limit comes first
# Lengths, flags, times, optional parameters, lists: what repeating it does not change.
_OURS = (
    *(
        0x01,
        0x02,
        0x06,
        0x07,
        0x0C,
        0x11,
        0x13,
        0x15,
        0x33,
        0x34,
        0x40,
        0x42,
        0x43,
        0x44,
        0x48,
        0x49,
        0x50,
        0x51,
    ),
    *(0x53, 0x54, 0x55, 0x61, 0x62, 0x63, 0x65, 0x66, 0x67, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4),
)


def _coded(name: str, cls: To, *codes: int, **more: object) -> api.Rule:
    """A response with one of these statuses."""
    return api.Rule(f"smpp.{name}", cls, _STATUS, status=codes, provider_code="json:code", **more)  # type: ignore[arg-type]


def _told(name: str, cls: To, states: str, source: str = _REPORT) -> api.Rule:
    """A report of one of these states."""
    more = {"text": f"^(?:{states})\\b", "provider_code": "text:err:(\\S+)"}
    return api.Rule(f"smpp.{name}", cls, source, stage=("deliver_sm",), **more)  # type: ignore[arg-type]


RULES: tuple[api.Rule, ...] = (
    _told("reported", To.ACCEPTED, "DELIVRD|ACCEPTD|ENROUTE"),
    _told(
        "undeliverable",
        To.INVALID_RECIPIENT,
        "UNDELIV",
        f"{_REPORT}; policy: no proof that the number is dead",
    ),
    _told("rejected", To.BLOCKED, "REJECTD"),
    _told("deleted", To.NOT_IMPLEMENTED, "DELETED"),
    _told("not_delivered", To.TRANSIENT, ".*"),
    api.Rule(
        "smpp.in_part",
        To.TRANSIENT,
        "policy: some parts were taken, so nobody can say what is shown",
        json={"in_part": True},
        ambiguous=True,
        provider_code="json:code",
    ),
    _coded("accepted", To.ACCEPTED, 0x00, stage=("submit_sm_resp",), message_id="json:message_id"),
    _coded("account", To.AUTH, 0x0D, 0x0E, 0x0F),
    _coded("system_type", To.AUTH, 0x53, stage=_BIND),
    _coded("limited", To.RATE_LIMITED, 0x58, scope="channel"),
    _coded("queue_full", To.RATE_LIMITED, 0x14),
    api.Rule(
        "smpp.not_bound",
        To.TRANSIENT,
        "policy: no message was handed in",
        stage=_BIND,
        provider_code="json:code",
    ),
    _coded("sender", To.AUTH, 0x0A, scope="sender"),
    _coded("no_such_number", To.INVALID_RECIPIENT, 0x0B, stage=("submit_sm_resp",), drop_address=True),
    _coded("command_absent", To.NOT_IMPLEMENTED, 0x03),
    _coded("refused", To.INVALID_PAYLOAD, *_OURS),
    _coded("failed", To.TRANSIENT, 0x04, 0x05, 0x08, 0x45, 0x64, 0xFE, 0xFF),
)


@dataclass(frozen=True)
class SmppOptions:
    """``url``: ``smpp://SYSTEM_ID:PASSWORD@HOST:2775``; ``smpps://`` over TLS.

    ``from``: a number with its country, a short code, or a name of up to eleven letters and digits; ``from_ton``,
    ``from_npi``: type of number and numbering plan, where the center wants others than the form tells (1 and 1 for a
    number, 3 and 0 for a short code, 5 and 0 for a name). ``to_ton``, ``to_npi``: those of recipients.
    ``system_type``, ``service_type``: if the center asks for them. ``long``: how a text of several parts goes:
    ``udh``, in parts, or ``payload``, in one piece that the center divides. ``max_segments``: how many short messages
    one may become; 0: any number. ``reports``: ask for reports of delivery. ``report_ids``: how they write the id of
    a message: ``same``; ``decimal``, where the response had it in hexadecimal; ``hexadecimal``, the other way round.
    ``sessions``: connections of each worker. ``window``: messages without an answer on each. ``enquire_link``:
    seconds of silence after which the center is asked whether it is there.
    """

    url: str = field(repr=False)
    from_: str
    from_ton: int = -1
    from_npi: int = -1
    to_ton: int = 1
    to_npi: int = 1
    system_type: str = ""
    service_type: str = ""
    long: str = "udh"
    max_segments: int = 0
    reports: bool = True
    report_ids: str = "same"
    sessions: int = 1
    window: int = 10
    enquire_link: int = 30


class Smpp(api.Provider):
    """Short messages."""

    name = "smpp"
    reaches = "phone"
    title = "SMS by SMPP 3.4"
    answers_as = ("smpp_dlr",)
    second_send = "shown again, billed"
    transport = "smpp"
    needs = "smpplib"
    receipts_by = "message_id"
    rules = RULES
    Options = SmppOptions

    def __init__(self, options: SmppOptions) -> None:
        """Check what can be checked. Raises ConfigError; its message never repeats the URL."""
        super().__init__(options)
        for name, least, most in _NUMBERS:
            if not least <= getattr(options, name) <= most:
                raise api.ConfigError("this is too much or too little", field=name, mend=f"{least} to {most}")
        for name, words in _WORDS.items():
            if getattr(options, name) not in words:
                raise api.ConfigError("unknown word", field=name, mend=f"one of {', '.join(words)}")
        for name, most in (("system_type", 12), ("service_type", 5)):
            if not re.fullmatch(f"[!-~]{{0,{most}}}", getattr(options, name)):
                raise api.ConfigError("this is none", field=name, mend=f"up to {most} letters and digits")
        self.center = _center(options)
        self._source = _source(options)

    @cached_property
    def account(self) -> str:
        """The system id at this center: its reports come for all senders together."""
        return f"smpp:{self.center.system_id}@{self.center.host}:{self.center.port}"

    def address(self, value: object) -> str:
        """A phone number with its country. Raises InputError."""
        return api.phone(value)

    def check(self, content: api.Content) -> None:
        """Refuse HTML alone, data, and what becomes more short messages than are allowed."""
        super().check(content)
        api.sms_text(content, most=self.options.max_segments)

    def request(self, message: api.Message, address: api.Address, context: api.Context) -> api.SmsRequest:
        """The short message, in one or several parts."""
        options = self.options
        text = api.sms_text(message.content, most=options.max_segments)
        made, number = api.segments(text), int(api.digest(message.reference), 16)
        joined = options.long == "payload" and len(made.parts) > 1
        parts = api.user_data(text, number, apart=not joined)
        return api.SmsRequest(
            self.center,
            self._source,
            (options.to_ton, options.to_npi, address.value.removeprefix("+")),
            parts,
            data_coding=0 if made.encoding == "gsm7" else 8,
            esm_class=0x40 if len(parts) > 1 else 0,
            payload=joined,
            report=options.reports,
            service_type=options.service_type,
            validity=_validity(message.expires_at, context.now),
            reference=number & 0xFFFF,
            timeout=context.timeout,
        )

    @classmethod
    def outcome(cls, answer: api.Answer, context: api.Context) -> api.Outcome:
        """The answer; of a report its state and error, for it quotes our text as well. An id has one spelling."""
        if isinstance(answer, api.SmsAnswer):
            told = _fields(answer.text) if answer.command == "deliver_sm" else {}
            text = (
                f"{told.get('stat', '')} err:{told.get('err', '')}" if answer.command == "deliver_sm" else ""
            )
            answer = replace(answer, message_id=_spelling(answer.message_id), text=text)
        return super().outcome(answer, context)

    def hears(self) -> api.SmsCenter | None:
        """The sessions that messages go over, if reports are asked for."""
        return self.center if self.options.reports else None

    def heard(self, delivered: api.SmsDelivered, context: api.Context) -> tuple[api.Report, ...]:
        """What a report says of its message. UNKNOWN says nothing, and a person's message is no report."""
        told = _fields(delivered.text)
        state = told["stat"] or _STATES.get(delivered.state or 0, "")
        id_ = self._id(told.get("id", ""), delivered.receipted_id)
        if delivered.esm_class & 0x3C not in _REPORTS or state not in _KINDS or not id_:
            return ()
        kind, outcome = _KINDS[state], None
        if kind is api.ReportKind.FAILED:
            said = f"stat:{state} err:{told.get('err', '')}"
            outcome = self.outcome(api.SmsAnswer(0, "deliver_sm", text=said), context)
        return (api.Report(kind, message_id=_spelling(id_), outcome=outcome),)

    def _id(self, written: str, receipted: str) -> str:
        """The id as the response has spelled it. The optional parameter is meant to be that; some centers differ."""
        form = self.options.report_ids
        if form == "decimal" and written.isascii() and written.isdigit():
            return f"{int(written):x}"
        if form == "hexadecimal" and re.fullmatch("[0-9A-Fa-f]+", written):
            return str(int(written, 16))
        return receipted or written


_REPORTS = (0x04, 0x20)  # a receipt, an intermediate notification: SMPP 3.4 section 5.2.12
_STATES = {1: "ENROUTE", 2: "DELIVRD", 3: "EXPIRED", 4: "DELETED", 5: "UNDELIV", 6: "ACCEPTD", 8: "REJECTD"}
_KINDS = {
    "DELIVRD": api.ReportKind.DELIVERED,
    **dict.fromkeys(("ENROUTE", "ACCEPTD"), api.ReportKind.SENT),
    **dict.fromkeys(("EXPIRED", "DELETED", "UNDELIV", "REJECTD"), api.ReportKind.FAILED),
}
_NUMBERS = (
    *(("from_ton", -1, 6), ("from_npi", -1, 18), ("to_ton", 0, 6), ("to_npi", 0, 18)),
    *(("sessions", 1, 16), ("window", 1, 1_000), ("enquire_link", 1, 3_600), ("max_segments", 0, 255)),
)
_WORDS = {"long": ("udh", "payload"), "report_ids": ("same", "decimal", "hexadecimal")}
_FIELD = re.compile(r"\b(id|stat|err):\s*(\S+)", re.IGNORECASE)


def _fields(report: str) -> dict[str, str]:
    """What the text of a report says before it quotes ours. Names are lower case, the state is upper case."""
    told = {
        name.lower(): value for name, value in _FIELD.findall(re.split(r"(?i)\btext:", report, maxsplit=1)[0])
    }
    return told | {"stat": told.get("stat", "").upper()}


def _spelling(id_: str) -> str:
    """Centers fill numbers up with zeros and change their case between the response and the report."""
    return id_.lower().lstrip("0") or "0" if re.fullmatch("[0-9A-Fa-f]+", id_) else id_.strip()


def _validity(expires_at: int | None, now: int) -> str:
    """The time that is left, as SMPP 3.4 section 7.1.1.2 writes it (relative: no clock has to agree)."""
    if expires_at is None:
        return ""
    left = min(max((expires_at - now) // 1_000_000, 1), _LONGEST_LIFE)
    days, rest = divmod(left, 86_400)
    return f"0000{days:02}{rest // 3_600:02}{rest // 60 % 60:02}{rest % 60:02}000R"


def _center(options: SmppOptions) -> api.SmsCenter:
    mend = "write smpp://SYSTEM_ID:PASSWORD@HOST:2775"
    try:
        parts = urlsplit(options.url.strip())
        port = parts.port or 2775
    except ValueError:
        raise api.ConfigError("this is no URL", field="url", mend=mend) from None
    rest = (parts.path.strip("/"), parts.query, parts.fragment)
    if parts.scheme not in {"smpp", "smpps"} or not parts.hostname or any(rest):
        raise api.ConfigError("this is no URL of a center", field="url", mend=mend)
    known = (unquote(parts.username or ""), unquote(parts.password or ""))
    for value, longest, what in zip(known, (15, 8), ("system id", "password"), strict=True):
        if not re.fullmatch(f"[ -~]{{1,{longest}}}", value):
            trouble = f"the {what} must have 1 to {longest} visible characters (SMPP 3.4 section 4.1.1)"
            raise api.ConfigError(trouble, field="url", mend=mend)
    return api.SmsCenter(
        parts.hostname,
        port,
        parts.scheme == "smpps",
        *known,
        system_type=options.system_type,
        sessions=options.sessions,
        window=options.window,
        enquire_link=float(options.enquire_link),
    )


def _source(options: SmppOptions) -> tuple[int, int, str]:
    sender = options.from_.strip()
    if re.fullmatch(r"\+[1-9][0-9]{6,14}", sender):
        ton, npi, sender = 1, 1, sender[1:]
    elif re.fullmatch("[0-9]{3,8}", sender):
        ton, npi = 3, 0
    elif not sender.isdigit() and re.fullmatch("[A-Za-z0-9][A-Za-z0-9 ._&-]{0,10}", sender):
        ton, npi = 5, 0
    else:
        mend = "a number as +447700900123, a short code of up to eight digits, or up to eleven letters and digits"
        raise api.ConfigError("this can not be a sender", field="from", mend=mend)
    asked = (options.from_ton, options.from_npi)
    return (ton if asked[0] < 0 else asked[0], npi if asked[1] < 0 else asked[1], sender)
