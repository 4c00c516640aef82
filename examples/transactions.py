"""One event inside a transaction of yours, with each library. An order and its confirmation: both, or neither."""

import sqlite3

import asyncpg
import psycopg
from django.db import connections, transaction
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from ringonce import Ringonce

ringonce = Ringonce({"channels": {"email": {"provider": "sandbox"}}})
ORDER = "INSERT INTO orders (id) VALUES (42)"
EVENT = {
    "event_id": "order-42-placed",
    "to": {"email": "ada@example.com"},
    "content": {"title": "Your order", "text": "We have received it."},
}


def sqlalchemy_session(engine: Engine) -> None:
    """Session, scoped_session, Connection."""
    with Session(engine) as session, session.begin():
        session.execute(text(ORDER))
        ringonce.enqueue(session, EVENT)


async def sqlalchemy_async(session: AsyncSession) -> None:
    """AsyncSession, async_scoped_session, AsyncConnection."""
    async with session.begin():
        await session.execute(text(ORDER))
        await ringonce.enqueue_async(session, EVENT)


def django_atomic(using: str = "default") -> None:
    """A connection of Django, or its alias."""
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(ORDER)
        ringonce.enqueue(using, EVENT)


def psycopg_block(connection: psycopg.Connection) -> None:
    """Psycopg 3, blocking; outside a block too, unless the connection is in autocommit."""
    with connection.transaction():
        connection.execute(ORDER)
        ringonce.enqueue(connection, EVENT)


async def psycopg_async(connection: psycopg.AsyncConnection) -> None:
    """Psycopg 3, asynchronous."""
    async with connection.transaction():
        await connection.execute(ORDER)
        await ringonce.enqueue_async(connection, EVENT)


async def asyncpg_block(connection: asyncpg.Connection) -> None:
    """Asyncpg, a connection lent by a pool included."""
    async with connection.transaction():
        await connection.execute(ORDER)
        await ringonce.enqueue_async(connection, EVENT)


def sqlite3_with(connection: sqlite3.Connection) -> None:
    """The standard library's; with isolation_level=None run BEGIN first."""
    with connection:
        connection.execute(ORDER)
        ringonce.enqueue(connection, EVENT)
