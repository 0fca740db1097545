"""A conversation kept in memory: what was said, what is pinned, and the ways to get another turn.

It is written nowhere unless the person saves it. A message that got no answer (the server was away, the person stopped
it) is remembered, and asking again answers it. Turns are written by `engine.answer`, so everything here is safe to
show: an answer that was withheld is neither shown later, nor saved, nor in later prompts.

While risk is high there are no second answers and no edited steps: the analysis is put away, and what counts is to go
on talking.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from compeer.conversation.engine import (
    Assessed,
    Done,
    HistoryTurn,
    Sampling,
    TurnEvent,
    TurnRequest,
    TurnResult,
    answer,
    language_of,
)
from compeer.errors import UserError
from compeer.models import Model
from compeer.reasoning import Control, Pins, Problem, edit, fields, parse
from compeer.reasoning.ontology import Language
from compeer.safety import Assessment, ConversationGuard
from compeer.safety.messages import Breaks


class ChatSettings(msgspec.Struct, kw_only=True):
    """How to answer; `language` None follows the person."""

    pins: Pins = Pins()
    language: Language | None = None
    sampling: Sampling = Sampling()


class AnsweredTurn(msgspec.Struct):
    """A message and its answer; earlier answers to the same message are in `others`. `earlier`: what stood here, and
    what followed it, before the person rewrote the message."""

    said: str
    answer: TurnResult
    images: tuple[str, ...] = ()
    others: list[TurnResult] = []
    earlier: list[list[AnsweredTurn]] = []


#: in the place of an answer, where a message got none and the conversation went on
NO_ANSWER = TurnResult(
    reply="",
    raw="",
    parsed=parse(""),
    problems=(Problem("unanswered", "this message got no answer"),),
    control=Control(),
)


class ChatSession:
    """Turns so far, and the ways to get another. `assessment` is the latest one."""

    def __init__(self, model: Model, settings: ChatSettings, guard: ConversationGuard | None = None) -> None:
        self.model, self.settings, self.guard = model, settings, guard or ConversationGuard(breaks=Breaks())
        self.turns: list[AnsweredTurn] = []
        self.unanswered: HistoryTurn | None = None
        self.assessment = Assessment()
        self._draws = itertools.count()
        self._earlier: list[list[AnsweredTurn]] = []  # of the message that has no answer yet

    def say(
        self, text: str, control: Control | None = None, images: tuple[str, ...] = ()
    ) -> AsyncGenerator[TurnEvent, None]:
        """Answer a new message; the finished turn is then the last one. A message before it that got no answer stays
        in the conversation, without one."""
        if (left := self.unanswered) is not None:
            self.turns.append(AnsweredTurn(left.text, NO_ANSWER, left.images, earlier=self._earlier))
            self._earlier = []
        self.unanswered = HistoryTurn("seeker", text, images)
        return self.again(control)

    def again(self, control: Control | None = None) -> AsyncGenerator[TurnEvent, None]:
        """Answer the last message once more; the old answer, if it got one, is kept beside the new one."""
        if self.unanswered is not None:
            return self._answer(self.unanswered, control, self.turns, None)
        last = self._last()
        if self.assessment.urgent:
            raise UserError("There is no second answer right now. Write what is on your mind; the help above is there.")
        return self._answer(HistoryTurn("seeker", last.said, last.images), control, self.turns[:-1], last)

    def edit(self, step: str, text: str | None = None, **labels: str | int) -> AsyncGenerator[TurnEvent, None]:
        """Change a step of the last answer and continue from there; pins hold for what is written anew."""
        last = self._last()
        self.unanswered = None  # the answer on the screen is meant
        if last.answer.parsed.reasoning is None:
            raise UserError("The last answer has no complete reasoning to edit; ask for another with /again.")
        edited = edit(last.answer.parsed.reasoning, step, text, **labels)
        # not `Pins.of`: what the model concluded before stands, even where its sentiment and emotion do not fit
        pins = Pins(**(dict(self.settings.pins.items()) | dict(edited.pins.items())))  # type: ignore[arg-type]
        return self.again(Control(pins, edited.given))

    def rewrite(self, number: int, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say message `number` (from 1) in other words and go on from there. What stood there stays in `earlier`."""
        old = self._from(number)
        if not old:
            if self.unanswered is None or number != len(self.turns) + 1:
                raise UserError("There is no such message.")
            self.unanswered = msgspec.structs.replace(self.unanswered, text=text)
            return self.again()
        if self.unanswered is not None:
            old.append(AnsweredTurn(self.unanswered.text, NO_ANSWER, self.unanswered.images, earlier=self._earlier))
        self._earlier, old[0].earlier = [*old[0].earlier, old], []
        self.turns, self.unanswered = self.turns[: number - 1], HistoryTurn("seeker", text, old[0].images)
        return self.again()

    def restore(self, number: int, which: int) -> None:
        """Go back to what stood at message `number` before it was rewritten; what stands there now stays beside it."""
        present = self._from(number)
        if self.unanswered is not None or not present or not 0 <= which < len(present[0].earlier):
            raise UserError("There is no such version.")
        earlier, present[0].earlier = present[0].earlier, []
        self.turns[number - 1 :] = chosen = earlier.pop(which)
        chosen[0].earlier = [*earlier, present]

    def _from(self, number: int) -> list[AnsweredTurn]:
        """The turns from message `number` on. What was said about danger is not taken out of what safety reads."""
        found = self.turns[number - 1 :] if number > 0 else []
        if self.assessment.urgent or any(turn.answer.assessment.urgent for turn in found):
            raise UserError("This message cannot be changed. Write what is on your mind; the help above is there.")
        return found

    def choose(self, which: int) -> None:
        """Go on with an earlier answer to the last message; the present one stays beside it."""
        last = self._last()
        chosen = last.others.pop(which)
        last.others.append(last.answer)
        last.answer = chosen

    def forget(self) -> None:
        """Begin again: nothing that was said is left; pins stay."""
        self.turns.clear()
        self._earlier.clear()
        self.unanswered, self.assessment = None, Assessment()
        self.guard.forget()

    def history(self, turns: Sequence[AnsweredTurn]) -> list[HistoryTurn]:
        """Both sides of some turns, as the engine takes them."""
        found: list[HistoryTurn] = []
        for turn in turns:
            found.append(HistoryTurn("seeker", turn.said, turn.images))
            if turn.answer.reply:
                found.append(HistoryTurn("supporter", turn.answer.reply))
        return found

    def as_dict(self) -> dict[str, Any]:
        """The whole conversation, for people and programs."""
        return {
            "model": self.model.name,
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "turns": [turn_fields(turn) for turn in self.turns],
        } | ({"unanswered": self.unanswered.text} if self.unanswered is not None else {})

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=2) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the conversation to a file that only this user can read."""
        target = Path(path)
        try:
            target = target.expanduser()
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(self.as_json())
        except FileExistsError:
            raise UserError(f"{target} exists; choose another name, nothing was overwritten.") from None
        except (OSError, RuntimeError, ValueError) as error:  # a folder, an unknown ~user, a name no file can have
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UserError(f"{target} cannot be written: {why}.") from None
        return target

    async def close(self) -> None:
        await self.model.close()
        await self.guard.close()

    async def _answer(
        self, message: HistoryTurn, control: Control | None, past: Sequence[AnsweredTurn], old: AnsweredTurn | None
    ) -> AsyncGenerator[TurnEvent, None]:
        """Answer a message after some turns. `old`: its turn, where it has been answered before."""
        history = (*self.history(past), message)
        sampling = self.settings.sampling
        if sampling.seed is not None:
            sampling = msgspec.structs.replace(sampling, seed=sampling.seed + next(self._draws))
        request = TurnRequest(
            history=history,
            language=self.settings.language or language_of(history),
            control=control or Control(self.settings.pins),
            sampling=sampling,
        )
        async with aclosing(answer(self.model, request, self.guard)) as events:
            async for event in events:
                if isinstance(event, Assessed):
                    self.assessment = event.assessment
                elif isinstance(event, Done) and old is not None:
                    old.others, old.answer = [*old.others, old.answer], event.result
                elif isinstance(event, Done):
                    self.turns.append(AnsweredTurn(message.text, event.result, message.images, earlier=self._earlier))
                    self.unanswered, self._earlier = None, []
                yield event

    def _last(self) -> AnsweredTurn:
        if not self.turns:
            raise UserError("Nothing has been said yet.")
        return self.turns[-1]


def with_pins(pins: Pins, more: Mapping[str, str | int]) -> Pins:
    """Further pins on top of some; a new emotion brings its own sentiment.

    >>> with_pins(Pins(sentiment="negative"), {"emotion": "joy"}).items()
    [('emotion', 'joy')]
    """
    new = Pins.of(more)
    kept = {key: value for key, value in pins.items() if not (new.emotion and key == "sentiment")}
    return Pins.of(kept | dict(new.items()))


def turn_fields(turn: AnsweredTurn) -> dict[str, Any]:
    """A turn as a JSON object, with what stood in its place before."""
    return (
        {"said": turn.said}
        | ({"images": list(turn.images)} if turn.images else {})
        | {**answer_fields(turn.answer), "others": [answer_fields(other) for other in turn.others]}
        | ({"earlier": [[turn_fields(one) for one in branch] for branch in turn.earlier]} if turn.earlier else {})
    )


def answer_fields(result: TurnResult) -> dict[str, Any]:
    """An answer as a JSON object: the fields of the contract, and what is wrong with it, if anything."""
    problems = [str(problem) for problem in result.problems]
    told = fields(result.parsed, result.raw) | {"complete": not problems, "problems": problems}
    return told | ({"prepared": True} if result.prepared else {})
