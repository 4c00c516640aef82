"""B04: every definitive failure of a high-priority type is one row of `notification_failures`."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from ringonce.api.app import create_app
from ringonce.config.model import ApiKey
from ringonce.model.policy import DAY
from ringonce.store.schema import failures
from ringonce.vendors.fcm import FcmApi
from ringonce.vendors.script import Plan, plan
from tests.api.asgi import Caller
from tests.requirements.conftest import Facts, Start, System, started
from tests.requirements.test_retention import grow_old, pruning

ALARM = "SECURITY_ALERT"
CHECKIN = "CHECKIN_APPROVED"
TABLE = "ringonce_notification_failures"
FAST = {"kind": "fixed", "base": "10ms", "jitter": 0}
Api = Callable[..., FcmApi]


@pytest.fixture
def api() -> Iterator[Api]:
    """Start the vendor's server; ``faults`` is its plan in words."""
    servers: list[FcmApi] = []

    def begin(*faults: str, **options: Any) -> FcmApi:
        servers.append(FcmApi(plan=plan(faults) if faults else Plan(), **options).start())
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


def push(server: FcmApi) -> Facts:
    """A channel for it."""
    return {
        "provider": "fcm",
        "credentials": json.dumps(server.credentials),
        "base_url": server.url,
        "backoff": FAST,
        "rate_limited_factor": 1,
    }


async def audited(start: Start, *types: str, **channels: Any) -> System:
    """A system whose configuration names the high-priority types."""
    system = await start(**channels)
    await system.ring.close()
    system.config["audit"] = {"types": list(types or (ALARM, CHECKIN))}
    system.ring = await started(system.config)
    return system


async def rows(system: System) -> list[Facts]:
    """The table as an auditor reads it, oldest first."""
    query = sa.select(failures).order_by(failures.c.failed_at)

    def read(connection: sa.Connection) -> list[Facts]:
        return [dict(row) for row in connection.execute(query).mappings()]

    found: list[Facts] = await system.sql(read)
    return found


async def ended(system: System, channel: str, address: str = "token-0001", **fields: object) -> UUID:
    """Accept one and let a worker bring it to its end."""
    id_ = await system.accept(channel, address, **fields)
    async with system.working(system.ring):
        await system.ended(id_)
    return id_


async def test_B04_a_a_failure_by_class_is_one_row(start: Start, api: Api) -> None:
    """A dead token: who, which type, what was said without the token, the provider's own code, one call, when."""
    server = api(dead=["token-0001"])
    system = await audited(start, push=push(server))
    await system.ring.register("driver-7", "push", "token-0001")
    (brief,) = (
        await system.ring.notify(
            type=CHECKIN,
            recipients=["driver-7"],
            content={"title": "Gate 4", "text": "for token-0001: come in", "data": {"slot": "4"}},
        )
    ).notifications
    async with system.working(system.ring):
        await system.ended(brief.id)
    (row,) = await rows(system)
    assert isinstance(row["id"], UUID)
    assert (row["driver_id"], row["push_type"]) == ("driver-7", CHECKIN)
    assert json.loads(row["payload"]) == {
        "title": "Gate 4", "text": "for (address): come in", "data": {"slot": "4"},
    }  # fmt: skip
    assert (row["error_code"], row["code"], row["retry_count"]) == (
        "UNREGISTERED", "NTF_PUSH_TOKEN_INVALID", 1,
    )  # fmt: skip
    life = await system.ring.get(brief.id)
    assert life.attempts[0].started_at <= row["failed_at"] <= await system.ring.store.now()
    assert (row["notification_id"], row["revision"], row["channel"]) == (brief.id, 1, "push")


async def test_B04_b_a_failure_by_exhaustion_counts_the_calls(start: Start, api: Api) -> None:
    """All retries used: retry_count is the number of calls that the provider got."""
    server = api("503")
    system = await audited(start, push=push(server))
    await ended(system, "push", type=ALARM)
    (row,) = await rows(system)
    got = [entry for entry in server.ledger.entries if entry.address == "token-0001"]
    assert (row["error_code"], row["retry_count"]) == ("UNAVAILABLE", len(got)) == ("UNAVAILABLE", 4)


async def test_B04_c_other_types_cost_nothing(start: Start) -> None:
    """The table is not touched for types that are not named, nor for what is sent in the end."""
    system = await audited(
        start, box={"provider": "sandbox", "script": "payload"}, ok={"provider": "sandbox"}
    )
    await system.refuse(TABLE, "NEW.revision > 0")
    bad = await ended(system, "box", type="message.new")
    good = await ended(system, "ok", type=ALARM)
    assert [(await system.view(id_))["status"] for id_ in (bad, good)] == ["failed", "sent"]
    assert await rows(system) == []


