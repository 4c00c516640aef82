"""A page with a bell: in-app copies as they come, on all devices of whoever is logged in.

    INBOX_PAGE_DATABASE=inbox.db uvicorn app:app --port 8000

One process serves the page and ringonce's API under one origin, as a reverse proxy would. The page never sees the
key: it gets a ticket, which opens the inbox of its user for an hour.
"""

import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from ringonce import Ringonce
from ringonce.api.app import create_app
from ringonce.api.tickets import Ticket, write

HERE = Path(__file__).parent
HOUR = 3_600
# Several processes need the same: os.environ["RINGONCE_API_KEY"].
KEY = os.environ.get("RINGONCE_API_KEY") or secrets.token_urlsafe(32)
ringonce = Ringonce(HERE / "ringonce.toml")
api = create_app(ringonce, key=KEY)


class Said(BaseModel):
    """What the bell is to ring for."""

    title: str
    text: str


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """In-app copies need no worker: they are there when they are accepted."""
    async with ringonce:
        yield
        for stream in tuple(api.state.streams):
            stream.end()


app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)


def user() -> str:
    """Who is logged in. This example has one user; yours asks the session."""
    return "ada"


@app.get("/ticket")
async def ticket() -> dict[str, str]:
    """What the page may open."""
    made = Ticket(tenant="", recipient=user(), until=int(time.time()) + HOUR)
    return {"recipient": made.recipient, "ticket": write(KEY, made)}


@app.post("/ring", status_code=202)
async def ring(said: Said) -> dict[str, str]:
    """Something happened; somewhere else in your application this is one call."""
    accepted = await ringonce.notify(
        recipients=[user()], type="example.rung", content={"title": said.title, "text": said.text}
    )
    return {"event_id": accepted.event_id}


@app.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The page; nothing of it comes from another host."""
    return FileResponse(HERE / "static" / "index.html")


app.mount("/static", StaticFiles(directory=HERE / "static"))
app.mount("/", api)
