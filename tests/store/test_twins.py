"""Broken twins: each guard of a statement, taken away, makes the test of its rule fail."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from ringonce.store import open_store
from tests.store import test_claims as claims
from tests.store import test_reading as reading
from tests.store import test_settle as settle
from tests.store.kit import KINDS, World, decode

Rule = Callable[[World], Awaitable[None]]


def with_argument(rule: Callable[..., Awaitable[None]], argument: str) -> Rule:
    """A parametrised test as a rule."""
    return lambda world: rule(world, argument)


STATEMENTS: list[tuple[str, str, Rule]] = [
    ("_claims._mark", ".fence = r.fence", with_argument(claims.test_mark_is_guarded, "fence")),
    ("_claims._mark", ".owner = ", with_argument(claims.test_mark_is_guarded, "owner")),
    ("_claims._mark", ".version = r.version", with_argument(claims.test_mark_is_guarded, "version")),
    ("_claims._mark", ".started_at IS NULL", with_argument(claims.test_mark_is_guarded, "twice")),
    ("_claims._mark", ".due_at > ", with_argument(claims.test_mark_is_guarded, "late")),
    ("_claims._mark", "EXISTS", claims.test_a_tombstone_stops_the_mark),
    ("_claims._undo", ".fence = r.fence", claims.test_undo_needs_the_lease),
    ("_claims._undo", ".owner = ", claims.test_undo_needs_the_lease),
    ("_claims._undo", ".started_at IS NOT NULL", claims.test_undo_needs_the_lease),
    ("_claims._release", ".fence = r.fence", claims.test_release_needs_the_lease),
    ("_claims._release", ".owner = ", claims.test_release_needs_the_lease),
    ("_claims._release", ".started_at IS NULL", claims.test_release_spares_what_has_begun),
    ("_claims._extend", ".owner = ", claims.test_extend_prolongs_all_leases_of_the_owner),
    ("_claims._term", ".holder = ", claims.test_a_failed_row_waits_for_the_holder_of_the_retry_lease),
    ("_claims._term", ".term = ", claims.test_a_failed_row_waits_for_the_holder_of_the_retry_lease),
    ("_claims._term", ".expires_at > ", claims.test_a_failed_row_waits_for_the_holder_of_the_retry_lease),
    ("_addresses._drop", ".value = r.value", with_argument(reading.test_invalidation_is_guarded, "value")),
    ("_addresses._drop", ".tenant = ", with_argument(reading.test_invalidation_is_guarded, "tenant")),
    ("_addresses._drop", ".registered_at < ", with_argument(reading.test_invalidation_is_guarded, "newer")),
]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A store in memory."""
    store = open_store("sqlite://", decode=decode, outbox_kinds=KINDS)
    await store.open()
    yield World(store)
    await store.close()


def without(statement: Any, guard: str) -> Any:
    """The statement without the one condition that reads like ``guard``."""
    flat: list[Any] = []
    for condition in statement._where_criteria:
        is_and = isinstance(condition, sa.BooleanClauseList) and condition.operator is sa.sql.operators.and_
        flat.extend(condition.clauses if is_and else [condition])
    kept = [c for c in flat if guard not in str(c.compile(dialect=sqlite.dialect()))]
    assert len(kept) == len(flat) - 1, f"{guard!r} is not exactly one condition"
    broken = statement._generate()
    broken._where_criteria = tuple(kept)
    return broken


@pytest.mark.parametrize(("path", "guard", "rule"), STATEMENTS, ids=[f"{p} {g}" for p, g, _ in STATEMENTS])
async def test_a_statement_without_its_guard_breaks_a_rule(
    world: World, path: str, guard: str, rule: Rule
) -> None:
    """The rule's own test fails when the statement loses this condition."""
    part, name = path.split(".")
    owner = getattr(world.store, part)
    setattr(owner, name, without(getattr(owner, name), guard))
    with pytest.raises((AssertionError, ValueError)):
        await rule(world)


CODE: list[tuple[str, Callable[..., Any], Rule]] = [
    (
        "ringonce.store.rows.Dispatch.held_by",
        lambda self, guard: self.leased and guard is not None,
        settle.test_lost_lease_makes_the_answer_late,
    ),
    (
        "ringonce.store.settle._told_before",
        lambda *_: False,
        settle.test_settle_again_after_a_lost_reply,
    ),
]


@pytest.mark.parametrize(("name", "broken", "rule"), CODE, ids=[name for name, _, _ in CODE])
async def test_code_without_its_guard_breaks_a_rule(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., Any], rule: Rule
) -> None:
    """The rule's own test fails when this decision is made carelessly."""
    monkeypatch.setattr(name, broken)
    with pytest.raises((AssertionError, ValueError)):
        await rule(world)
