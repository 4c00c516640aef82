"""Field reports about mails that come back. The ids are those of docs/reference/field-reports.md."""

from ringonce.vendors.dsn import report
from ringonce.vendors.smtp import MailServer
from tests.requirements.conftest import Start
from tests.requirements.test_bounces import comes_back, email, live, sent, server  # noqa: F401 - fixture

NEW = "new@example.com"


async def test_hook_05_only_the_address_that_was_used_is_charged(
    start: Start,
    server: MailServer,  # noqa: F811
) -> None:
    """HOOK-05: bounces were charged to the person's address of today, several times, and a corrected one was blocked.

    Source: discourse/discourse#42660. Here: the person has another address by now; a report of a delay and three equal
    ones of a failure come: the old address is charged, once, and the new one stays. A delay after it changes nothing.
    """
    system = await start(email=email(server))
    id_, mail = await sent(system, server)
    await system.ring.set_addresses("user-1", {"email": [NEW]})
    soft = report(mail, action="delayed", status="4.2.0", diagnostic="450 4.2.0 later")
    assert await comes_back(system, soft) == {"taken": 1}
    assert (await system.view(id_))["status"] == "sent"
    fates = [await comes_back(system, report(mail)) for _ in range(3)]
    assert fates[0] == {"taken": 1}
    assert fates[1] == fates[2]
    assert fates[1] != fates[0]
    assert await live(system) == [NEW]
    view = await system.view(id_)
    assert (view["status"], view["attempts"]) == ("failed", 1)
    assert await comes_back(system, soft)
    assert (await system.view(id_))["status"] == "failed"
