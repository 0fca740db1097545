"""The conversation: what was said, what is pinned, and the next turn.

It lives in memory and is written nowhere unless the person saves it. Past reasoning is kept for display
and left out of later prompts, as in training. When the conversation outgrows the model's context, the
oldest turns are dropped from the prompt, never from the conversation. A message that got no answer (the
server was away, the person stopped it) is remembered, and asking again answers it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from compeer.errors import UserError
from compeer.models import Model, Request, request_for
from compeer.reasoning import Control, Event, Parsed, Pins, Problem, StreamParser, edit, fields, violations
from compeer.reasoning.language import detect, words
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length

#: characters of one answer, five times what the contract needs; a server that never stops is cut here
LONGEST = 12_000


class Settings(msgspec.Struct, kw_only=True):
    """How to answer; `language` None follows the person."""

    pins: Pins = Pins()
    language: Language | None = None
    temperature: float = 0.7
    top_p: float = 0.95
    penalty: float = 1.05
    seed: int | None = None
    prompt: Length = "full"
    grammar: bool = True
    budget: int = 1500  # words of history in a prompt


class Turn(msgspec.Struct):
    """A message and its answer; earlier answers to the same message stay in `others`."""

    said: str
    raw: str
    parsed: Parsed
    problems: tuple[Problem, ...]
    control: Control
    others: list[Turn] = []


class Conversation:
    """Turns so far, and the ways to get another."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.turns: list[Turn] = []
        self.unanswered: str | None = None
        self._draws = itertools.count()

    def language(self, said: str) -> Language:
        """The language of the answer: the chosen one, else that of the message, else ("…", "👍") the last one's."""
        if self.settings.language:
            return self.settings.language
        before = [turn.said for turn in reversed(self.turns)]
        return detect(next((text for text in (said, *before) if words(text)), said))

    async def say(self, text: str, control: Control | None = None) -> AsyncIterator[Event]:
        """Answer a new message; events as they are written, the finished turn is then the last one."""
        self.unanswered = text
        async for event in self._answer(text, control or Control(self.settings.pins), self.turns):
            yield event
        self.unanswered = None

    async def again(self, control: Control | None = None) -> AsyncIterator[Event]:
        """Answer the last message once more; the old answer, if it got one, is kept beside the new one."""
        if self.unanswered is not None:
            async for event in self.say(self.unanswered, control):
                yield event
            return
        last = self._last()
        async for event in self._answer(last.said, control or Control(self.settings.pins), self.turns[:-1]):
            yield event
        new = self.turns.pop()
        new.others = [*last.others, last]
        self.turns[-1] = new

    async def edit(self, step: str, text: str | None = None, **labels: str | int) -> AsyncIterator[Event]:
        """Change a step of the last answer and continue from there; pins hold for what is written anew."""
        last = self._last()
        self.unanswered = None  # the answer on the screen is meant
        if last.parsed.reasoning is None:
            raise UserError("The last answer has no complete reasoning to edit; ask for another with /again.")
        edited = edit(last.parsed.reasoning, step, text, **labels)
        # not `Pins.of`: what the model concluded before stands, even where its sentiment and emotion do not fit
        pins = Pins(**(dict(self.settings.pins.items()) | dict(edited.pins.items())))  # type: ignore[arg-type]
        async for event in self.again(Control(pins, edited.given)):
            yield event

    def request(self, text: str, control: Control, before: list[Turn]) -> Request:
        """The prompt: as many of the latest turns as the budget allows, replies without their reasoning."""
        left = self.settings.budget - len(words(text))
        kept: list[Turn] = []
        for turn in reversed(before):
            left -= len(words(turn.said)) + len(words(turn.parsed.response))
            if left < 0:
                break
            kept.insert(0, turn)
        history: list[dict[str, Any]] = []
        said: list[str] = []
        for turn in kept:
            said.append(turn.said)
            if turn.parsed.response:  # servers refuse empty replies and two user turns in a row
                history.append({"role": "user", "content": "\n".join(said)})
                history.append({"role": "assistant", "content": turn.parsed.response})
                said.clear()
        history.append({"role": "user", "content": "\n".join([*said, text])})
        seed = self.settings.seed
        return request_for(
            history,
            self.language(text),
            control,
            length=self.settings.prompt,
            grammar=self.settings.grammar,
            temperature=self.settings.temperature,
            top_p=self.settings.top_p,
            penalty=self.settings.penalty,
            seed=None if seed is None else seed + next(self._draws),
        )

    def forget(self) -> None:
        """Begin again: nothing that was said is left; pins stay."""
        self.turns.clear()
        self.unanswered = None

    def as_dict(self) -> dict[str, Any]:
        """The whole conversation, readable and parsable."""
        return {
            "model": self.model.name,
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "turns": [
                {"said": turn.said, **_fields(turn), "others": [_fields(other) for other in turn.others]}
                for turn in self.turns
            ],
        }

    def save(self, path: str | Path) -> Path:
        """Write the conversation to a file that only this user can read."""
        text = json.dumps(self.as_dict(), ensure_ascii=False, indent=2)
        target = Path(path)
        try:
            target = target.expanduser()
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        except FileExistsError:
            raise UserError(f"{target} exists; choose another name, nothing was overwritten.") from None
        except (OSError, RuntimeError, ValueError) as error:  # a folder, an unknown ~user, a name no file can have
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UserError(f"{target} cannot be written: {why}.") from None
        return target

    async def _answer(self, text: str, control: Control, before: list[Turn]) -> AsyncIterator[Event]:
        request = self.request(text, control, before)
        parser = StreamParser()
        length = 0
        stream = cast(AsyncGenerator[str, None], self.model.stream(request))  # every home writes it with `yield`
        async with aclosing(stream) as pieces:  # leaving early ends the work at once, not when it is collected
            async for piece in pieces:
                for event in parser.feed(piece):
                    yield event
                length += len(piece)
                if length > LONGEST:
                    break
        for event in parser.finish():
            yield event
        parsed = parser.parsed
        problems = (*parsed.problems, *violations(parsed, control))
        if length > LONGEST:
            problems = (Problem("endless", f"it did not stop, and was cut after {LONGEST:,} characters"), *problems)
        self.turns.append(Turn(text, parser.raw, parsed, problems, control))

    def _last(self) -> Turn:
        if not self.turns:
            raise UserError("Nothing has been said yet.")
        return self.turns[-1]


def _fields(turn: Turn) -> dict[str, Any]:
    problems = [str(problem) for problem in turn.problems]
    return fields(turn.parsed, turn.raw) | {"complete": not problems, "problems": problems}
