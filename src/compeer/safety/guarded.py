"""A guarded conversation: what every way of talking (terminal, server, page) does around each turn.

    guarded = Guarded(country="GB")
    before = await guarded.before(message, "en")      # screens it; what to show and what to add to the prompt
    async for event in guarded.stream(events): ...    # the model's events, safe to show
    after = guarded.after()                           # what was held back, what else to show

`before.banner` is to be shown at once, before the model is asked, and `before.guidance` to be added to the system
prompt. `stream` passes on events of `compeer.reasoning`: reasoning a step at a time, the reply by the sentence (in a
crisis as a whole). What is unsafe is not passed on, and a reply of ours takes its place. In a crisis a model that
fails is answered for as well: the conversation goes on whatever happens.

One object a conversation; a new conversation is a new object, or `forget()`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import msgspec

from compeer.errors import UserError
from compeer.reasoning import Event
from compeer.safety import crisis
from compeer.safety.helplines import country as country_of
from compeer.safety.notice import Breaks, opening
from compeer.safety.outgoing import Held, Unsafe, asks, broken, review
from compeer.safety.risk import Risk
from compeer.safety.screen import Finding, screen

if TYPE_CHECKING:
    from compeer.safety.guard import Guard


class Before(msgspec.Struct, frozen=True):
    """What a message led to, before it is answered."""

    finding: Finding
    risk: Risk
    banner: crisis.Banner | None = None
    guidance: str | None = None
    reminder: str | None = None


class After(msgspec.Struct, frozen=True):
    """What became of an answer. `replaced`: why ours stands in its place; `hidden`: steps that are not shown."""

    reply: str = ""
    replaced: str | None = None
    note: str | None = None  # says that the reply is ours, and why
    hidden: tuple[str, ...] = ()
    check_in: str | None = None  # a question of ours, where the model did not ask about safety
    error: str | None = None  # what failed, where the model gave no answer
    banner: crisis.Banner | None = None  # to be shown now, where it was not shown before the answer


class Guarded:
    """The safety of one conversation."""

    def __init__(self, *, country: str | None = None, guard: Guard | None = None, breaks: Breaks | None = None) -> None:
        country_of(country)  # a wrong code is said at once
        self._country, self.guard, self.breaks = country, guard, breaks or Breaks()
        self.forget()

    def forget(self) -> None:
        """Begin again: what was known of this person is gone."""
        self.risk = Risk()
        self._language = "en"
        self._replies = 0  # of ours
        self._asked = False  # about safety, since risk became high
        self._after = After()

    def recall(self, risk: Risk, replies: Sequence[str]) -> None:
        """Take up a conversation that was not kept here: what was known of the person, and what they were answered."""
        self.risk = risk
        ours = {crisis.written(risk, language, time) for language in ("en", "zh") for time in range(2)}
        self._replies = sum(any(one in reply for one in ours) for reply in replies)
        self._asked = any(asks(reply) for reply in replies)

    def notice(self, language: str = "en") -> str:
        """The words that open a conversation."""
        return opening(country_of(self._country, language if language == "zh" else None), language)

    async def before(self, message: str, language: str) -> Before:
        """Screen a new message."""
        finding = screen(message)
        if self.guard is not None:
            finding = await self.guard.raised(message, finding)
        if self.risk.level != "high":
            self._asked = False
        self.risk = self.risk.after(finding)
        return self._stance(language, finding, self.breaks.after_message(language))

    def again(self, language: str) -> Before:
        """The same for a message that is answered once more: nothing new is known."""
        return self._stance(language, Finding(), None)

    def _stance(self, language: str, finding: Finding, reminder: str | None) -> Before:
        self._language = language
        where = country_of(self._country, language)
        return Before(
            finding,
            self.risk,
            crisis.banner(self.risk, where, language),
            crisis.guidance(self.risk, where, language),
            None if self.risk.level == "high" else reminder,
        )

    async def stream(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events that may be shown; `after` tells what was not."""
        urgent = self.risk.level == "high"
        reply = Held(self.risk.level, whole=urgent)
        thinking: list[Event] = []
        hidden: list[str] = []
        error: str | None = None
        self._after = After()
        try:
            async with aclosing(cast(AsyncGenerator[Event, None], events)) as pieces:
                async for event in pieces:
                    if event.kind == "reply":
                        if safe := reply.feed(event.text):
                            yield Event("reply", None, safe)
                        if reply.unsafe:
                            break
                    elif event.kind in ("text", "label"):
                        thinking.append(event)
                    else:
                        for held in self._thought(thinking, hidden):
                            yield held
                        thinking.clear()
                        yield event
        except UserError as problem:
            if not urgent:
                raise
            error = str(problem)
        for held in self._thought(thinking, hidden):
            yield held
        why = self._verdict(reply, urgent, error)
        if why is None:
            if rest := reply.finish():
                yield Event("reply", None, rest)
            why = reply.unsafe
        if why is None:
            self._after = After(reply.text, None, None, tuple(hidden), self._check_in(reply.text))
            return
        ours = crisis.written(self.risk, self._language, self._replies)
        self._replies += 1
        self._asked = self._asked or urgent
        shown = reply.shown.rstrip()
        yield Event("reply", None, ("\n\n" if shown else "") + ours)
        note = crisis.instead(why, self._language)
        where = country_of(self._country, self._language)
        banner = None if urgent else crisis.helplines(self.risk, where, self._language)
        self._after = After("\n\n".join(filter(None, (shown, ours))), why, note, tuple(hidden), None, error, banner)

    def after(self) -> After:
        """What became of the answer that was streamed last."""
        return self._after

    def _thought(self, thinking: list[Event], hidden: list[str]) -> list[Event]:
        """The events of a step, or nothing when its text must not be shown."""
        text = "".join(event.text for event in thinking if event.kind == "text")
        if text and review(text, "none"):
            hidden += [event.step for event in thinking[:1] if event.step]
            return []
        return list(thinking)

    def _verdict(self, reply: Held, urgent: bool, error: str | None) -> str | None:
        if error is not None:
            return "failed"
        if reply.unsafe or not urgent:
            return reply.unsafe
        found: Unsafe | None = broken(reply.text) or review(reply.text, self.risk.level)
        return found

    def _check_in(self, reply: str) -> str | None:
        """Our question, once, where risk is high and nobody has asked yet."""
        if self.risk.level != "high" or self._asked:
            return None
        self._asked = True
        return None if asks(reply) else crisis.check_in(self._language)
