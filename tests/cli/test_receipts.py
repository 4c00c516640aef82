"""Mails that came back, at the command line of a mail server's pipe."""

from pathlib import Path

import pytest

from ringonce.core import verp
from ringonce.vendors.dsn import Taken, report
from tests.cli.conftest import Ring

SECRET = "a secret of some length"
ID = "018f2f6e-1111-7222-8333-444455556666"
MAIL = Taken(f"bounces+{verp.tag(ID, SECRET)}@shop.example", "bob@example.com", b"Subject: x\r\n\r\n")


@pytest.fixture(autouse=True)
def channel(folder: Path) -> None:
    """One that takes bounces."""
    (folder / "ringonce.toml").write_text(
        '[channels.email]\nprovider = "smtp"\nurl = "smtp://127.0.0.1:1"\nfrom = "shop@shop.example"\n'
        f'bounces = "bounces@shop.example"\nbounces_secret = "{SECRET}"\n',
        encoding="utf-8",
    )


def test_a_report_from_standard_input_or_a_file(ring: Ring, folder: Path) -> None:
    """The report is taken and told what became of it; another mail is nothing; both are success for the pipe."""
    done = ring("receipts", "take", "email", "-", stdin=report(MAIL))
    assert (done.code, done.out) == (0, "1 unknown\n")
    (folder / "mail").write_bytes(b"To: <%b>\r\n\r\nI am away.\r\n" % MAIL.sender.encode())
    assert ring("receipts", "take", "email", str(folder / "mail"), "--json").json == {"reports": {}}
    assert ring("receipts", "take", "email", str(folder / "mail")).out == "nothing that is reported\n"


def test_what_a_pipe_must_know(ring: Ring, folder: Path) -> None:
    """A forged report fails, an unknown channel is not found, a missing file is a usage error."""
    forged = ring(
        "receipts", "take", "email", stdin=report(Taken("bounces@shop.example", "b@example.com", b""))
    )
    assert forged.code == 1
    assert "forged" in forged.err
    assert ring("receipts", "take", "other", stdin=b"").code == 3
    assert ring("receipts", "take", "email", str(folder / "none")).code == 2


def test_a_database_that_is_away_lets_the_mail_wait(ring: Ring, folder: Path) -> None:
    """EX_TEMPFAIL: the mail server keeps the mail and comes again."""
    (folder / "ringonce.db").write_bytes(b"this is no database, and long enough to be looked at" * 100)
    done = ring("receipts", "take", "email", stdin=report(MAIL))
    assert done.code == 75
    assert "ringonce:" in done.err
