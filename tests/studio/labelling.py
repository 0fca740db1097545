"""What the tests, pictures and measurements of labelling share: items to label, people who enter, votes over HTTP."""

from __future__ import annotations

import html
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.people.labelling import item
from tests.studio.serving import begin_in, csrf

from compeer.cer.gold import load
from compeer.cer.item import Item

__all__ = ["Page", "begin", "hand_in", "item", "png", "real_items"]


def real_items(count: int, images: Path | None = None) -> list[Item]:
    """Moments of the gold set without their votes; with a folder, the first has two pictures."""
    found = [msgspec.structs.replace(one, votes=(), labels=type(one.labels)(), label_source=None) for one in load()]
    english = [one for one in found if one.language == "en" and len(one.history) > 4]
    chosen = (english + found)[:count]
    chosen = [msgspec.structs.replace(one, id=f"{n}/{one.id}") for n, one in enumerate(chosen)]
    if images is not None:
        for name, shade in (("window.png", 160), ("table.png", 120)):
            (images / name).write_bytes(png(480, 270, shade))
        first, *rest = chosen[0].history
        seen = msgspec.structs.replace(first, images=("window.png", "table.png"))
        chosen[0] = msgspec.structs.replace(chosen[0], history=(seen, *rest))
    return chosen


def png(width: int, height: int, shade: int) -> bytes:
    """A calm grey picture, lighter towards the top."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(bytes([0]) + bytes([min(255, shade + 80 - 80 * y // height)]) * width for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Page:
    """A labelling page as a program reads it."""

    def __init__(self, text: str) -> None:
        self.text = text
        action = re.search(r'action="/label/items/(\d+)"', text)
        self.item = int(action.group(1)) if action else None
        self.questions = re.findall(r'data-question="(\w+)"', text)

    def field(self, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found, name
        return html.unescape(found.group(1))

    def place(self, wanted: str) -> str:
        """A preference by the place where that reply stands."""
        if wanted in ("both", "neither", "unsure"):
            return wanted
        replies = re.findall(r'<p class="said" dir="auto" lang="\w+">(CAND|REF)', self.text)
        return "first" if replies[0] == {"candidate": "CAND", "reference": "REF"}[wanted] else "second"

    def answers(self, wanted: Mapping[str, Any]) -> dict[str, str]:
        """What is asked of what somebody thinks, as the form sends it."""
        return {
            question: self.place(wanted[question]) if question == "preference" else str(wanted[question]).lower()
            for question in self.questions
        }


def begin(client: httpx.Client, token: str) -> Page:
    """Sign in by a personal link, read the warning, and get the first item."""
    return Page(begin_in("label", client, token).text)


def hand_in(client: httpx.Client, page: Page, wanted: Mapping[str, Any], **more: str) -> httpx.Response:
    form = {"csrf": csrf(page.text), "form": page.field("form"), "shown": page.field("shown"), **page.answers(wanted)}
    return client.post(f"/label/items/{page.item}", data=form | more)
