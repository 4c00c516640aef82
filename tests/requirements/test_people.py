"""Recipients: one owner for a token, and a person who is forgotten."""

import asyncio
import base64
import os
from typing import Any

import sqlalchemy as sa
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ringonce.api.app import create_app
from ringonce.store.schema import metadata
from tests.api.asgi import Caller
from tests.requirements.conftest import Start, System


def caller(system: System) -> Caller:
    """The API without a key."""
    return Caller(create_app(system.ring))


async def everything(system: System) -> str:
    """All texts of all tables."""

    def dump(connection: sa.Connection) -> str:
        parts = []
        for table in metadata.sorted_tables:
            if table.info.get("only") not in {None, connection.dialect.name}:
                continue
            parts += [repr(tuple(row)) for row in connection.execute(sa.select(table))]
        return "\n".join(parts)

    return str(await system.sql(dump))


async def test_TOKN_07_a_token_moves_to_its_new_owner(start: Start) -> None:
    """Registered for somebody else, the token is theirs alone, and what waited for the former owner is cancelled."""
    system = await start(push={"provider": "sandbox"})
    api = caller(system)
    body = {"channel": "push", "address": "token-1"}
    assert (await api.post("/v1/recipients/ada/addresses", body)).status == 200
    made = await system.ring.notify(recipients=["ada"], content={"text": "for ada only"})
    assert (await api.post("/v1/recipients/bob/addresses", body)).json["recipient"] == "bob"
    assert (await api.get("/v1/recipients/ada/addresses")).json["addresses"] == []
    await system.work()
    assert (await system.view(made.notifications[0].id))["status"] == "cancelled"
    again = await system.ring.notify(recipients=["ada"], channels=["push"], content={"text": "for ada only"})
    assert again.notifications[0].status == "suppressed"


async def test_a_dropped_token_lives_again(start: Start) -> None:
    """Removed, it is not used; registered again, it lives, with a new registration time."""
    system = await start(push={"provider": "sandbox"})
    api = caller(system)
    body = {"channel": "push", "address": "token-1"}
    first = (await api.post("/v1/recipients/ada/addresses", body)).json
    assert (
        await api.call("DELETE", "/v1/recipients/ada/addresses?channel=push&address=token-1")
    ).status == 200
    (gone,) = (await api.get("/v1/recipients/ada/addresses?all=true")).json["addresses"]
    assert gone["reason"] == "removed"
    again = (await api.post("/v1/recipients/ada/addresses", body)).json
    assert (again["id"], again["invalidated_at"]) == (first["id"], None)
    assert again["registered_at"] > first["registered_at"]


async def test_replacing_addresses_touches_the_named_channels_only(start: Start) -> None:
    """PUT makes the list of a channel what it says; other channels stay; one bad address and nothing changes."""
    system = await start(push={"provider": "sandbox"}, mail={"provider": "sandbox"})
    api = caller(system)
    path = "/v1/recipients/ada/addresses"
    await api.call("PUT", path, {"push": ["t-1", "t-2"], "mail": "ada@example.com"})
    await api.call("PUT", path, {"push": ["t-2", "t-3"]})

    async def now() -> list[tuple[str, str]]:
        found = (await api.get(path)).json["addresses"]
        return sorted((one["channel"], one["address"]) for one in found)

    wanted = [("mail", "ada@example.com"), ("push", "t-2"), ("push", "t-3")]
    assert await now() == wanted
    assert (await api.call("PUT", path, {"push": ["t-4", ""]})).status == 422
    assert await now() == wanted


async def test_the_record_of_a_recipient(start: Start) -> None:
    """What is not named stays; a wrong time zone names the field; nobody is 404."""
    system = await start(push={"provider": "sandbox"})
    api = caller(system)
    assert (await api.get("/v1/recipients/ada")).status == 404
    await api.call("PUT", "/v1/recipients/ada", {"locale": "ru", "timezone": "Europe/Berlin"})
    await api.call("PUT", "/v1/recipients/ada", {"locale": None})
    seen = (await api.get("/v1/recipients/ada")).json
    assert (seen["locale"], seen["timezone"]) == (None, "Europe/Berlin")
    wrong = await api.call("PUT", "/v1/recipients/ada", {"timezone": "Europe/Nowhere"})
    assert (wrong.status, wrong.json["field"]) == (422, "timezone")


