"""A conversation of the policy with a simulated seeker: what was said, how it felt, how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from compeer.cer.item import Said
from compeer.errors import UserError
from compeer.policy.talk.emotion import Rules, outcome, relief
from compeer.policy.talk.seeker import Reaction
from compeer.reasoning import parse
from compeer.reasoning.language import detect
from compeer.reasoning.ontology import Language

End = Literal["turns", "goodbye", "content", "lost", "incomplete", "seeker", "length"]
ENDS: tuple[End, ...] = ("turns", "goodbye", "content", "lost", "incomplete", "seeker", "length")


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of the supporter as it was written, what was said of it, and what it did to the seeker."""

    output: str
    reply: str = ""
    reaction: Reaction | None = None


class Talk(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What it began with, its exchanges, how it ended and why. It travels to the reward as JSON."""

    language: Language
    history: list[Said]
    mood: float
    exchanges: list[Exchange] = []
    end: End | None = None
    why: str = ""

    def said(self, exchanges: int | None = None) -> list[Said]:
        """Everything that was said, up to and including so many exchanges."""
        spoken = list(self.history)
        for exchange in self.exchanges[:exchanges]:
            spoken.append(Said("supporter", exchange.reply))
            if exchange.reaction and exchange.reaction.said:
                spoken.append(Said("seeker", exchange.reaction.said))
        return spoken

    def answered(self, output: str, ended: bool) -> None:
        """The supporter's turn. Only the reply of a complete output that ended by itself is heard."""
        parsed = parse(output)
        complete = parsed.complete and ended
        self.exchanges.append(Exchange(output, parsed.response if complete else ""))
        if not complete:
            self.end, self.why = "incomplete", "; ".join(parsed.problems) or "it was cut off"

    def reacted(self, reaction: Reaction, rules: Rules) -> None:
        """What the last turn did to the seeker, and whether that was the end."""
        self.exchanges[-1] = msgspec.structs.replace(self.exchanges[-1], reaction=reaction)
        self.mood = reaction.mood
        if reaction.failure:
            self.end, self.why = "seeker", reaction.failure
        else:
            self.end = outcome(self.mood, rules) or ("goodbye" if reaction.leaves else None)

    def relief(self, rules: Rules) -> float | None:
        """The emotion's part of the reward; None when the seeker never reacted."""
        if self.end == "incomplete":
            return -1.0
        reacted = any(one.reaction and one.reaction.failure is None for one in self.exchanges)
        return relief(self.mood, rules) if reacted else None


def begin(messages: Sequence[dict[str, Any]], rules: Rules) -> Talk:
    """The conversation that a prompt begins: messages for a chat template, the last one the seeker's."""
    spoken = [one for one in messages if one["role"] in ("user", "assistant")]
    if not spoken or spoken[-1]["role"] != "user":
        raise UserError("A conversation with a seeker begins with a prompt that ends in the seeker's words.")
    history = [Said("seeker" if one["role"] == "user" else "supporter", _plain(one["content"])) for one in spoken]
    return Talk(language=detect(" ".join(turn.text for turn in history)), history=history, mood=rules.start)


def summary(talks: Sequence[Talk]) -> dict[str, float]:
    """How the conversations of a batch went, for the log."""
    count = max(1, len(talks))
    ends = Counter(one.end for one in talks)
    return {f"talk/ended/{end}": ends[end] / count for end in ENDS} | {
        "talk/mood": sum(one.mood for one in talks) / count,
        "talk/turns": sum(len(one.exchanges) for one in talks) / count,
    }


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    if any(part["type"] != "text" for part in content):
        raise UserError("Conversations with a simulated seeker are text only; leave out items with pictures.")
    return "".join(part["text"] for part in content)
