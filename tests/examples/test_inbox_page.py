"""The page with a bell as its user sees it: a server of its own, and Debian's Chromium."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from playwright.async_api import Browser, Page, WebSocketRoute, async_playwright, expect

pytestmark = pytest.mark.debian

FOLDER = Path(__file__).parents[2] / "examples" / "inbox_page"
SERVER = """
import socket, uvicorn
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    config = uvicorn.Config("app:app", log_level="error", ws="websockets-sansio", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[server])
"""
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
DEADLINE = 60_000.0
expect.set_options(timeout=DEADLINE)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The example, running."""
    environment = {**os.environ, "INBOX_PAGE_DATABASE": str(tmp_path / "inbox.db")}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], cwd=FOLDER, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Chromium as Debian ships it."""
    path = shutil.which("chromium")
    assert path, "apt-get install chromium"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS.split(), timeout=DEADLINE)
        yield browser
        await browser.close()


@dataclass(slots=True)
class Device:
    """One browser with the page open, and what went wrong in it."""

    page: Page
    troubles: list[str] = field(default_factory=list)

    def watch(self, url: str) -> None:
        """Collect errors, failed answers, and calls to other hosts."""
        self.page.set_default_timeout(DEADLINE)
        self.page.on(
            "console", lambda said: self.troubles.append(said.text) if said.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("response", lambda got: self.troubles.append(got.url) if got.status >= 400 else None)
        self.page.on(
            "request", lambda asked: None if asked.url.startswith(url) else self.troubles.append(asked.url)
        )

    async def shows(self, *titles: str, unread: int, way: str) -> None:
        """Wait until it shows these copies, newest first, and this counter."""
        await expect(self.page.locator("#state")).to_have_text(way)
        await expect(self.page.locator("li h2")).to_have_text(list(titles))
        await expect(self.page.locator("#unread")).to_have_attribute("data-count", str(unread))
        await expect(self.page).to_have_title(f"({unread}) Inbox" if unread else "Inbox")


async def opened(browser: Browser, url: str, *, blocked: bool = False) -> Device:
    """Another device of the same person. ``blocked``: something on its way lets no WebSocket through."""
    context = await browser.new_context()
    page = await context.new_page()
    device = Device(page)
    device.watch(url)
    if blocked:

        async def refuse(route: WebSocketRoute) -> None:
            await route.close()

        await page.route_web_socket("**/ws?*", refuse)
    await page.goto(url)
    return device


def ring(url: str, title: str) -> None:
    """Something happens."""
    body = json.dumps({"title": title, "text": "<b>as it is</b>"}).encode()
    request = Request(f"{url}/ring", body, {"Content-Type": "application/json"})  # noqa: S310 - our own server
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        assert answer.status == 202


async def test_two_devices_are_in_step(url: str, browser: Browser) -> None:
    """Copies come to both at once, what one reads the other shows as read, and the counters agree; texts are texts."""
    ring(url, "First")
    phone, desk = await opened(browser, url), await opened(browser, url)
    for device in (phone, desk):
        await device.shows("First", unread=1, way="websocket")
    ring(url, "Second")
    for device in (phone, desk):
        await device.shows("Second", "First", unread=2, way="websocket")
        await expect(device.page.locator("li p").first).to_have_text("<b>as it is</b>")
    await phone.page.locator("li", has_text="First").get_by_role("button").click()
    for device in (phone, desk):
        await device.shows("Second", "First", unread=1, way="websocket")
        await expect(device.page.locator("li.read h2")).to_have_text(["First"])
    await desk.page.get_by_role("button", name="Mark all as read").click()
    for device in (phone, desk):
        await device.shows("Second", "First", unread=0, way="websocket")
        assert device.troubles == []


async def test_where_no_web_socket_gets_through(url: str, browser: Browser) -> None:
    """A device whose way lets no WebSocket through uses server-sent events, and is in step with one that has one."""
    ring(url, "First")
    phone, desk = await opened(browser, url), await opened(browser, url, blocked=True)
    await phone.shows("First", unread=1, way="websocket")
    await desk.shows("First", unread=1, way="server-sent events")
    ring(url, "Second")
    await desk.shows("Second", "First", unread=2, way="server-sent events")
    await desk.page.get_by_role("button", name="Mark all as read").click()
    await phone.shows("Second", "First", unread=0, way="websocket")
    await desk.shows("Second", "First", unread=0, way="server-sent events")
    await phone.page.reload()
    await phone.shows("Second", "First", unread=0, way="websocket")
    assert (phone.troubles, desk.troubles) == ([], [])
