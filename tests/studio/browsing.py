"""Chromium, as it is installed on the machine, with everything that a page complains about written down."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

PHONE = {"width": 360, "height": 740}
COMMON_PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 860}


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser to open windows in. While it is open this thread has an event loop, and nothing else can have one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


@contextlib.contextmanager
def window(opened: Any, address: str, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page of a fresh person, and what went wrong on it: errors, refused scripts, requests that leave or fail."""
    context = opened.new_context(base_url=address, **{"viewport": DESK, "locale": "en-GB", **options})
    wrong: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda asked: None if asked.url.startswith((address, "data:", "blob:")) else wrong.append(asked.url)
    )
    page.on("response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None)
    try:
        yield page, wrong
    finally:
        context.close()
