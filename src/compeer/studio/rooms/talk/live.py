"""One person's conversation while it lasts: what `compeer.chat` keeps, and what a page needs besides.

An answer is written by a task of its own, so that the helpline can be shown before the model has said a word, and so
that deleting everything ends it. Whoever reads the answer and leaves ends it too: the message is then unanswered, and
can be answered after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

import msgspec

from compeer.chat import Conversation
from compeer.reasoning import Event
from compeer.safety import Before, Guarded
from compeer.safety.crisis import Banner
from compeer.studio.rooms.talk.pictures import MOST, Picture
from compeer.studio.rooms.talk.trouble import Trouble
from compeer.studio.rooms.talk.voices import Voice

#: seconds of silence after which the page is told that the answer is still being waited for
PULSE = 10.0


class Waiting(msgspec.Struct, frozen=True):
    """Nothing new yet."""


class Live:
    """A conversation in memory. `voice` is the number of the model that answers, `country` whose helplines show."""

    def __init__(self, conversation: Conversation, voice: int, country: str | None) -> None:
        self.conversation, self.voice, self.country = conversation, voice, country
        self.pictures: dict[str, Picture] = {}
        self.banner: Banner | None = None
        self.reminder: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._told: asyncio.Queue[Before | Event | None] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False
        conversation.on_before = self._before

    @property
    def busy(self) -> bool:
        return self._work is not None

    def end(self) -> None:
        """Nothing of it is left, not even half an answer."""
        self._ended = True
        if self._work is not None:
            self._work.cancel()
        self.conversation.forget()
        self.pictures.clear()
        self.banner = self.reminder = None

    async def stop(self) -> None:
        """End the answer that is being written, if there is one; the message stays without one."""
        if self._work is not None:
            self._work.cancel()
        await self._idle.wait()

    def speak(self, voice: int, with_: Voice) -> None:
        """Another model answers from now on."""
        self.voice, self.conversation.model, self.conversation.settings.prompt = voice, with_.model, with_.prompt

    def move(self, country: str | None) -> None:
        """Helplines of another country from now on; what is known of the risk stays."""
        old = self.conversation.guarded
        new = Guarded(country=country, guard=old.guard, breaks=old.breaks)
        new.risk = old.risk
        self.country, self.conversation.guarded = country, new

    def attach(self, picture: Picture) -> None:
        """A picture for the next message; those that no message used make way for it."""
        used = self._used()
        self.pictures = {key: kept for key, kept in self.pictures.items() if kept.address in used}
        if picture.key not in self.pictures and len(self.pictures) >= MOST:
            raise Trouble("picture_many", 413, most=MOST)
        self.pictures[picture.key] = picture

    def attached(self, keys: list[str]) -> tuple[str, ...]:
        """The pictures that a message names, as models take them."""
        if not all(key in self.pictures for key in keys):
            raise Trouble("elsewhere")
        return tuple(self.pictures[key].address for key in dict.fromkeys(keys))

    def keys_of(self, images: tuple[str, ...]) -> list[str]:
        return [key for image in images for key, kept in self.pictures.items() if kept.address == image]

    def choose(self, which: int) -> None:
        """Go on with an earlier answer to the last message; the present one stays beside it."""
        turns = self.conversation.turns
        if not turns or not 0 <= which < len(turns[-1].others):
            raise Trouble("elsewhere")
        last = turns[-1]
        others = [other for number, other in enumerate(last.others) if number != which]
        chosen = last.others[which]
        last.others = []
        chosen.others = [*others, last]
        turns[-1] = chosen

    async def answer(self, events: AsyncIterator[Event]) -> AsyncGenerator[Before | Event | Waiting, None]:
        """Events of an answer that is being written; leaving ends the work. Errors of the model are raised."""
        if self._work is not None:
            raise Trouble("busy")
        told = self._told = asyncio.Queue()
        work = self._work = asyncio.create_task(self._write(events))
        self._idle.clear()
        work.add_done_callback(self._done)
        try:
            while True:
                try:
                    async with asyncio.timeout(PULSE):
                        event = await told.get()
                except TimeoutError:
                    yield Waiting()
                    continue
                if event is None:
                    break
                yield event
            if self._ended:
                raise Trouble("gone", 410)
            if work.cancelled():
                raise Trouble("stopped")
            if error := work.exception():
                raise error
            self.banner = self.conversation.turns[-1].safety.banner or self.banner
        finally:
            work.cancel()

    def _done(self, work: asyncio.Task[None]) -> None:
        """However the work ended, and whether anyone still reads: the conversation is free again."""
        self._work = None
        self._idle.set()
        self._told.put_nowait(None)
        if not work.cancelled():
            work.exception()  # whoever reads raises it; when nobody does, it needs no line in the log
        if self._ended:  # an answer may have come in after all was deleted
            self.conversation.forget()

    async def _write(self, events: AsyncIterator[Event]) -> None:
        async with aclosing(cast(AsyncGenerator[Event, None], events)) as pieces:
            async for event in pieces:
                self._told.put_nowait(event)

    def _before(self, before: Before) -> None:
        self.banner = before.banner or self.banner
        self.reminder = before.reminder
        self._told.put_nowait(before)

    def _used(self) -> set[str]:
        turns = self.conversation.turns
        return {image for turn in turns for image in turn.images} | set(self.conversation.unanswered_images)
