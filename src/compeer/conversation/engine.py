"""One turn of a conversation: a history in, events that are safe to show and one result out.

Terminal, `--once`, server and studio all speak through this engine, so a person is told the same wherever they write:

    async for event in answer(model, request, guard):
        Assessed    first: the risk of the whole conversation, what must be shown whatever the model does
        Event       a step opens, its text, its labels, the reply; as they are written
        Done        last: the result

The engine is given the whole history and keeps nothing. The model reads its end, as much as fits (`dialogue.trim`);
safety reads all of it. Past reasoning is not in the history, as in training. What comes out is screened: thinking by
the word, the reply by the sentence, and as a whole while risk is high. While risk is high no
thinking is shown at all, and a model that fails is answered for: the conversation goes on whatever happens.

`TurnWriter` is the same in single steps, for a server that must let people wait between them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from compeer.conversation.small_talk import small_talk
from compeer.dialogue import Speaker, messages, trim, within_words
from compeer.errors import UserError
from compeer.models import Model, ModelError, Request, Usage, reason, request_for
from compeer.models.request import Ending
from compeer.models.spec import default_prompt, is_small, thinks_by_adapter
from compeer.reasoning import Control, Event, Parsed, Problem, StreamParser, violations
from compeer.reasoning.grammar import prefix
from compeer.reasoning.ontology import Language, detect, words
from compeer.reasoning.prompt import Length, Think
from compeer.reasoning.stream import MarkupFilter, StopStrings
from compeer.safety import Assessment, ConversationGuard, Outcome, ReplyScreen
from compeer.safety.outgoing import review
from compeer.safety.reader import reader_of
from compeer.safety.screen import ready

#: characters of one answer, five times what the contract needs; a model that never stops is cut here
LONGEST = 12_000


#: a sentence in which a model claims to be a person, and what stands in its place
_CLAIMS_TO_BE_HUMAN = re.compile(
    r"[^.!?\n]*\bi(?:'m| am) (?:not (?:just )?(?:an? )?"
    r"(?:(?:robot|chatbot|bot)\b|(?:machine|program|computer|ai)\b(?! \w))"
    r"|(?:an? )?(?:(?:real|actual|living) )?(?:human(?: being)?|person)\b(?! \w))[^.!?\n]*[.!?]*"
    r"|[^。！？\n]*我(?:并)?(?:不是(?:一个|一台)?(?:机器人|机器|程序|人工智能|AI)|(?:就|当然)?是(?:一个)?(?:真人|人类|真实的人|活人))"
    r"[^。！？\n]*[。！？]*",
    re.IGNORECASE,
)
_HONEST: dict[Language, str] = {
    "en": "I'm a program, an AI, not a person.",
    "zh": "我是程序，是人工智能，不是真人。",
}


def honest(text: str, language: Language) -> str:
    """A reply in which the model does not claim to be a person: small models do, when they are asked.

    >>> honest("No, I’m not a robot. How was your day?", "en"), honest("I'm a program, not a person.", "en")
    ("I'm a program, an AI, not a person. How was your day?", "I'm a program, not a person.")
    """
    found = _CLAIMS_TO_BE_HUMAN.sub(lambda claim: _leading_space(claim[0]) + _HONEST[language], text.replace("’", "'"))
    return found if found != text.replace("’", "'") else text


def _leading_space(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


class HistoryTurn(msgspec.Struct, frozen=True):
    """What one side said. `images`: paths or data: addresses, as `models.Request` takes them."""

    speaker: Speaker
    text: str
    images: tuple[str, ...] = ()


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is asked. `think`: how much it thinks before it replies. `history_words`: how much of the
    conversation it reads. `attempts` above 1: an incomplete answer is asked for again with another seed, and nothing is
    shown before it is whole."""

    temperature: float = 0.7
    top_p: float = 0.95
    penalty: float = 1.05
    seed: int | None = None
    max_tokens: int = 2000
    prompt: Length = "full"
    think: Think = "full"
    grammar: bool = True
    history_words: int = 1500
    attempts: int = 1


