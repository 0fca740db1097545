"""The conversation: what was said, what is pinned, and the next turn.

It lives in memory and is written nowhere unless the person saves it. Past reasoning is kept for display
and left out of later prompts, as in training. When the conversation outgrows the model's context, the
oldest turns are dropped from the prompt, never from the conversation. A message that got no answer (the
server was away, the person stopped it) is remembered, and asking again answers it.

Every message and every answer passes through `compeer.safety`: what comes out of `say` is safe to show. An answer
that was held back is replaced in the turn as well, so it is neither shown later, nor saved, nor in later prompts.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from compeer.errors import UserError
from compeer.models import Model, Request, request_for
from compeer.reasoning import Control, Event, Parsed, Pins, Problem, StreamParser, edit, fields, violations
from compeer.reasoning.ontology import Language, detect, words
from compeer.reasoning.prompt import Length
from compeer.safety import After, Before, Guarded

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
    safety: After = After()
    images: tuple[str, ...] = ()  # pictures that came with the message, as `models.Request` names them
    model: str = ""  # which one wrote the answer


class Conversation:
    """Turns so far, and the ways to get another."""

    def __init__(self, model: Model, settings: Settings, guarded: Guarded | None = None) -> None:
        self.model, self.settings, self.guarded = model, settings, guarded or Guarded()
        self.on_before: Callable[[Before], None] = lambda before: None  # told what to show before the model is asked
        self.turns: list[Turn] = []
        self.unanswered: str | None = None
        self.unanswered_images: tuple[str, ...] = ()
        self._draws = itertools.count()

    def language(self, said: str) -> Language:
        """The language of the answer: the chosen one, else that of the message, else ("…", "👍") the last one's."""
        if self.settings.language:
            return self.settings.language
        before = [turn.said for turn in reversed(self.turns)]
        return detect(next((text for text in (said, *before) if words(text)), said))

    async def say(
        self, text: str, control: Control | None = None, images: tuple[str, ...] = ()
    ) -> AsyncIterator[Event]:
        """Answer a new message; events as they are written, the finished turn is then the last one."""
        self.unanswered, self.unanswered_images = text, images
        before = await self.guarded.before(text, self.language(text))
        async for event in self._answer(text, control or Control(self.settings.pins), self.turns, before, images):
            yield event
        self.unanswered, self.unanswered_images = None, ()

    async def again(self, control: Control | None = None) -> AsyncIterator[Event]:
        """Answer the last message once more; the old answer, if it got one, is kept beside the new one."""
        control = control or Control(self.settings.pins)
        if (text := self.unanswered) is not None:
            before = self.guarded.again(self.language(text))
            async for event in self._answer(text, control, self.turns, before, self.unanswered_images):
                yield event
            self.unanswered, self.unanswered_images = None, ()
            return
        last = self._last()
        before = self.guarded.again(self.language(last.said))
        async for event in self._answer(last.said, control, self.turns[:-1], before, last.images):
            yield event
        new = self.turns.pop()
        new.others = [*last.others, last]
        self.turns[-1] = new

    async def edit(self, step: str, text: str | None = None, **labels: str | int) -> AsyncIterator[Event]:
        """Change a step of the last answer and continue from there; pins hold for what is written anew."""
        last = self._last()
        self.unanswered, self.unanswered_images = None, ()  # the answer on the screen is meant
        if last.parsed.reasoning is None:
            raise UserError("The last answer has no complete reasoning to edit; ask for another with /again.")
        edited = edit(last.parsed.reasoning, step, text, **labels)
        # not `Pins.of`: what the model concluded before stands, even where its sentiment and emotion do not fit
        pins = Pins(**(dict(self.settings.pins.items()) | dict(edited.pins.items())))  # type: ignore[arg-type]
        async for event in self.again(Control(pins, edited.given)):
            yield event

    def request(
        self,
        text: str,
        control: Control,
        before: list[Turn],
        guidance: str | None = None,
        images: tuple[str, ...] = (),
    ) -> Request:
        """The prompt: as many of the latest turns as the budget allows, replies without their reasoning.

        Pictures go along where the model sees. `guidance` stands at the end of the instructions: what to mind when
        someone may be in danger.
        """
        left = self.settings.budget - len(words(text))
        kept: list[Turn] = []
        for turn in reversed(before):
            left -= len(words(turn.said)) + len(words(turn.parsed.response))
            if left < 0:
                break
            kept.insert(0, turn)
        history: list[dict[str, Any]] = []
        said: list[str] = []
        shown: list[str] = []
        for turn in kept:
            said.append(turn.said)
            shown += turn.images
            if turn.parsed.response:  # servers refuse empty replies and two user turns in a row
                history.append({"role": "user", "content": self._content(said, shown)})
                history.append({"role": "assistant", "content": turn.parsed.response})
                said.clear()
                shown.clear()
        history.append({"role": "user", "content": self._content([*said, text], [*shown, *images])})
        seed = self.settings.seed
        request = request_for(
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
        if guidance is None:
            return request
        system, *rest = request.messages
        messages = [{**system, "content": f"{system['content']}\n\n{guidance}"}, *rest]
        return msgspec.structs.replace(request, messages=messages)

    def forget(self) -> None:
        """Begin again: nothing that was said is left; pins stay."""
        self.turns.clear()
        self.unanswered, self.unanswered_images = None, ()
        self.guarded.forget()

    def as_dict(self) -> dict[str, Any]:
        """The whole conversation, readable and parsable."""
        return {
            "model": self.model.name,
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "turns": [
                {"said": turn.said, **({"images": list(turn.images)} if turn.images else {})}
                | {**_fields(turn), "others": [_fields(other) for other in turn.others]}
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

    def _content(self, said: list[str], images: list[str]) -> str | list[dict[str, str]]:
        text = "\n".join(said)
        if not images or not self.model.sees:
            return text
        return [*({"type": "image", "path": image} for image in images), {"type": "text", "text": text}]

    async def _answer(
        self, text: str, control: Control, past: list[Turn], before: Before, images: tuple[str, ...] = ()
    ) -> AsyncIterator[Event]:
        self.on_before(before)
        model = self.model
        request = self.request(text, control, past, before.guidance, images)
        parser = StreamParser()
        length = 0

        async def written() -> AsyncIterator[Event]:
            nonlocal length
            stream = cast(AsyncGenerator[str, None], model.stream(request))  # every home writes it with `yield`
            async with aclosing(stream) as pieces:  # leaving early ends the work at once, not when it is collected
                async for piece in pieces:
                    for event in parser.feed(piece):
                        yield event
                    length += len(piece)
                    if length > LONGEST:
                        break
            for event in parser.finish():
                yield event

        async with aclosing(cast(AsyncGenerator[Event, None], self.guarded.stream(written()))) as safe:
            async for event in safe:
                yield event
        parsed = parser.parsed
        problems = (*parsed.problems, *violations(parsed, control))
        if length > LONGEST:
            problems = (Problem("endless", f"it did not stop, and was cut after {LONGEST:,} characters"), *problems)
        turn = Turn(text, parser.raw, parsed, problems, control, safety=self.guarded.after())
        turn.images, turn.model = images, model.name
        self.turns.append(withheld(turn))

    def _last(self) -> Turn:
        if not self.turns:
            raise UserError("Nothing has been said yet.")
        return self.turns[-1]


def withheld(turn: Turn) -> Turn:
    """The turn without what must not be shown: our reply in the place of the model's, no unsafe steps."""
    safety, parsed = turn.safety, turn.parsed
    if not safety.replaced and not safety.hidden:
        return turn
    reply = safety.reply if safety.replaced else parsed.response
    texts = {step: text for step, text in parsed.texts.items() if step not in safety.hidden and not safety.replaced}
    problem = Problem("withheld", safety.note or "a step of the thinking was held back: it could do harm")
    kept = Parsed(
        complete=False,
        problems=(problem,),
        reasoning=None,
        response=reply,
        texts=texts,
        labels=parsed.labels if texts else {},
        language=parsed.language,
    )
    return msgspec.structs.replace(turn, raw=reply, parsed=kept, problems=(problem,))


def _fields(turn: Turn) -> dict[str, Any]:
    problems = [str(problem) for problem in turn.problems]
    return fields(turn.parsed, turn.raw) | {"complete": not problems, "problems": problems}