async def test_B04_d_row_and_end_are_one_transaction(start: Start) -> None:
    """A database that can not take the row does not take the end either; when it can, there are both, once."""
    system = await audited(
        start,
        box={
            "provider": "sandbox",
            "script": "payload",
            "lease": "1s",
            "in_doubt": "resend",
            "backoff": FAST,
        },
    )
    await system.refuse(TABLE, "NEW.revision > 0")
    id_ = await system.accept("box", type=ALARM)
    async with system.working(system.ring):

        async def refused() -> bool:
            return bool(await system.sql(_begun))

        await system.until(refused)
        view = await system.view(id_)
        assert (view["final"], await rows(system)) == (False, [])
        await system.allow(TABLE)
        await system.ended(id_)
    assert (await system.view(id_))["status"] == "failed"
    assert [row["notification_id"] for row in await rows(system)] == [id_]


def _begun(connection: sa.Connection) -> int:
    found = connection.exec_driver_sql("SELECT count(*) FROM ringonce_dispatch WHERE started_at IS NOT NULL")
    return int(found.scalar_one())


async def test_B04_e_an_end_that_no_answer_made(start: Start) -> None:
    """A call whose worker is lost, and whose budget is spent, is written by whoever takes it over: one call."""
    system = await audited(
        start, box={"provider": "sandbox", "in_doubt": "resend", "budgets": {"unknown": 0}, "lease": "1s"}
    )
    id_ = await system.accept("box", type=ALARM)
    store = system.ring.store
    (claimed,) = (await store.claim("box", "lost", 1, 1_000_000, begin=True)).rows
    assert claimed.row.id == id_
    await system.pass_time()
    (settled,) = await store.rescue(system.ring.engine.decide)
    assert settled.write is not None
    assert settled.write.state.final
    (row,) = await rows(system)
    assert (row["error_code"], row["retry_count"]) == ("NTF_PROVIDER_TRANSIENT", 1)
    await store.rescue(system.ring.engine.decide)
    assert len(await rows(system)) == 1


@pytest.mark.parametrize("count", [1, 150])
async def test_B04_f_a_text_that_can_not_be_written(start: Start, count: int) -> None:
    """A template that fails ends it before any call, and leaves its row, in the transaction that accepts or expands."""
    system = await start(box={"provider": "sandbox"})
    folder = system.folder / "templates"
    (folder / "gate").mkdir(parents=True)
    (folder / "gate" / "en.toml").write_text('text = "Gate"')
    await system.ring.close()
    system.config |= {"audit": {"types": [ALARM]}, "templates": {"path": str(folder)}}
    system.ring = await started(system.config)
    people = [{"id": f"driver-{n}", "addresses": {"box": [f"b{n}"]}} for n in range(count)]
    body = {"type": ALARM, "template": "gate", "recipients": people, "channels": ["box"]}
    event = system.ring.engine.prepare(body)
    system.ring.engine.templates = None  # gone between the check and the expansion
    await system.ring.engine.accept_prepared([event])
    await system.work()
    found = await rows(system)
    assert len(found) == count
    assert {(row["error_code"], row["retry_count"]) for row in found} == {("NTF_TEMPLATE_INVALID", 0)}


async def test_B04_g_each_revision_that_fails_is_a_row(start: Start) -> None:
    """Sent again by a person and failed again: a second row, whose calls are all that were made."""
    system = await audited(start, box={"provider": "sandbox", "script": "payload"})
    id_ = await ended(system, "box", type=ALARM)
    await system.ring.retry(id_, by="ann")
    async with system.working(system.ring):
        await system.ended(id_)
    assert [(row["revision"], row["retry_count"]) for row in await rows(system)] == [(1, 1), (2, 2)]


async def test_B04_h_the_provider_s_code_is_cut(start: Start) -> None:
    """A code of a provider that is longer than the column is kept as far as it goes; a type that long is refused."""
    system = await audited(start, box={"provider": "sandbox", "script": "payload"})
    answer = await Caller(create_app(system.ring)).post(
        "/v1/notifications", {"type": "x" * 65, "to": {"box": "a"}, "content": {"text": "x"}}
    )
    assert (answer.status, answer.json["field"]) == (422, "type")
    from ringonce.core.failures import failure_of
    from ringonce.model.notification import LastError, State, Status

    state = State(Status.FAILED, last_error=LastError("NTF_PROVIDER_BLOCKED", "E" * 500))
    assert failure_of(UUID(int=7), ALARM, state).error_code == "E" * 128


