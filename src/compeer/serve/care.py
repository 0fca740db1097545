"""Safety around one turn of a server that remembers nothing.

Risk is computed anew from everything the person has said in this request, so it is as sticky as in a conversation that
is kept. While it is high the model is told what matters, the helpline stands in `compeer.safety` from the first chunk
on and in the content itself, after the model's words or before ours, so that every client shows it; and a model that
fails, refuses or does harm is answered for. Findings are remembered by a hash of the message, so that a long
conversation is not screened again with each turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import Any, cast

import msgspec

from compeer.errors import UserError
from compeer.models import Request
from compeer.reasoning import Event
from compeer.safety import Finding, Guarded, Risk, screen
from compeer.safety.crisis import written
from compeer.safety.helplines import SEVERAL, helplines, lines
from compeer.safety.helplines import country as country_of
from compeer.safety.notice import Breaks
from compeer.safety.outgoing import review
from compeer.serve.asked import Asked
from compeer.serve.refusal import Refused, bad

_MOST = 4096
_findings: dict[bytes, Finding] = {}


class Care:
    """What was found in the person's messages, and what follows from it."""

    def __init__(self, question: Asked, guarded: Guarded, risk: Risk, banner: str | None, reminder: str | None) -> None:
        self.question, self.risk = question, risk
        self.level, self.urgent = risk.level, risk.level == "high"
        self._guarded, self._banner, self._reminder = guarded, banner, reminder
        self._lines = tuple(lines(country_of(question.country, question.language), question.language))
        self._ours = {written(risk, question.language, time) for time in range(2)}
        self._said = False  # the helpline, in the content
        self.hidden: list[str] = []  # steps whose rest was not told

    async def stream(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events that may be shown. What is ours comes with the helpline before it, the model's with it after."""
        replied = False
        async with aclosing(cast(AsyncGenerator[Event, None], self._guarded.stream(events))) as shown:
            async for event in shown:
                if event.kind == "reply" and (ours := event.text.strip()) in self._ours:
                    yield Event("reply", None, ("\n\n" if replied else "") + f"{self._helpline()}\n\n{ours}")
                else:
                    yield event
                replied = replied or event.kind == "reply"
        after = self._guarded.after()
        if self.urgent and not self._said:
            yield Event("reply", None, f"\n\n{self._helpline()}")
            if after.check_in:
                yield Event("reply", None, f"\n\n{after.check_in}")

    async def instead(self, failure: Refused) -> AsyncIterator[Event]:
        """A turn without the model."""

        async def failed() -> AsyncIterator[Event]:
            raise failure
            yield Event("reply")

        async for event in self.stream(failed()):
            yield event

    @property
    def error(self) -> str | None:
        """What failed, where the turn was answered without the model."""
        return self._guarded.after().error

    def as_dict(self) -> dict[str, Any]:
        after = self._guarded.after()
        told: dict[str, Any] = {"level": self.level, "banner": self._banner}
        told["helpline"] = list(self._lines) if self.level != "none" or after.replaced else None
        more = {"replaced": after.replaced, "note": after.note, "hidden": self.hidden, "reminder": self._reminder}
        return told | {name: value for name, value in more.items() if value}

    def _helpline(self) -> str:
        self._said = True
        return self._lines[0]


async def care_for(question: Asked) -> tuple[Care, Request]:
    """Screen what was said; the request, with what a supporter must know now."""
    breaks = Breaks(minutes=0)
    try:
        guarded = Guarded(country=question.country, breaks=breaks)
    except UserError as problem:
        raise bad(str(problem), "compeer.country") from None
    risk = Risk()
    for text in question.said[:-1]:
        risk = risk.after(_finding(text))
        breaks.after_message(question.language)
    guarded.recall(risk, question.replied)
    before = await guarded.before(question.said[-1], question.language)
    banner = str(before.banner) if before.banner else None
    request = question.request
    if before.guidance:
        first, *rest = request.messages
        told = {**first, "content": f"{first['content']}\n\n{before.guidance}"}
        request = msgspec.structs.replace(request, messages=[told, *rest])
    return Care(question, guarded, before.risk, banner, before.reminder), request


def warm() -> None:
    """Read the lexicons before the first person comes."""
    for text in ("warm", "暖"):
        screen(text)
        review(text)


def without_helpline(reply: str) -> str:
    """An old reply without the helpline that we put into it: the model must not learn to write it."""
    kept = [line for line in reply.split("\n") if line.strip() not in _all_lines()]
    return "\n".join(kept).strip()


@cache
def _all_lines() -> frozenset[str]:
    places = [None, *SEVERAL, *helplines()]
    return frozenset(lines(place, language)[0] for place in places for language in ("en", "zh"))


def _finding(text: str) -> Finding:
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    found = _findings.get(key)
    if found is None:
        if len(_findings) >= _MOST:
            _findings.clear()
        found = _findings[key] = msgspec.structs.replace(screen(text), spans=())
    return found
