"""Reports of mails that came back, as mail servers write them (RFC 3464 in a multipart/report, RFC 6522)."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import EmailMessage, Message
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.parser import BytesHeaderParser
from email.policy import SMTP
from http.client import HTTPConnection
from urllib.parse import urlsplit

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A mail that a server took. ``envelope_id``: the ENVID that it came with (RFC 3461)."""

    sender: str
    recipient: str
    message: bytes
    envelope_id: str = ""


def report(
    mail: Taken,
    *,
    action: str = "failed",
    status: str = "5.1.1",
    diagnostic: str = "550 5.1.1 user unknown",
    recipient: str = "",
) -> bytes:
    """What the server sends to the mail's return path. ``recipient``: whom it was really for, after forwarding."""
    told = MIMEMultipart("report")
    told.set_param("report-type", "delivery-status")
    told["From"] = "Mail Delivery System <mailer-daemon@stand-in.example>"
    told["To"] = mail.sender
    told["Subject"] = "Delivery status"
    told["Auto-Submitted"] = "auto-replied"
    told.attach(
        MIMEText("This is the mail system. See below what became of your mail.\n", _charset="us-ascii")
    )
    about, fate = Message(), Message()
    about["Reporting-MTA"] = "dns; stand-in.example"
    if mail.envelope_id:
        about["Original-Envelope-Id"] = mail.envelope_id
    fate["Original-Recipient"] = f"rfc822; {mail.recipient}"
    fate["Final-Recipient"] = f"rfc822; {recipient or mail.recipient}"
    fate["Action"] = action
    fate["Status"] = status
    if diagnostic:
        fate["Diagnostic-Code"] = f"smtp; {diagnostic}"
    facts = MIMEMessage(EmailMessage(), "delivery-status")
    facts.set_payload([about, fate])
    told.attach(facts)
    headers = BytesHeaderParser().parsebytes(mail.message)
    told.attach(MIMEText(headers.as_string().partition("\n\n")[0] + "\n\n", "rfc822-headers", "us-ascii"))
    return told.as_bytes(policy=SMTP)


def hand_in(url: str, mail: bytes) -> int:
    """Post it, as a mail server's pipe would do; the status of the answer, 0 if there was none."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request("POST", parts.path or "/", mail, {"Content-Type": "message/rfc822"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
