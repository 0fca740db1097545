"""A simulated seeker: a model that plays the person who came for help and says how each reply made it feel.

**Mood.** One number. After each reply of the supporter the seeker names a change; it is clipped, added, and the sum is
capped at the top. A conversation ends when the seeker is content, when it is lost, or with a goodbye. None of this
asks a model, so training against a seeker and the SAGE evaluation share it.

    SAGE    starts at 40, a change is at most 10 either way, content from 100 on, lost below 10; no floor
    RLVER   starts at 30, changes are not clipped, content from 100 on, lost at 0 or less

**Prompts** are our own, in both languages. SAGE asks twice per turn, once for the change of mood and once for the
words; here it is one JSON object with the fields in that order (what the words did to me, the change, what I say,
whether I leave), which costs half and keeps the words consistent with the change.

The seeker sees what was said, never what was thought: only the reply of an output reaches it. Everything said is quoted
(`reward.conversation.quote`), so that a reply cannot pose as an instruction, such as one to feel better.

A seeker that does not answer, or stays and says nothing, ends its conversation; `Reaction.failure` says why.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.models.ask import SchemaFailure, ask_json
from compeer.models.request import Model, ModelError, Request, instructed
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words
from compeer.reward.conversation import quote

Outcome = Literal["content", "lost"]

#: in Chinese the two words by which SAGE ends a conversation, in English one at either end: people tell of goodbyes
_FAREWELL = re.compile(r"再见|拜拜|^\W*(?:good-?)?bye\b|\b(?:good-?)?bye\W*$", re.IGNORECASE)


class MoodRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arithmetic of the mood. Without `clip` changes are not clipped; without `floor` the mood may fall below 0."""

    start: float = 40.0
    clip: float | None = 10.0
    top: float = 100.0
    floor: float | None = None
    content: float = 100.0  # from here on
    lost: float = 10.0  # below this

    def __post_init__(self) -> None:
        if not self.lost <= self.start < self.content <= self.top:
            raise UserError(
                f"A seeker who starts at {self.start:g} is lost below {self.lost:g} and content from {self.content:g} "
                f"on, at most {self.top:g}; these must not fall in this order."
            )


SAGE = MoodRules()
RLVER = MoodRules(start=30.0, clip=None, lost=1.0)  # changes are whole numbers, so below 1 is 0 or less


def moved(value: float, change: float, rules: MoodRules = SAGE) -> float:
    """The value after a change.

    >>> moved(40, 25), moved(95, 8), moved(12, -30)
    (50.0, 100.0, 2.0)
    """
    if rules.clip is not None:
        change = max(-rules.clip, min(rules.clip, change))
    after = min(rules.top, value + change)
    return float(after if rules.floor is None else max(rules.floor, after))


def outcome(value: float, rules: MoodRules = SAGE) -> Outcome | None:
    """Whether this value ends the conversation.

    >>> outcome(100), outcome(55), outcome(9)
    ('content', None, 'lost')
    """
    return "content" if value >= rules.content else "lost" if value < rules.lost else None


def relief(value: float, rules: MoodRules = SAGE) -> float:
    """The emotion's reward: -1 when the seeker is lost, 0 when the mood is as at the start, 1 when content.

    >>> relief(40), relief(70), relief(25), relief(-8)
    (0.0, 0.5, -0.5, -1.0)
    """
    change = value - rules.start
    room = rules.content - rules.start if change > 0 else rules.start - rules.lost
    return max(-1.0, min(1.0, change / room)) if room else (0.0 if change == 0 else -1.0)


def farewell(text: str) -> bool:
    """Whether the seeker says goodbye.

    >>> farewell("Thanks. Bye!"), farewell("I never said goodbye to him."), farewell("好的，拜拜")
    (True, False, True)
    """
    return _FAREWELL.search(text) is not None


_PROMPTS: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("seeker_prompts.json").read_bytes())


class SeekerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the seeker is asked, and the arithmetic of its mood."""

    temperature: float = 0.7
    max_tokens: int = 400
    longest: int = 1000  # characters of what it says that are used
    rules: MoodRules = SAGE

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.longest < 1 or self.temperature < 0:
            raise UserError("A seeker needs max_tokens and longest of at least 1 and a temperature of at least 0.")


class Reaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reaction to one reply. If there is a `failure`, only the mood is set."""

    mood: float  # after the change
    change: float = 0.0  # as the seeker named it, before clipping
    felt: str = ""
    said: str = ""
    leaves: bool = False
    failure: str | None = None


class Seeker:
    """Reacts to a conversation. It keeps no state: every request shows it the whole conversation."""

    def __init__(self, model: Model, settings: SeekerSettings = SeekerSettings()) -> None:
        self.model, self.settings = model, settings

    @property
    def identity(self) -> dict[str, object]:
        """What must be the same for two runs to be comparable: the model (not its address), prompts, arithmetic."""
        texts = repr(tuple(_PROMPTS[part] for part in ("role", "task", "headings")))
        prompts = hashlib.sha256(texts.encode()).hexdigest()[:16]
        model = self.model.name.partition("@")[0]
        return {"model": model, "prompts": prompts, **msgspec.to_builtins(self.settings)}

    async def react(
        self, talk: Sequence[PastTurn], mood: float, language: Language, seed: int | None = None
    ) -> Reaction:
        """The reaction to the last turn of the talk, which is the supporter's. Never raises for a model's failure."""
        try:
            answer, _ = await ask_json(self.model, self.request(talk, mood, language, seed), _Answer)
        except SchemaFailure as error:
            return Reaction(mood=mood, failure=f"nonsense: {error}")
        except ModelError as error:
            return Reaction(mood=mood, failure=f"silence: {error}")
        said = answer.reply.strip()[: self.settings.longest]
        leaves = answer.leaves or farewell(said)
        if not has_words(said) and not leaves:
            return Reaction(mood=mood, failure="nonsense: it stays and says nothing")
        return Reaction(
            mood=moved(mood, answer.change, self.settings.rules),
            change=answer.change,
            felt=answer.felt,
            said=said,
            leaves=leaves,
        )

    def request(self, talk: Sequence[PastTurn], mood: float, language: Language, seed: int | None = None) -> Request:
        """The question to the model. Pictures are not shown to it: they were the seeker's own."""
        if not talk or talk[-1].speaker != "supporter":
            raise UserError("A seeker reacts to a supporter's turn, and there is none at the end of the conversation.")
        headings, most = _PROMPTS["headings"][language], self.settings.rules.clip
        shown = [f"{headings[turn.speaker]}\n{quote(turn.text)}" for turn in talk]
        task = _PROMPTS["task"][language].format(mood=f"{mood:.0f}", most=f"{most:.0f}" if most is not None else "100")
        return instructed(
            _PROMPTS["role"][language],
            "\n\n".join([headings["talk"], *shown, task]),
            temperature=self.settings.temperature,
            max_tokens=self.settings.max_tokens,
            seed=seed,
        )


class _Answer(msgspec.Struct, frozen=True):
    felt: str
    change: float
    reply: str
    leaves: bool
