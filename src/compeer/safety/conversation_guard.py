"""The safety of a conversation: what every way of talking (terminal, server, page) does around each turn.

    guard = ConversationGuard(country="GB")
    assessment = await guard.assess(history, "en", reader=reader)     the whole conversation, before the model is asked
    show(assessment.banner, assessment.lines)
    screen = guard.screen(assessment, history, "en")
    if assessment.ask_model:                                   else the words are ours, and the model is not asked
        show(screen.feed(piece))                               the reply, by the sentence; at high risk as a whole
        show(screen.thinking(step, piece))                     reasoning, by the word; at high risk not at all
    rest, outcome = screen.finish(error)                       what else is shown, ours included; what became of it

`assess` reads everything that was said each time, so a server that remembers nothing sees the same risk as a terminal
that does. What was found in a message is remembered by a hash of it.

From watch on the words are ours (`crisis_path`), and so is the answer to a single message that unsettles the reader
without raising the level. Below that a model's reply is read before it is shown: always for what is wrong whatever was
said (`outgoing.misfits`), and as a whole after a message that leaves the reader uneasy (`outgoing.unfit_when_uneasy`).

From watch on a model speaks only if it has been checked (`checked`: by a red-team as in `runs/safety/redteam.py`; no
shipped model has passed one), and only where its reply holds up (`outgoing.fits_a_crisis`); at high risk, besides, only
when the person has been asked about their safety and said no, and neither means nor anything taken were named. In an
emergency never.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from compeer.reasoning.ontology import words
from compeer.safety.answers import Question
from compeer.safety.context import Reading, read, whose
from compeer.safety.crisis_path import (
    Exchange,
    PathReply,
    asked_by,
    gentle_question,
    listening,
    next_reply,
    right_after,
    watch_reply,
)
from compeer.safety.helplines import Help, help_for
from compeer.safety.helplines import country as country_of
from compeer.safety.levels import DANGER_OF, Danger, Finding, Level, Risk, at_least
from compeer.safety.messages import Breaks, banner, guidance, instead, message, opening
from compeer.safety.network import TOGETHER
from compeer.safety.outgoing import Held, HeldThinking, careful
from compeer.safety.reader import BRIEF, Odds, Reader, SmallReader, eased, heed, told_by, uneasy, unsettling
from compeer.safety.screen import lexicon_finding

if TYPE_CHECKING:
    from compeer.safety.guard import Guard

_MOST_READINGS = 4096
#: the last messages of the person at which the reader is asked, where it was not asked before
MOST_ASKED = 8
#: the last messages of the person that a reply is read by
LAST_CAREFUL = 4
#: unsettling messages after which the person is asked, though none was raised alone
UNSETTLED = 3
_ABOUT_SELF = frozenset({"taken", "desire", "plan", "means", "in_danger", "safe_now"})


class Message(Protocol):
    """A turn of the history, as far as safety reads it: `speaker` is "seeker" or "supporter"."""

    @property
    def speaker(self) -> str: ...
    @property
    def text(self) -> str: ...


class Said(NamedTuple):
    """The plainest `Message`."""

    speaker: str
    text: str


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation means for safety, before its newest message is answered.

    `banner`, `lines`: to show now, the emergency number first. `help`: the same with links. `ask_model`: False where
    our words alone may be shown; `reply` has them. `guidance` is added to the model's instructions.
    """

    risk: Risk = Risk()
    banner: str | None = None
    lines: tuple[str, ...] = ()
    help: Help | None = None
    guidance: str | None = None
    reminder: str | None = None
    ask_model: bool = True
    reply: PathReply | None = None  # ours: shown where the model is not asked, or where its reply does not hold up
    check_in: PathReply | None = None  # our question at watch, where the model does not ask
    uneasy: bool = False  # nothing was found, and the model's reply is read as a whole all the same
    listening: PathReply | None = None  # ours, where nothing was found and the model's reply is wrong for what was said
    country: str | None = None
    reading: Reading | None = None

    @property
    def level(self) -> Level:
        return self.risk.level

    @property
    def danger(self) -> Danger:
        return self.risk.danger

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.risk.kinds

    @property
    def urgent(self) -> bool:
        """High or above: the reply is held until it is whole, and no analysis is shown."""
        return at_least(self.level, "high")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a reply. `replaced`: why our words stand in its place, `note` says so to the person.
    `asked`: whether the reply as shown asks about safety. `banner`, `lines`: to show now, where none were before.
    `hidden`: steps of the reasoning that are not shown."""

    replaced: str | None = None
    note: str | None = None
    asked: bool = False
    banner: str | None = None
    lines: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class ConversationGuard:
    """The safety of one conversation, or of all conversations of a server that remembers nothing.

    `use_locale`: whether the machine's locale tells the country, as it does where the person sits at it. `model`: reads
    the conversation before anything else does. `breaks`: reminds by time and by messages; None: by messages alone.
    `checked`: the supporter's model has passed the check, so that its reply may be shown from watch on where it holds
    up.
    """

    def __init__(
        self,
        *,
        country: str | None = None,
        use_locale: bool = True,
        model: Guard | None = None,
        breaks: Breaks | None = None,
        checked: bool = False,
    ) -> None:
        self.country, self.model, self._breaks, self.checked = country, model, breaks, checked
        self._environment: dict[str, str] | None = None if use_locale else {}
        self._country(None)  # a wrong code is said at once
        self.forget()

    def forget(self) -> None:
        """A new conversation begins."""
        self._counted = 0  # messages that the reminder of a break has counted
        self._readings: dict[bytes, Reading] = {}
        self._odds: dict[bytes, Odds] = {}

    def notice(self, language: str = "en") -> tuple[str, ...]:
        """What opens a conversation: what this is and where people are, one entry per line."""
        return tuple(opening(self._country(language if language == "zh" else None), language).split("\n"))

    async def assess(
        self, history: Sequence[Message], language: str, *, country: str | None = None, reader: Reader | None = None
    ) -> Assessment:
        """Risk from everything that was said, the newest message last, and what follows from it. `reader`: what reads
        the conversation where no guard is configured; without one the small networks do."""
        reader = self.model or reader or SmallReader()
        past, risk, newest_odds = await self._replay(history, language, reader)
        if not past:
            return Assessment()
        where = self._country(language, country)
        *earlier, newest = past
        shown, help = banner(risk, where, language), help_for(where, language, risk.danger)
        ours, ask_model, check_in, listens = None, True, None, None
        if at_least(risk.level, "high"):
            ours = next_reply(earlier, newest.reading, risk, help, language)
            named = {"means", "ingestion", "plan", "method"} & set(risk.kinds)
            ask_model = (
                self.checked and risk.level == "high" and risk.asked and not named and not newest.reading.said_no
            )
        elif risk.level == "watch":
            check_in = gentle_question(past, risk, help, language)
            ours, ask_model = watch_reply(past, risk, help, language), self.checked
        else:
            listens = listening(past, help, language, right_after(history[-1].text))
            if newest_odds is not None and unsettling(newest_odds, language):
                ours, ask_model = listening(past, help, language), self.checked
        words, numbers = shown or (None, None)
        return Assessment(
            risk=risk,
            banner=words,
            lines=tuple(numbers.words(language)) if numbers else (),
            help=numbers,
            guidance=guidance(risk, where, language),
            reminder=None if at_least(risk.level, "high") else self._reminder(len(past), language),
            ask_model=ask_model,
            reply=ours,
            check_in=check_in,
            uneasy=risk.level == "none" and self._uneasy(history, earlier, newest_odds, language),
            listening=listens,
            country=where,
            reading=newest.reading,
        )

    def screen(self, assessment: Assessment, history: Sequence[Message] = (), language: str = "en") -> ReplyScreen:
        """What the reply to this history goes through."""
        said = next((turn.text for turn in reversed(history) if turn.speaker == "seeker"), "")
        before = [turn.text for turn in history if turn.speaker != "seeker"]
        return ReplyScreen(assessment, language, said, before)

    async def close(self) -> None:
        if self.model is not None:
            await self.model.close()

    async def _replay(
        self, history: Sequence[Message], language: str, reader: Reader
    ) -> tuple[list[Exchange], Risk, Odds | None]:
        """Every message of the person as it was read, with its reply, the risk after them, and what the reader says of
        the newest."""
        odds = await self._odds_of(history, language, reader)
        past: list[Exchange] = []
        risk = Risk()
        last = ""
        before: list[str] = []
        open_question: tuple[Question, ...] = ()
        said: list[str] = []
        unsettled = 0
        for place, turn in enumerate(history):
            if turn.speaker != "seeker":
                if past:
                    past[-1] = Exchange(past[-1].reading, "\n".join(filter(None, (past[-1].reply, turn.text))))
                last = turn.text
                continue
            said.append(turn.text)
            asked = asked_by(last, at_least(risk.level, "high")) if last else ()
            if risk.level == "watch" and not asked and "who_is_near" in asked_by(last):
                asked = ("who_is_near",)
            asked = asked or open_question  # "are you going to tell my mum?" is no answer: the question stays open
            around = "\n".join(one.text for one in history[max(0, place - 4) : place])
            reading = self._read(turn.text, asked, risk, before, around)
            about_self = bool(_ABOUT_SELF & set(asked))
            heard = None
            if place in odds:
                plain = lexicon_finding(
                    turn.text,
                    worried=at_least(risk.level, "watch") or about_self,
                    raised=at_least(risk.level, "high"),
                )
                plain = whose(plain, risk, turn.text)
                first = len(said) == 1 and not at_least(plain.level, "high")
                brief = len(words(turn.text)) < BRIEF["zh" if language == "zh" else "en"]
                heard = told_by(odds[place], asked=about_self, language=language, first=first, brief=brief)
                told = [one.reading.finding for one in past if one.reading.finding.level != "none"]
                over = bool(told) and all(finding.past for finding in told)
                reading = heed(reading, plain, heard, said[-4:], asked=about_self, risk=risk, over=over)
                if not at_least(plain.level, "high") and not heard.trusted:
                    reading = _with_its_own_words(reading, risk, turn.text)
            if place in odds and not about_self and unsettling(odds[place], language):
                unsettled += 1
                if unsettled >= UNSETTLED and risk.level == "none" and reading.finding.level == "none":
                    reading = msgspec.structs.replace(reading, finding=reading.finding | Finding("watch", ("hint",)))
            risk = risk.after(reading.finding, said_no=reading.said_no, explained=reading.explained)
            if heard is not None:
                risk = eased(risk, heard, reading.said_no, reading.explained)
            open_question = asked if asked and turn.text.rstrip().endswith(("?", "？")) else ()
            if reading.said_no:
                before = []
            elif reading.hints_with_others:
                before = [*before, turn.text][1 - TOGETHER :]
            past.append(Exchange(reading, ""))
            last = ""
        last_place = max((place for place, turn in enumerate(history) if turn.speaker == "seeker"), default=-1)
        return past, risk, odds.get(last_place)

    async def _odds_of(self, history: Sequence[Message], language: str, reader: Reader) -> dict[int, Odds]:
        """What the reader says after each message of the person, by its place; remembered."""
        found: dict[int, Odds] = {}
        new: dict[int, tuple[bytes, list[dict[str, str]]]] = {}
        places = [place for place, turn in enumerate(history) if turn.speaker == "seeker"]
        messages: list[dict[str, str]] = []
        for place, turn in enumerate(history):
            role = "user" if turn.speaker == "seeker" else "assistant"
            if messages and messages[-1]["role"] == role:
                messages[-1] = {"role": role, "content": "\n".join(filter(None, (messages[-1]["content"], turn.text)))}
            elif messages or role == "user":  # a greeting before the person's first word is left out
                messages.append({"role": role, "content": turn.text})
            if role != "user":
                continue
            key = _digest(language, *(one["content"] for one in messages))
            odds = self._odds.get(key)
            if odds is not None:
                found[place] = odds
            elif place in places[-MOST_ASKED:]:
                new[place] = key, messages.copy()
        asked = await asyncio.gather(*(reader.odds(said, language) for _, said in new.values()))
        for (place, (key, _)), odds in zip(new.items(), asked, strict=True):
            if odds is not None:
                if len(self._odds) >= _MOST_READINGS:
                    self._odds.clear()
                found[place] = self._odds[key] = odds
        return dict(sorted(found.items()))

    def _read(
        self, text: str, asked: tuple[Question, ...], risk: Risk, before: Sequence[str] = (), around: str = ""
    ) -> Reading:
        """A message where it stands, remembered."""
        parts = (text, *asked, risk.level, risk.danger, str(risk.about_other), *risk.kinds, *before, around)
        key = _digest(*parts)
        found = self._readings.get(key)
        if found is None:
            found = read(text, "", risk, asked=asked, before=before, around=around)
            if len(self._readings) >= _MOST_READINGS:
                self._readings.clear()
            self._readings[key] = found
        return found

    @staticmethod
    def _uneasy(history: Sequence[Message], earlier: Sequence[Exchange], odds: Odds | None, language: str) -> bool:
        """Whether a model's reply is read as a whole, though nothing is found: after something was found before, and
        where the last messages are not clearly harmless."""
        said = [turn.text for turn in history if turn.speaker == "seeker"][-LAST_CAREFUL:]
        told = any(one.reading.finding.level != "none" for one in earlier)
        return told or any(map(careful, said)) or (odds is not None and uneasy(odds, language))

    def _reminder(self, messages: int, language: str) -> str | None:
        if self._breaks is not None:
            if messages <= self._counted:
                return None
            self._counted = messages
            return self._breaks.after_message(language)
        breaks = Breaks(minutes=0)
        return [breaks.after_message(language) for _ in range(messages)][-1]

    def _country(self, language: str | None, given: str | None = None) -> str | None:
        return country_of(given or self.country, language, self._environment)


def _with_its_own_words(reading: Reading, risk: Risk, text: str) -> Reading:
    """A message that a reader has raised to high, with what it names read at high risk: "glock's on the nightstand"."""
    finding = reading.finding
    if finding.level != "high" or at_least(risk.level, "high") or finding.other or finding.past:
        return reading
    plain = lexicon_finding(text, worried=True, raised=True)
    own = {"means", "plan", "ingestion"} & set(plain.kinds)
    if plain.level != "emergency" or plain.other or plain.past or not own or set(finding.kinds) & set(DANGER_OF):
        return reading
    kinds = tuple(dict.fromkeys((*sorted(own), *finding.kinds)))
    return msgspec.structs.replace(reading, finding=msgspec.structs.replace(finding, level="emergency", kinds=kinds))


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class ReplyScreen:
    """One reply on its way out: by the sentence, and as a whole while risk is high; reasoning by the word."""

    def __init__(
        self,
        assessment: Assessment,
        language: str = "en",
        said: str | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self._assessment, self._language = assessment, "zh" if language == "zh" else "en"
        calm = assessment.level == "none"
        self._held = Held(
            assessment.level, not calm, said=said if calm else None, uneasy=assessment.uneasy, before=before
        )
        self._steps: dict[str, HeldThinking] = {}

    @property
    def stopped(self) -> bool:
        """Whether the model need not write on: what it wrote is replaced."""
        return self._held.unsafe is not None or not self._assessment.ask_model

    def thinking(self, step: str, piece: str) -> str:
        """What may be shown of a step now. From an unsafe sentence on nothing of the step is."""
        held = self._steps.setdefault(step, HeldThinking())
        return "" if self._assessment.urgent else held.feed(piece)

    def end_step(self, step: str) -> str:
        """The rest of a step."""
        return "" if self.hides(step) or step not in self._steps else self._steps[step].finish()

    def hides(self, step: str | None) -> bool:
        """Whether a step is not shown any more, or at all."""
        return self._assessment.urgent or (step in self._steps and self._steps[step].hidden)

    def feed(self, text: str) -> str:
        """More of the reply; what of it may be shown now."""
        return self._held.feed(text) if self._assessment.ask_model else ""

    def finish(self, error: str | None = None) -> tuple[str, Outcome]:
        """The rest to show, ours included. `error`: why the model gave no answer, where it is answered for."""
        hidden = tuple(step for step in self._steps if self.hides(step))
        ours = "ours" if self._assessment.urgent else "care"
        why = ours if not self._assessment.ask_model else "failed" if error is not None else self._held.verdict()
        rest = "" if why else self._held.finish()
        why = why or self._held.unsafe
        if why is not None:
            return self._ours(why, hidden)
        asked = bool(asked_by(self._held.text))
        question = self._assessment.check_in
        if question is not None and not asked:
            rest, asked = f"{rest}\n\n{question.text}", True
        return rest, Outcome(asked=asked, hidden=hidden)

    def _ours(self, why: str, hidden: tuple[str, ...]) -> tuple[str, Outcome]:
        prepared = self._assessment.reply or self._assessment.check_in
        if why == "misfit":
            prepared, why = prepared or self._assessment.listening, "care"
        words = prepared.text if prepared else message("reply_unsafe", self._language)
        shown = self._held.shown.rstrip()
        outcome = Outcome(
            replaced=why,
            note=instead(why, self._language),
            asked=bool(asked_by(words)),
            hidden=hidden,
        )
        if self._assessment.banner is None and why != "care":
            now = banner(Risk("watch"), self._assessment.country, self._language)
            if now is not None:
                words_now, numbers = now
                lines = tuple(numbers.words(self._language))
                outcome = msgspec.structs.replace(outcome, banner=words_now, lines=lines)
        return ("\n\n" if shown else "") + words, outcome
