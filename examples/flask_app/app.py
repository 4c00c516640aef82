"""A shop that confirms orders by mail. Flask, SQLAlchemy (blocking), and a worker in a process of its own."""

import os
from pathlib import Path

from flask import Flask, abort, request
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

from ringonce import InputError
from ringonce.blocking import Ringonce

IN_STOCK = 10
# sqlite:///shop.db or postgresql+psycopg://user:password@host/name, here and in ringonce.toml
engine = create_engine(os.environ["DATABASE_URL"])
sessions = sessionmaker(engine)
# It opens itself with its first call, so a server may fork after this line.
ringonce = Ringonce(Path(__file__).with_name("ringonce.toml"))
app = Flask(__name__)


class Base(DeclarativeBase):
    """Tables."""


class Order(Base):
    """Somebody wants something."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    item: Mapped[str]
    quantity: Mapped[int]


@app.cli.command("create-tables")
def create_tables() -> None:
    """Create the shop's tables: ``flask create-tables``."""
    Base.metadata.create_all(engine)


@app.errorhandler(InputError)
def refused(error: InputError) -> tuple[dict[str, str], int]:
    """What ringonce does not accept is the client's mistake."""
    return {"error": str(error)}, 400


@app.post("/orders")
def place() -> tuple[dict[str, int], int]:
    """Store the order and ask for its confirmation: both, or neither."""
    with sessions.begin() as session:
        order = Order(**request.get_json())
        session.add(order)
        session.flush()  # now the order has its number
        ringonce.enqueue(
            session,
            event_id=f"order-{order.id}-placed",
            type="order.placed",
            subject=f"order:{order.id}",
            to={"email": order.email},
            content={"title": "Your order", "text": f"We have received it: {order.quantity} x {order.item}."},
        )
        if order.quantity > IN_STOCK:
            abort(409)
        number = order.id
    return {"order": number}, 201


@app.get("/orders/<int:number>/mails")
def told(number: int) -> dict[str, list[str]]:
    """What became of the mails about an order."""
    rows = ringonce.search(subject=f"order:{number}")
    return {"mails": [row.state.status for row in rows]}


@app.post("/invitations")
def invite() -> tuple[dict[str, str], int]:
    """Nothing of our own to store: ``notify``, which is committed when it returns."""
    accepted = ringonce.notify(
        to={"email": request.get_json()["email"]},
        content={"title": "Come in", "text": "You are invited to our shop."},
    )
    return {"notification": str(accepted.notifications[0].id)}, 202
