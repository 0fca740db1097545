"""The conversation: what was said, what is pinned, and the next turn.

It lives in memory and is written nowhere unless the person saves it. Past reasoning is kept for display
and left out of later prompts, as in training. When the conversation outgrows the model's context, the
oldest turns are dropped from the prompt, never from the conversation.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models import Model, Request, request_for
from compeer.reasoning import Control, Event, Parsed, Pins, Problem, StreamParser, edit, fields, violations
from compeer.reasoning.language import detect, words
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length


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
        self._draws = itertools.count()

    def language(self, said: str) -> Language:
        return self.settings.language or detect(said)

    async def say(self, text: str, control: Control | None = None) -> AsyncIterator[Event]:
        """Answer a new message; events as they are written, the finished turn is then the last one."""
        control = control or Control(self.settings.pins)
        async for event in self._answer(text, control, self.turns):
            yield event

    async def again(self, control: Control | None = None) -> AsyncIterator[Event]:
        """Answer the last message once more; the old answer is kept beside the new one."""
        last = self._last()
        control = control or Control(self.settings.pins)
        async for event in self._answer(last.said, control, self.turns[:-1]):
            yield event
        new = self.turns.pop()
        new.others = [*last.others, last]
        self.turns[-1] = new

    async def edit(self, step: str, text: str | None = None, **labels: str | int) -> AsyncIterator[Event]:
        """Change a step of the last answer and continue from there."""
        last = self._last()
        if last.parsed.reasoning is None:
            raise UserError("The last answer has no complete reasoning to edit; ask for another with /again.")
        control = edit(last.parsed.reasoning, step, text, **labels)
        async for event in self.again(control):
            yield event

    def request(self, text: str, control: Control, before: list[Turn]) -> Request:
        history: list[dict[str, Any]] = []
        left = self.settings.budget - len(words(text))
        for turn in reversed(before):
            left -= len(words(turn.said)) + len(words(turn.parsed.response))
            if left < 0:
                break
            answer = {"role": "assistant", "content": turn.parsed.response}
            history[:0] = [{"role": "user", "content": turn.said}, answer]
        history.append({"role": "user", "content": text})
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

    def as_dict(self) -> dict[str, Any]:
        """The whole conversation, readable and parsable."""
        return {
            "model": self.model.name,
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "turns": [{"said": turn.said, **fields(turn.parsed, turn.raw)} for turn in self.turns],
        }

    def save(self, path: str | Path) -> Path:
        """Write the conversation to a file that only this user can read."""
        target = Path(path).expanduser()
        if target.exists():
            raise UserError(f"{target} exists; choose another name, nothing was overwritten.")
        text = json.dumps(self.as_dict(), ensure_ascii=False, indent=2)
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            raise UserError(f"{target} cannot be written: {error.strerror}.") from None
        return target

    async def _answer(self, text: str, control: Control, before: list[Turn]) -> AsyncIterator[Event]:
        request = self.request(text, control, before)
        parser = StreamParser()
        async for piece in self.model.stream(request):
            for event in parser.feed(piece):
                yield event
        for event in parser.finish():
            yield event
        parsed = parser.parsed
        problems = (*parsed.problems, *violations(parsed, control))
        self.turns.append(Turn(text, parser.raw, parsed, problems, control))

    def _last(self) -> Turn:
        if not self.turns:
            raise UserError("Nothing has been said yet.")
        return self.turns[-1]