async def test_an_erased_person_is_nowhere(start: Start) -> None:
    """After erasing, no table holds the name, the address or a word that was said; counts and statuses stay."""
    system = await start(
        mail={"provider": "sandbox", "script": ["ok", "transient"]},
        app={"provider": "inapp"},
        later={"provider": "sandbox", "enabled": False},
    )
    who: dict[str, Any] = {
        "id": "ada-lovelace",
        "locale": "en",
        "addresses": {"mail": ["ada@secret.example"]},
    }
    body = {"recipients": [who], "content": {"text": "dear Countess"}, "data": {"name": "Countess"}}
    first = await system.ring.notify(body)
    await system.ring.notify(to={"mail": "ada@secret.example"}, content={"text": "dear Countess"})
    await system.ring.notify(to={"app": "ada-lovelace"}, content={"text": "dear Countess"})
    await system.work()
    await system.ring.register("ada-lovelace", "later", "ada-later")
    waiting = await system.ring.notify({**body, "channels": ["later"]})
    shared = {"recipients": ["ada-lovelace", "bob"], "mentions": ["ada-lovelace"], "channels": ["app"]}
    shared |= {"event_id": "e-shared", "content": {"text": "hello all"}}
    await system.ring.notify(shared)
    before = (await system.ring.report())[0]
    assert (await caller(system).call("DELETE", "/v1/recipients/ada-lovelace")).json == {"erased": 6}
    left = await everything(system)
    for word in ("ada-lovelace", "ada@secret", "ada-later", "Countess"):
        assert word not in left
    after = (await system.ring.report())[0]
    assert after["accepted"] == before["accepted"]
    assert after["sent"] == before["sent"]
    assert (await system.view(waiting.notifications[0].id))["status"] == "cancelled"
    words = await system.ring.explain(first.notifications[0].id)
    assert any("erased by api" in line for line in words)
    assert (await system.ring.inbox("bob")).copies[0].content.text == "hello all"
    assert (await system.ring.inbox("ada-lovelace")).copies == ()
    again = await system.ring.notify(shared)
    assert again.duplicate
    assert await system.ring.erase("ada-lovelace") == 0


async def test_an_erased_person_is_not_told_by_a_fan_out_under_way(start: Start) -> None:
    """An event that is still being expanded reaches everybody else exactly once, and the erased person not at all."""
    system = await start(app={"provider": "inapp"})
    people = [f"user-{number}" for number in range(150)]
    made = await system.ring.notify(recipients=people, content={"text": "hello"})
    assert made.notifications == ()
    await system.ring.erase("user-140")
    await system.work()
    rows = await system.ring.search(event_id=made.event_id, limit=500)
    assert sorted(row.recipient for row in rows) == sorted(set(people) - {"user-140"})
    assert "user-140" not in await everything(system)


async def test_erasing_does_not_stop_what_has_begun(start: Start) -> None:
    """A call that is under way ends as it ends, and its answer brings nothing back."""
    system = await start(mail={"provider": "sandbox", "script": ["delay:0.3"]})
    id_ = await system.accept("mail", "ada@secret.example")

    async def begun() -> bool:
        return (await system.ring.get(id_)).row.state.open

    async with system.working(system.ring):
        await system.until(begun)
        await system.ring.erase("mail:ada@secret.example")
        await system.ended(id_)
    view = await system.view(id_)
    assert (view["status"], view["recipient"], view["address"]) == ("sent", "(erased)", None)
    assert "ada@secret" not in await everything(system)


async def test_IDEM_05_new_keys_of_a_subscription_replace_the_old_ones(start: Start) -> None:
    """The same endpoint with other keys is the same address: one row, the new keys, and what waits uses them."""
    key = base64.urlsafe_b64encode(secret_key()).rstrip(b"=").decode()
    system = await start(
        push={"provider": "webpush", "vapid_private_key": key, "subject": "mailto:a@example.com"}
    )
    first = await system.ring.register("ada", "push", subscription("https://push.example.com/1"))
    made = await system.ring.notify(recipients=["ada"], content={"text": "hello"})
    again = await asyncio.gather(
        *(system.ring.register("ada", "push", subscription("https://push.example.com/1")) for _ in range(4))
    )
    (kept,) = await system.ring.addresses("ada", invalidated=True)
    assert {one.id for one in again} == {first.id} == {kept.id}
    assert kept.value != first.value
    waiting = (await system.ring.get(made.notifications[0].id)).row
    assert waiting.address is not None
    assert waiting.address.value == kept.value
    other = await system.ring.register("ada", "push", subscription("https://push.example.com/2"))
    assert other.id != first.id


def secret_key() -> bytes:
    """A fresh private key of the curve P-256, as VAPID keys are written."""
    return ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32)


def subscription(endpoint: str) -> dict[str, Any]:
    """A browser's subscription with fresh keys."""
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    point = public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    keys = {"p256dh": point, "auth": os.urandom(16)}
    return {
        "endpoint": endpoint,
        "keys": {name: base64.urlsafe_b64encode(raw).rstrip(b"=").decode() for name, raw in keys.items()},
    }
