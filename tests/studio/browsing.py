"""Chromium, as it is installed on the machine, with everything that a page complains about written down; and pictures."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PHONE = {"width": 360, "height": 740}
COMMON_PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 860}
COLOURS, HIGHEST = 128, 1150  # of a picture
_TOUCHED: dict[str, Any] = {"viewport": COMMON_PHONE, "has_touch": True, "is_mobile": True}
#: how pictures are taken; the phone is Chinese in light and English in dark colours
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {**_TOUCHED, "color_scheme": "light", "locale": "zh-CN"},
    "phone-dark": {**_TOUCHED, "color_scheme": "dark"},
}


def looks() -> dict[str, dict[str, Any]]:
    """The looks that the documentation shows; all of them where the command ends in "all", to look at."""
    return LOOKS if sys.argv[2:] == ["all"] else {name: LOOKS[name] for name in ("light", "dark", "phone")}


def shoot(page: Any, file: Path, *, whole: bool = False) -> None:
    """A picture of the window or of the whole page, for the documentation with few colours and cut off below."""
    from PIL import Image

    options: dict[str, Any] = {"full_page": whole}
    if whole and sys.argv[2:] != ["all"]:
        size = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        options["clip"] = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], HIGHEST)}
    taken = Image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")
    counts = sorted(taken.getcolors(1 << 24), reverse=True)  # the most frequent colours stay as they are
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in counts[:COLOURS] for part in colour])
    taken.quantize(palette=palette, dither=Image.Dither.NONE).save(file, optimize=True)


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