def sampling_for(model: Model, **chosen: str | float | None) -> Sampling:
    """Sampling for conversations with this model: the `chosen` values, and where one is None the model's default for
    the instruction, the words of the conversation that it reads, the temperature and the amount of thinking.

    Adapters of the 1.5B base are asked at 0.3: blind readers liked them better there than at 0.7, by up to 0.4 of 5
    points, and found no difference for models that are only prompted. The 1.5B base replies without thinking unless it
    is asked to think: its replies read better so (docs/results.md).
    """
    usual: dict[str, Any] = {"prompt": default_prompt(model.name)}
    if is_small(model.name):
        usual["history_words"] = 600
    elif model.name.startswith("embedded"):
        usual |= {"temperature": 0.3, "think": "full" if "+" in model.name else "off"}
    return Sampling(**usual | {name: value for name, value in chosen.items() if value is not None})


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to be written. The history ends with the person's message. `instructions` follow the contract's own;
    `stops` end the reply; `show_thinking` False leaves the steps out."""

    history: tuple[HistoryTurn, ...]
    language: Language
    control: Control = Control()
    sampling: Sampling = Sampling()
    instructions: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    show_thinking: bool = True


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was written. `reply` is what the person was shown; `raw` and `parsed` hold nothing that was withheld.
    `error`: why the model gave no answer, where it was answered for. `prepared`: the reply is small talk of ours."""

    reply: str
    raw: str
    parsed: Parsed
    problems: tuple[Problem, ...]
    control: Control
    assessment: Assessment = Assessment()
    outcome: Outcome = Outcome()
    error: str | None = None
    finish: str = "stop"  # or "length"
    usage: Usage | None = None
    model: str = ""
    prepared: bool = False


class Assessed(msgspec.Struct, frozen=True):
    """The first event of a turn."""

    assessment: Assessment


class Done(msgspec.Struct, frozen=True):
    """The last event of a turn."""

    result: TurnResult


TurnEvent = Assessed | Event | Done


class NoFirstToken(ModelError):
    """The model wrote nothing in the time it had."""


async def answer(model: Model, request: TurnRequest, guard: ConversationGuard) -> AsyncGenerator[TurnEvent, None]:
    """Write one turn. UserError when the model fails and nobody is in danger."""
    turn = TurnWriter(model, request, guard)
    yield Assessed(await turn.assess())
    async with aclosing(turn.events()) as events:
        async for event in events:
            yield event
    yield Done(turn.result())


def language_of(history: Sequence[HistoryTurn]) -> Language:
    """The language of the person's last message that has words; "…" and "👍" have none."""
    said = [turn.text for turn in reversed(history) if turn.speaker == "seeker"]
    return detect(next((text for text in said if words(text)), said[0] if said else ""))


def help_shown(assessment: Assessment) -> list[str]:
    """The lines of help that a person sees whatever the model does: all at high and above, one at watch."""
    if assessment.urgent:  # the number to call comes first, whether or not the emergency was recognised as one
        banner, lines = (assessment.banner or "").split("\n"), assessment.lines
        return [*lines[:1], *banner, *lines[1:]] if assessment.level == "high" else [*banner, *lines]
    if assessment.banner is None:
        return []
    return [" ".join([assessment.banner, *assessment.lines[1:2]])]  # the first line is the emergency number


def safety_fields(assessment: Assessment, result: TurnResult | None = None) -> dict[str, Any]:
    """Safety as JSON, for `--once` and for `compeer.safety` of the API: the level, what the person is shown, and what
    became of the reply."""
    lines = assessment.lines or (result.outcome.lines if result else ())
    told: dict[str, Any] = {"level": assessment.level, "banner": assessment.banner, "helpline": list(lines) or None}
    if assessment.level != "none":
        told["danger"] = assessment.danger
    if assessment.urgent and assessment.help:
        told["emergency"] = {"number": assessment.help.emergency, "link": assessment.help.emergency_href}
    more: dict[str, Any] = {"reminder": assessment.reminder}
    if result is not None:
        more |= {
            "replaced": result.outcome.replaced,
            "note": result.outcome.note,
            "hidden": list(result.outcome.hidden),
            "asked": result.outcome.asked and assessment.level != "none",
        }
    return told | {name: value for name, value in more.items() if value}


def warm_up() -> None:
    """Read the lexicons before the first person comes."""
    ready()
    review("warm")


