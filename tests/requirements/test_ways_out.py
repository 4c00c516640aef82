"""A14: the eight channels of the tenants' service, each over its vendor's own protocol, and none of them a stub."""

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.max import MaxApi
from ringonce.vendors.smtp import MailServer
from ringonce.vendors.telegram import TelegramApi
from ringonce.vendors.twilio import TwilioApi
from ringonce.vendors.viber import ViberApi
from ringonce.vendors.whatsapp import WhatsAppApi
from tests.requirements.conftest import Facts, Start, outcomes

if TYPE_CHECKING:
    from ringonce.vendors.standin import StandIn

ACCOUNT, TOKEN = "AC" + "0" * 32, "not-a-real-token"
GRANT = "/token"
ADDRESSES = {
    "email": "ada@example.com",
    "sms": "+15005550010",
    "push": "a-device-of-ada",
    "telegram": "4815162342",
    "max": "user:4815162",
    "whatsapp": "+15005550011",
    "viber": "01234567890A=",
}


async def test_A14_all_channels_are_real(start: Start) -> None:
    """One event goes out by mail, SMS, push, Telegram, MAX, WhatsApp, Viber and in-app: one call each, all accepted."""
    with ExitStack() as stack:
        mail, devices = MailServer(), FcmApi()
        servers: dict[str, StandIn] = {
            "email": mail,
            "sms": TwilioApi(ACCOUNT, TOKEN),
            "push": devices,
            "telegram": TelegramApi(TOKEN),
            "max": MaxApi(TOKEN),
            "whatsapp": WhatsAppApi(TOKEN, "1000001"),
            "viber": ViberApi(TOKEN),
        }
        for server in servers.values():
            stack.enter_context(server)
        channels: dict[str, Facts] = {
            "email": {
                "provider": "smtp",
                "url": f"smtp://{mail.host}:{mail.port}",
                "from": "shop@example.com",
            },
            "sms": {
                "provider": "twilio",
                "account_sid": ACCOUNT,
                "auth_token": TOKEN,
                "from": "+15005550006",
            },
            "push": {"provider": "fcm", "credentials": json.dumps(devices.credentials)},
            "telegram": {"provider": "telegram", "token": TOKEN},
            "max": {"provider": "max", "token": TOKEN},
            "whatsapp": {"provider": "whatsapp", "token": TOKEN, "phone_number_id": "1000001"},
            "viber": {"provider": "viber", "token": TOKEN, "sender": "Shop"},
        }
        for name in channels.keys() - {"email"}:
            channels[name]["base_url"] = f"http://{servers[name].host}:{servers[name].port}"
        system = await start(**channels, bell={"provider": "inapp"})
        ada = {"id": "ada", "addresses": {name: [value] for name, value in ADDRESSES.items()}}
        accepted = await system.ring.notify(
            event_id="order-42", recipients=[ada], content={"title": "Order 42", "text": "It has left."}
        )
        await system.work()
        views = {one.channel: await system.view(one.id) for one in accepted.notifications}
        assert {name: view["status"] for name, view in views.items()} == dict.fromkeys(
            (*ADDRESSES, "bell"), "sent"
        )
        assert {name: outcomes(views[name]) for name in ADDRESSES} == {
            name: ["accepted"] for name in ADDRESSES
        }
        called = {
            name: [one.address for one in server.ledger.entries if one.address != GRANT]
            for name, server in servers.items()
        }
        assert called == {name: [value] for name, value in ADDRESSES.items()}
        assert system.metric("ringonce_channel_disabled_total", channel="push") == 0