async def test_B04_i_it_is_erased_with_the_recipient(start: Start) -> None:
    """Of an erased person neither name nor words stay; that it failed, and for others, does."""
    system = await audited(start, box={"provider": "sandbox", "script": "payload"})
    for who in ("driver-7", "driver-8"):
        await system.ring.register(who, "box", f"place-of-{who}")
        (brief,) = (
            await system.ring.notify(type=ALARM, recipients=[who], content={"text": f"to {who}"})
        ).notifications
        async with system.working(system.ring):
            await system.ended(brief.id)
    direct = await ended(system, "box", "place-of-driver-7", type=ALARM, content={"text": "to driver-7"})
    await system.ring.erase("driver-7")
    found = {row["driver_id"]: json.loads(row["payload"]) for row in await rows(system)}
    assert found == {"(erased)": {}, "driver-8": {"text": "to driver-8"}}
    assert [row["notification_id"] for row in await rows(system)][-1] == direct


async def test_B04_j_it_can_be_read(start: Start) -> None:
    """HTTP and the command line show it, filtered, page by page; a tenant's key its own rows only."""
    system = await audited(start, box={"provider": "sandbox", "script": "payload"})
    for tenant in ("acme", "globex"):
        await ended(system, "box", "ada@example.com", type=ALARM, tenant=tenant)
    await ended(system, "box", type=CHECKIN)
    keys = [ApiKey("a", "acme-key", "acme")]
    api = Caller(create_app(system.ring, key="platform-key", keys=keys), host="notify.example.com")
    own, every = {"x-api-key": "acme-key"}, {"x-api-key": "platform-key"}
    (seen,) = (await api.get("/v1/failures/audit", headers=own)).json["failures"]
    assert (seen["tenant"], seen["driver_id"]) == ("acme", "box:a***@example.com")
    assert (await api.get("/v1/failures/audit?tenant=globex", headers=own)).status == 403
    first = (await api.get("/v1/failures/audit?limit=2", headers=every)).json
    rest = (await api.get(f"/v1/failures/audit?limit=2&after={first['next']}", headers=every)).json
    assert [one["push_type"] for one in first["failures"] + rest["failures"]] == [CHECKIN, ALARM, ALARM]
    assert rest["next"] is None
    told = json.loads(await system.command("failures", "audit", "--type", CHECKIN, "--json"))
    assert [one["id"] for one in told] == [first["failures"][0]["id"]]
    assert "a***@example.com" in await system.command("failures", "audit")


async def test_B04_k_it_is_kept_longer_than_its_notification(start: Start) -> None:
    """Retention removes a row of the audit by its own age, not with the notification; what is younger stays."""
    system = await audited(start, box={"provider": "sandbox", "script": "payload"})
    old = await ended(system, "box", type=ALARM)
    await grow_old(system, 400)
    year = 365 * DAY

    def age(connection: sa.Connection) -> None:
        connection.execute(sa.update(failures).values(failed_at=failures.c.failed_at - year + DAY))

    await system.sql(age)

    async def gone() -> bool:
        return await system.ring.store.get(old) is None

    async with pruning(system):
        await system.until(gone)
    assert [row["notification_id"] for row in await rows(system)] == [old]
    young = await ended(system, "box", type=ALARM)

    def older(connection: sa.Connection) -> None:
        mine = failures.c.notification_id == old
        connection.execute(sa.update(failures).where(mine).values(failed_at=failures.c.failed_at - 2 * DAY))

    await system.sql(older)

    async def one_left() -> bool:
        return await system.count(failures) == 1

    async with pruning(system):
        await system.until(one_left)
    assert [row["notification_id"] for row in await rows(system)] == [young]
    assert system.metric("ringonce_pruned_total", table="notification_failures") == 1


async def test_B04_l_the_same_answer_twice(start: Start, api: Api) -> None:
    """A refused credential is fetched anew once; refused in the same words again, it ends, and leaves its row."""
    server = api("401")
    system = await audited(start, push={**push(server), "on_auth": "fail"})
    id_ = await ended(system, "push", type=ALARM)
    (row,) = await rows(system)
    assert (row["notification_id"], row["code"], row["retry_count"]) == (id_, "NTF_PROVIDER_AUTH", 2)
