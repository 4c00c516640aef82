"""A shop that confirms orders by mail. FastAPI, SQLAlchemy (async), and a worker in the same process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ringonce import InputError, Ringonce

IN_STOCK = 10
# sqlite+aiosqlite:///shop.db or postgresql+asyncpg://user:password@host/name, here and in ringonce.toml
engine = create_async_engine(os.environ["DATABASE_URL"])
sessions = async_sessionmaker(engine, expire_on_commit=False)
ringonce = Ringonce(Path(__file__).with_name("ringonce.toml"))


class Base(DeclarativeBase):
    """Tables."""


class Order(Base):
    """Somebody wants something."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    item: Mapped[str]
    quantity: Mapped[int]


class Wanted(BaseModel):
    """The body of an order."""

    email: str
    item: str
    quantity: int


class Invited(BaseModel):
    """The body of an invitation."""

    email: str


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Everything that lives as long as the process: the tables, ringonce, its worker."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with ringonce:
        stop = asyncio.Event()
        worker = asyncio.create_task(ringonce.run_worker(stop))
        yield
        stop.set()
        await worker
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(InputError)
async def refused(_: Request, error: InputError) -> JSONResponse:
    """What ringonce does not accept is the client's mistake."""
    return JSONResponse({"error": str(error)}, status_code=400)


@app.post("/orders", status_code=201)
async def place(wanted: Wanted) -> dict[str, int]:
    """Store the order and ask for its confirmation: both, or neither."""
    async with sessions.begin() as session:
        order = Order(**wanted.model_dump())
        session.add(order)
        await session.flush()  # now the order has its number
        await ringonce.enqueue_async(
            session,
            event_id=f"order-{order.id}-placed",
            type="order.placed",
            subject=f"order:{order.id}",
            to={"email": order.email},
            content={"title": "Your order", "text": f"We have received it: {order.quantity} x {order.item}."},
        )
        if order.quantity > IN_STOCK:
            raise HTTPException(409, f"there are only {IN_STOCK}")
    return {"order": order.id}


@app.get("/orders/{number}/mails")
async def told(number: int) -> dict[str, list[str]]:
    """What became of the mails about an order."""
    rows = await ringonce.search(subject=f"order:{number}")
    return {"mails": [row.state.status for row in rows]}


@app.post("/invitations", status_code=202)
async def invite(invited: Invited) -> dict[str, str]:
    """Nothing of our own to store: ``notify``, which is committed when it returns."""
    accepted = await ringonce.notify(
        to={"email": invited.email}, content={"title": "Come in", "text": "You are invited to our shop."}
    )
    return {"notification": str(accepted.notifications[0].id)}