class TurnWriter:
    """A turn that is being written: `assess`, then `events` or `without_model`, then `result`."""

    def __init__(self, model: Model, request: TurnRequest, guard: ConversationGuard) -> None:
        self.model, self.request, self.guard = model, request, guard
        self.assessment = Assessment()
        self.shown = ""  # of the reply
        self._screen: ReplyScreen | None = None
        self._parser = StreamParser()
        self._thinking_markup, self._reply_markup = MarkupFilter(), MarkupFilter()
        self._stops = StopStrings(request.stops)
        self.ending = Ending()
        self.pieces = 0  # from the model, about one per token
        self.prepared = False  # the reply is one of ours
        self._cut: Problem | None = None
        self._corrected: list[tuple[str, str]] = []  # what the model said, and what was said in its place
        self._outcome = Outcome()
        self._error: str | None = None

    async def assess(self) -> Assessment:
        """Read the conversation for danger. Call it first."""
        history, language = self.request.history, self.request.language
        # the model that answers also reads for danger, where it has learned to
        self.assessment = await self.guard.assess(history, language, reader=reader_of(self.model))
        self._screen = self.guard.screen(self.assessment, history, language)
        return self.assessment

    async def events(self, first_token: float | None = None) -> AsyncGenerator[Event, None]:
        """The turn as it is written. `first_token`: seconds that the model has for it."""
        if not self.assessment.ask_model:
            for event in self._end_reply(None):
                yield event
            return
        reply = self._started()
        try:
            async with aclosing(self._model_text(first_token)) as pieces:
                async for piece in pieces:
                    for event in self._screened(self._parser.feed(piece), reply):
                        yield event
                    if self._stops.reached or reply.stopped:
                        break
            for event in self._screened(self._parser.finish(), reply, final=True):
                yield event
        except UserError as problem:
            if not self.assessment.urgent:
                raise
            self._error = str(problem)
        for event in self._end_reply(self._error):
            yield event

    def without_model(self, error: str) -> Iterator[Event]:
        """The rest of a turn in which the model failed, for a person who must not be left without an answer."""
        self._error = error
        yield from self._end_reply(error)

    def result(self) -> TurnResult:
        parsed, outcome = self._parser.parsed, self._outcome
        if self.think == "off":  # nothing was asked for but a reply
            problems = [] if parsed.response.strip() else [Problem("empty", "there is no reply")]
            parsed = _without_reasoning(parsed, parsed.response, tuple(problems), {}, self.request.language)
        else:
            problems = [*parsed.problems, *violations(parsed, self.request.control)]
        if self._cut:
            problems.insert(0, self._cut)
        ended = self.ending.finish == "length" and not self._stops.reached
        raw = self._parser.raw
        for old, new in self._corrected:
            raw = raw.replace(old.strip(), new.strip())
            parsed = msgspec.structs.replace(parsed, response=parsed.response.replace(old.strip(), new.strip()))
        withheld = self.assessment.urgent or outcome.replaced is not None
        if withheld or outcome.hidden:
            why = (
                "thinking is not shown while someone may be in danger"
                if withheld
                else "a step was held back: it could do harm"
            )
            kept = {step: text for step, text in parsed.texts.items() if not withheld and step not in outcome.hidden}
            problems, raw = [Problem("withheld", outcome.note or why)], self.shown
            parsed = _without_reasoning(parsed, self.shown, tuple(problems), kept)
        return TurnResult(
            reply=self.shown,
            raw=raw,
            parsed=parsed,
            problems=tuple(problems),
            control=self.request.control,
            assessment=self.assessment,
            outcome=outcome,
            error=self._error,
            finish="length" if self._cut or ended else "stop",
            usage=self.ending.usage,
            model=self.model.name,
            prepared=self.prepared and outcome.replaced is None,
        )

    def kept_history(self) -> Sequence[HistoryTurn]:
        """The end of the conversation that the model reads."""
        return trim(self._merged(), within_words(self.request.sampling.history_words))

    def _merged(self) -> list[HistoryTurn]:
        """The conversation in turns that alternate, the person's first."""
        merged: list[HistoryTurn] = []
        for turn in self.request.history:
            if not turn.text and not turn.images:
                continue
            if merged and merged[-1].speaker == turn.speaker:
                last = merged.pop()
                text = "\n".join(filter(None, (last.text, turn.text)))
                turn = HistoryTurn(turn.speaker, text, last.images + turn.images)
            if merged or turn.speaker == "seeker":  # a greeting before the person's first word is left out
                merged.append(turn)
        return merged

    @property
    def think(self) -> Think:
        """How much is thought: what was asked for, but given steps and pins other than the strategy, which the reply's
        grammar keeps by itself, need thinking to be kept."""
        sampling, control = self.request.sampling, self.request.control
        held = set(dict(control.pins.items())) - {"strategy"} or control.given
        return "full" if sampling.think == "off" and held and thinks_by_adapter(self.model.name) else sampling.think

    def dropped(self) -> int:
        """How many messages of the person the model does not read, because the conversation is too long for it."""
        merged, kept = (
            sum(one.speaker == "seeker" for one in turns) for turns in (self._merged(), self.kept_history())
        )
        return merged - kept

    def model_request(self) -> Request:
        """What the model is asked: the contract, further instructions, what safety asks for, the conversation."""
        sampling = self.request.sampling
        base_replies = self.think == "off" and thinks_by_adapter(self.model.name)
        request = request_for(
            messages(self.kept_history(), images=self.model.sees),
            self.request.language,
            self.request.control,
            length="full" if base_replies else sampling.prompt,
            think=self.think,
            grammar=sampling.grammar,
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            penalty=sampling.penalty,
            seed=sampling.seed,
            # what a pinned strategy does to a reply was measured with the base alone
            adapter=not base_replies or (None if self.request.control != Control() else False),
        )
        more = [*self.request.instructions, *filter(None, (self.assessment.guidance,))]
        if not more:
            return request
        system, *rest = request.messages
        told = {**system, "content": "\n\n".join([str(system["content"]), *more])}
        return msgspec.structs.replace(request, messages=[told, *rest])

    def _started(self) -> ReplyScreen:
        assert self._screen is not None, "assess() comes first"
        return self._screen

    async def _model_text(self, first_token: float | None) -> AsyncGenerator[str, None]:
        """The model's text in pieces, cut where it does not end."""
        if ready_reply := self._small_talk():
            self.prepared = True
            yield ready_reply
            return
        request = self.model_request()
        if self.request.sampling.attempts > 1 and self.think != "off":
            attempts = self.request.sampling.attempts
            best = await reason(self.model, request, self.request.control, attempts=attempts)
            self.ending = Ending(best.answer.finish, best.answer.usage)
            yield best.raw
            return
        known = prefix(request.plan or ())
        length = 0
        # every home of `models` is told to note how its stream ended
        stream = cast(AsyncGenerator[str, None], self.model.stream(request, self.ending))  # type: ignore[call-arg]
        async with aclosing(stream) as pieces:  # leaving early ends the work at once, not when it is collected
            piece = await _first_piece(pieces, known, first_token)
            while piece is not None:
                self.pieces += 1
                yield piece
                length += len(piece)
                if length > LONGEST + len(known):
                    self._cut = Problem("endless", f"it did not stop, and was cut after {LONGEST:,} characters")
                    return
                piece = await anext(pieces, None)

    def _small_talk(self) -> str | None:
        """A prepared reply, where the message is small talk that this model is too small for (`small_talk`)."""
        asked, history = self.request, self.request.history
        plain = self.think == "off" and asked.control == Control() and not asked.instructions
        calm = self.assessment.level == "none" and self.assessment.guidance is None
        if not (plain and calm and thinks_by_adapter(self.model.name)) or history[-1].images:
            return None
        replies = [turn.text for turn in history if turn.speaker != "seeker"]
        return small_talk(history[-1].text, replies, asked.language, asked.sampling.seed)

    def _screened(self, events: Sequence[Event], out: ReplyScreen, *, final: bool = False) -> Iterator[Event]:
        reply: list[str] = []
        for event in events:
            if event.kind == "reply":
                reply.append(event.text)
            elif self.request.show_thinking and self.think != "off" and not self.assessment.urgent:
                yield from self._thought(event, out)
        text = self._stops.feed(self._reply_markup.feed("".join(reply), final=final), final=final)
        if text:
            yield from self._say(out.feed(text))

    def _thought(self, event: Event, out: ReplyScreen) -> Iterator[Event]:
        """An event of the thinking, once it is known to be safe."""
        step = event.step or ""
        if event.kind == "text":
            if text := out.thinking(step, self._thinking_markup.feed(event.text)):
                yield msgspec.structs.replace(event, text=text)
            return
        if event.kind == "step":
            self._thinking_markup = MarkupFilter()
        elif rest := out.thinking(step, self._thinking_markup.feed("", final=True)) + out.end_step(step):
            yield Event("text", step, rest)  # before a label, and at the end of the step
        yield event

    def _end_reply(self, error: str | None) -> Iterator[Event]:
        text, self._outcome = self._started().finish(error)
        yield from self._say(text)

    def _say(self, text: str) -> Iterator[Event]:
        if text:
            said = honest(text, self.request.language)
            if said != text:
                self._corrected.append((text, said))
            self.shown += said
            yield Event("reply", None, said)


async def _first_piece(pieces: AsyncGenerator[str, None], known: str, seconds: float | None) -> str | None:
    """The first piece that the model wrote itself, with what was fixed beforehand in front of it."""
    try:
        async with asyncio.timeout(seconds):
            piece = await anext(pieces, None)
            if piece and piece == known:
                piece += await anext(pieces, "")
            return piece
    except TimeoutError:
        raise NoFirstToken(f"The model wrote nothing within {seconds:g} s.") from None


def _without_reasoning(
    parsed: Parsed, reply: str, problems: tuple[Problem, ...], texts: dict[str, str], language: Language | None = None
) -> Parsed:
    """What may be kept of an output: a reply, some steps, and labels only where there are steps."""
    return Parsed(
        complete=not problems,
        problems=problems,
        reasoning=None,
        response=reply,
        texts=texts,
        labels=parsed.labels if texts else {},
        language=language or parsed.language,
    )
