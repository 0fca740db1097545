"""How many files of the package one chat turn through the server passes: a reader has to open each of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType

import aiohttp
from aiohttp.test_utils import TestServer
from tests.conversation.supporter import Supporter

import compeer
from compeer.conversation.requests import ServerSettings
from compeer.conversation.server import ConversationServer
from compeer.models import open_model

PACKAGE = Path(compeer.__file__).parent


def files_of_a_turn(supporter: Supporter) -> tuple[set[str], set[str]]:
    """Files whose functions run between a request and the end of its answer: all of them, and the doors: those of the
    conversation itself and those that it calls directly. What lies behind a door is read when the door is of interest.
    """
    every: set[str] = set()
    doors: set[str] = set()

    def of_conversation(name: str) -> bool:
        return name.startswith((str(PACKAGE / "conversation"), str(PACKAGE / "http_service.py")))

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)):
            short = str(Path(name).relative_to(PACKAGE))
            every.add(short)
            if of_conversation(name) or (frame.f_back and of_conversation(frame.f_back.f_code.co_filename)):
                doors.add(short)

    async def scenario() -> None:
        server = ConversationServer(
            open_model("openai:kind-7b", base_url=supporter.base_url), ServerSettings(name="kind-7b")
        )
        await server.load()
        body = {"messages": [{"role": "user", "content": "I lost my job."}], "stream": True}
        async with TestServer(server.application()) as place, aiohttp.ClientSession() as client:
            for counted in (False, True):  # the first one reads lexicons and fills caches
                sys.setprofile(note if counted else None)
                try:
                    async with client.post(place.make_url("/v1/chat/completions"), json=body) as answer:
                        text = await answer.text()
                finally:
                    sys.setprofile(None)
                assert answer.status == 200 and text.endswith("data: [DONE]\n\n")
        await server.model.close()

    asyncio.run(scenario())
    return every, doors


def test_a_turn_passes_few_files(supporter: Supporter) -> None:
    """34 and 24 before the engine was one."""
    every, doors = files_of_a_turn(supporter)
    print(len(every), len(doors), *sorted(every), sep="\n")
    assert len(doors) <= 18, "\n".join(sorted(doors))
    assert len(every) <= 28, "\n".join(sorted(every))
