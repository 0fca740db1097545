"""The seam between the turn engine and `compeer.safety`: what a conversation's safety is asked, and what it answers.

A guard is asked three things in a turn:

    assessment = await guard.assess(history, language)      risk, from the whole conversation, before the model is asked
    screen = guard.screen(assessment, language)             the model's reply goes through it, piece by piece
    text, outcome = screen.finish(error)                    what else is shown, and what became of the reply

Nothing is kept between turns but what was found in a message, by a hash of it, so that a long conversation is not read
again with every turn. Terminal, server and studio therefore see the same risk for the same history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from compeer.reasoning.ontology import Language
from compeer.safety import Finding, Risk, crisis, screen
from compeer.safety.guard import Guard as GuardModel
from compeer.safety.helplines import country as country_of
from compeer.safety.helplines import helpline, lines
from compeer.safety.notice import Breaks
from compeer.safety.outgoing import Held, asks, broken, review
from compeer.safety.said import said

Level = Literal["none", "watch", "high", "emergency"]
#: messages whose findings are remembered
_MOST_FINDINGS = 4096


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What the conversation so far means for safety, before it is answered.

    `lines`: helplines to show, all of them at high and above, one at watch. `emergency`: the number to call first,
    where the country is known. `guidance` is added to the model's instructions. `ask_model`: False where our words
    alone may be shown.
    """

    level: Level = "none"
    kinds: tuple[str, ...] = ()
    banner: str | None = None
    lines: tuple[str, ...] = ()
    emergency: str | None = None
    guidance: str | None = None
    reminder: str | None = None
    ask_model: bool = True

    @property
    def urgent(self) -> bool:
        """High or above: the reply is held until it is whole, and no analysis is shown."""
        return self.level in ("high", "emergency")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a reply. `replaced`: why our words stand in its place, `note` says so to the person.
    `asked`: whether the reply as shown asks about safety. `banner`, `lines`: to show now, where none were before."""

    replaced: str | None = None
    note: str | None = None
    asked: bool = False
    banner: str | None = None
    lines: tuple[str, ...] = ()


class Message(Protocol):
    """A turn of the history, as far as safety reads it."""

    @property
    def speaker(self) -> str: ...
    @property
    def text(self) -> str: ...


class ConversationGuard:
    """The safety of one conversation, or of all conversations of a server that remembers nothing."""

    def __init__(
        self,
        *,
        country: str | None = None,
        use_locale: bool = True,
        model: GuardModel | None = None,
        breaks: Breaks | None = None,
    ) -> None:
        """`use_locale`: whether the machine's locale tells the country, as it does where the person sits at it.
        `breaks`: reminds by time and by messages; None: by messages alone."""
        self.country, self.model, self._breaks = country, model, breaks
        self._environment: dict[str, str] | None = None if use_locale else {}
        self._country(None)  # a wrong code is said at once
        self._counted = 0  # messages that the reminder of a break has counted
        self._findings: dict[bytes, Finding] = {}

    def forget(self) -> None:
        """A new conversation begins."""
        self._counted = 0
        self._findings.clear()

    def notice(self, language: Language) -> tuple[str, ...]:
        """What opens a conversation: what this is and where people are, one entry per line."""
        where = self._country(language if language == "zh" else None)
        return (*said("opening", language).split("\n"), *lines(where, language))

    async def assess(self, history: Sequence[Message], language: Language) -> Assessment:
        """Risk from everything that was said, and what follows from it."""
        messages = [turn.text for turn in history if turn.speaker == "seeker"]
        risk = Risk()
        for text in messages:
            risk = risk.after(await self._finding(text))
        where = self._country(language)
        found = lines(where, language)
        known = helpline(where) if where else None
        shown = found if risk.level == "high" else found[:1] if risk.level == "watch" else []
        banner = crisis.banner(risk, where, language)
        return Assessment(
            level=risk.level,
            kinds=risk.kinds,
            banner=banner.words if banner else None,
            lines=tuple(shown),
            emergency=known.emergency if known else None,
            guidance=crisis.guidance(risk, where, language),
            reminder=None if risk.level == "high" else self._reminder(len(messages), language),
        )

    def screen(self, assessment: Assessment, history: Sequence[Message], language: Language) -> ReplyScreen:
        """What the reply to this history goes through."""
        replies = [turn.text for turn in history if turn.speaker == "supporter"]
        return ReplyScreen(assessment, replies, language, lines(self._country(language), language))

    async def close(self) -> None:
        if self.model is not None:
            await self.model.close()

    async def _finding(self, text: str) -> Finding:
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = self._findings.get(key)
        if found is None:
            found = msgspec.structs.replace(screen(text), spans=())
            if self.model is not None:
                found = await self.model.raised(text, found)
            if len(self._findings) >= _MOST_FINDINGS:
                self._findings.clear()
            self._findings[key] = found
        return found

    def _reminder(self, messages: int, language: Language) -> str | None:
        if self._breaks is not None:
            if messages <= self._counted:
                return None
            self._counted = messages
            return self._breaks.after_message(language)
        breaks = Breaks(minutes=0)
        return [breaks.after_message(language) for _ in range(messages)][-1]

    def _country(self, language: str | None) -> str | None:
        return country_of(self.country, language, self._environment)


class ReplyScreen:
    """One reply on its way out: by the sentence, and as a whole while risk is high."""

    def __init__(
        self, assessment: Assessment, replies: Sequence[str], language: Language, help_lines: Sequence[str]
    ) -> None:
        self._assessment, self._language, self._lines = assessment, language, tuple(help_lines)
        self._risk = Risk(assessment.level, assessment.kinds)  # type: ignore[arg-type]
        ours = {crisis.written(self._risk, one, time) for one in ("en", "zh") for time in range(2)}
        self._used = sum(any(one in reply for one in ours) for reply in replies)
        self._asked = any(asks(reply) for reply in replies)
        self._held = Held(self._risk.level, whole=assessment.urgent)

    @property
    def stopped(self) -> bool:
        """Whether the model need not write on: what it wrote is replaced."""
        return self._held.unsafe is not None

    def feed(self, text: str) -> str:
        """More of the reply; what of it may be shown now."""
        return self._held.feed(text)

    def finish(self, error: str | None = None) -> tuple[str, Outcome]:
        """The rest to show, ours included. `error`: why the model gave no answer, where it is answered for."""
        urgent, reply = self._assessment.urgent, self._held
        why: str | None = "failed" if error is not None else reply.unsafe
        if why is None and urgent:
            why = broken(reply.text) or review(reply.text, self._risk.level)
        rest = ""
        if why is None:
            rest = reply.finish()
            why = reply.unsafe
        if why is None:
            if not urgent or self._asked or asks(reply.text):
                return rest, Outcome(asked=asks(reply.text))
            return f"{rest}\n\n{crisis.check_in(self._language)}", Outcome(asked=True)
        ours = crisis.written(self._risk, self._language, self._used)
        shown = reply.shown.rstrip()
        note = crisis.instead(why, self._language)
        outcome = Outcome(replaced=why, note=note, asked=asks(ours))
        if not urgent:
            words = said("banner", crisis.about(self._risk), self._language)
            outcome = msgspec.structs.replace(outcome, banner=words, lines=self._lines)
        return ("\n\n" if shown else "") + ours, outcome


def warm_up() -> None:
    """Read the lexicons before the first person comes."""
    for text in ("warm", "暖"):
        screen(text)
        review(text)
