"""The real studio on a real port, in a thread of this process."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from compeer.studio.app import bind, create_app
from compeer.studio.pages import Room
from compeer.studio.rooms import runs
from compeer.studio.settings import StudioSettings

TOKEN = "a-token-of-the-coordinator-for-tests"


@contextlib.contextmanager
def studio(data: Path, rooms: Sequence[Room] | None = None, **settings: Any) -> Iterator[str]:
    """Its address, while it runs."""
    app = create_app(StudioSettings(data=data, **settings), rooms)
    listening = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def eventually(true: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@contextlib.contextmanager
def runs_studio(data: Path, **settings: Any) -> Iterator[str]:
    """The studio with the room Runs alone."""
    with studio(data, [runs.open_room(StudioSettings(data=data, **settings))], **settings) as address:
        yield address


def browser_of(address: str, **headers: str) -> httpx.Client:
    """A client that keeps cookies and asks for pages, as a browser does."""
    return httpx.Client(base_url=address, headers={"accept": "text/html", **headers}, timeout=20)


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" content="([0-9a-f]+)"', page)
    assert found, page[:500]
    return found.group(1)


def enter(client: httpx.Client, token: str = TOKEN) -> httpx.Response:
    """Press the button on the page of a personal link."""
    page = client.get(f"/enter/{token}")
    return client.post("/enter", data={"csrf": csrf(page.text), "token": token})


def begin_in(room: str, client: httpx.Client, token: str) -> httpx.Response:
    """Sign in by a personal link, read the warning, and get the first page of work."""
    assert enter(client, token).status_code == 303
    welcome = client.get(f"/{room}")
    assert client.post(f"/{room}/begin", data={"csrf": csrf(welcome.text)}).status_code == 303
    return client.get(f"/{room}/work")
