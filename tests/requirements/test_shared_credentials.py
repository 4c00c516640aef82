"""B01 (the credential): one worker fetches it, all use it, and it is renewed once."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from ringonce.app import Ringonce
from ringonce.engine.vault import SPARE
from ringonce.model.policy import SECOND
from ringonce.store.schema import credentials, leases
from ringonce.vendors.apns import ApnsApi
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.script import plan
from tests.requirements.conftest import Facts, Start, System, started
from tests.requirements.test_push_apns import push as apple

ALERTS = "ringonce_alerts_total"


@pytest.fixture
def api() -> Iterator[FcmApi]:
    """The vendor's server."""
    with FcmApi() as server:
        yield server


def push(server: FcmApi, **more: object) -> Facts:
    """A channel for it."""
    return {
        "provider": "fcm",
        "credentials": json.dumps(server.credentials),
        "base_url": server.url,
        **more,
    }


def grants(server: FcmApi) -> list[str]:
    """What was said to each request for a token."""
    return [entry.verdict for entry in server.ledger.entries if entry.address == "/token"]


def bearers(server: FcmApi) -> int:
    """How many messages arrived."""
    return len(server.messages)


async def both(system: System, *rings: Ringonce, count: int = 30) -> None:
    """Workers of several processes send what was accepted."""
    ids = [await system.accept("push", f"token-{n}") for n in range(count)]
    async with system.working(*rings):
        for id_ in ids:
            await system.ended(id_)
    assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}


async def kept(system: System) -> list[str]:
    """What stands in the database."""
    return list(await system.sql(lambda c: c.execute(sa.select(credentials.c.sealed)).scalars().all()))


async def test_B01_sa_one_grant_for_all_workers(start: Start, api: FcmApi) -> None:
    """Several workers, at once and one after the other, send with the token that one of them has fetched."""
    system = await start(push=push(api, concurrency=2))
    other = await started(system.config)
    try:
        await both(system, system.ring, other)
        await both(system, other)
    finally:
        await other.close()
    assert (grants(api), bearers(api)) == (["granted"], 60)


async def test_B01_sb_renewed_once(start: Start, api: FcmApi) -> None:
    """A token that is revoked is renewed by one worker; the refusals that the others still hear fetch no third."""
    system = await start(push=push(api, concurrency=4))
    others = [await started(system.config) for _ in range(2)]
    try:
        await both(system, *others, count=8)
        ids = []
        async with system.working(system.ring, *others):
            for n in range(12):
                await system.ended(await system.accept("push", f"before-{n}"))
            api.revoke()
            ids = [await system.accept("push", f"after-{n}") for n in range(24)]
            for id_ in ids:
                await system.ended(id_)
    finally:
        for ring in others:
            await ring.close()
    assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
    assert {(await system.view(id_))["attempts"] for id_ in ids} == {1}
    assert (grants(api), system.metric(ALERTS)) == (["granted", "granted"], 0)


async def test_B01_sc_it_is_sealed(start: Start, api: FcmApi) -> None:
    """The database holds no token that could be used, and nothing that is told shows one."""
    system = await start(push=push(api))
    await both(system, system.ring, count=1)
    (sealed,) = await kept(system)
    tokens = set(api._tokens)
    assert tokens
    id_ = await system.accept("push", "token-x")
    shown = sealed + await system.command("explain", str(id_)) + json.dumps(await system.ring.channels())
    assert not any(token in shown for token in tokens)


async def test_B01_sd_sharing_can_be_switched_off(start: Start, api: FcmApi) -> None:
    """With `worker.share_credentials = false` each worker fetches its own, and none is stored."""
    system = await start(push=push(api))
    system.config["worker"]["share_credentials"] = False
    await system.reconfigure()
    other = await started(system.config)
    try:
        for ring in (system.ring, other):
            await both(system, ring, count=1)
    finally:
        await other.close()
    assert (grants(api), await kept(system)) == (["granted", "granted"], [])


async def test_B01_se_who_dies_while_fetching_holds_nobody_up_for_long(start: Start, api: FcmApi) -> None:
    """The turn to fetch of a worker that is gone ends by itself, and another one takes it."""
    system = await start(push=push(api, timeout="2s"))
    name = f"credential:fcm:{(await system.ring.channels())[0]['account']}"
    ttl = 2 * SECOND + SPARE
    assert await system.ring.store.take_lease(name, "gone", ttl) == 1
    id_ = await system.accept("push", "token-1")
    async with system.working(system.ring):
        await asyncio.sleep(0)
        assert grants(api) == []
        ended = sa.update(leases).where(leases.c.name == name).values(expires_at=1)
        await system.sql(lambda c: c.execute(ended))
        await system.ended(id_)
    assert grants(api) == ["granted"]


async def test_B01_sf_a_failed_grant_leaves_the_turn(start: Start) -> None:
    """While no token can be had, workers ask one at a time; the first that gets one has it for all."""
    with FcmApi(plan=plan(["503:first=3,stage=token"])) as api:
        system = await start(push=push(api))
        other = await started(system.config)
        try:
            await both(system, system.ring, other, count=4)
        finally:
            await other.close()
        assert Counter(grants(api)) == {"503": 3, "granted": 1}


async def test_B01_sg_one_token_of_the_team(start: Start) -> None:
    """All workers and all apps of an Apple team send with one token, made by the database's clock."""
    with ApnsApi() as server:
        system = await start(push=apple(server), again=apple(server))
        other = await started(system.config)
        try:
            ids = [await system.accept(("push", "again")[n % 2], f"{n:02x}" * 32) for n in range(20)]
            async with system.working(system.ring, other):
                for id_ in ids:
                    await system.ended(id_)
        finally:
            await other.close()
        assert {(await system.view(id_))["status"] for id_ in ids} == {"sent"}
        assert len(server.tokens) <= 2  # two where the window ended meanwhile


async def test_B01_sh_across_processes(start: Start, api: FcmApi) -> None:
    """Worker processes of the command line, at once where the database allows it, send with one token."""
    system = await start(push=push(api, concurrency=2))
    for n in range(20):
        await system.accept("push", f"token-{n}")
    at_once = not system.config["store"]["url"].startswith("sqlite")
    first = await system.process("worker", "--drain")
    if at_once:
        second = await system.process("worker", "--drain")
        results = await asyncio.gather(first.communicate(), second.communicate())
    else:
        results = [await first.communicate()]
        await system.accept("push", "token-20")
        second = await system.process("worker", "--drain")
        results.append(await second.communicate())
    assert (first.returncode, second.returncode) == (0, 0), results
    assert (grants(api), len(api.messages)) == (["granted"], 20 if at_once else 21)
