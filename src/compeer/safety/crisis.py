"""The crisis path: what is added to the prompt, the banner, and our own reply when the model's must not be shown.

Never refuse and never end the conversation. Acknowledge; ask directly and without leading; name help that is open at
all hours; encourage a person, professional or close; offer grounding or a safety plan. These are what clinicians look
for, and what they rate as the worst failures is the absence of each.

The banner does not depend on the model: it is there before the model has written a word. All words are in
`words/said.json`, in both languages; of each reply there are two, so that a person who stays is not told the same
again and again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from compeer.safety.helplines import lines
from compeer.safety.risk import Risk
from compeer.safety.said import said

About = Literal["self", "other", "danger"]


class Banner(msgspec.Struct, frozen=True):
    """The fixed words that stay in sight while there is risk."""

    words: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((self.words, *self.lines))


def about(risk: Risk) -> About:
    """Whom the danger concerns: the person, someone they tell of, or both at somebody's hands."""
    kinds = set(risk.kinds) - {"denial", "guard"}
    if kinds & {"wish", "plan", "selfharm", "method", "burden", "goodbye", "model"} or not kinds:
        return "self"
    return "danger" if kinds & {"danger", "violence"} else "other"


def guidance(risk: Risk, country: str | None, language: str) -> str | None:
    """What the supporter is told beside its instructions; None when there is no risk."""
    spoken = "zh" if language == "zh" else "en"
    if risk.level == "high":
        return said("guidance", spoken).format(lines="; ".join(lines(country, spoken)[:2]))
    return said("watch", spoken) if risk.level == "watch" else None


def banner(risk: Risk, country: str | None, language: str) -> Banner | None:
    """The banner while risk is high, else None."""
    return helplines(risk, country, language) if risk.level == "high" else None


def helplines(risk: Risk, country: str | None, language: str) -> Banner:
    """The banner, whatever the risk."""
    spoken = "zh" if language == "zh" else "en"
    return Banner(said("banner", about(risk), spoken), tuple(lines(country, spoken)))


def written(risk: Risk, language: str, time: int = 0) -> str:
    """A reply of ours; `time` counts how often one was needed in this conversation."""
    whom = about(risk) if risk.level == "high" else "none"
    return said("reply", whom, "zh" if language == "zh" else "en", time=time)


def instead(why: str, language: str) -> str:
    """The sentence that says that a reply is ours, and why."""
    spoken = "zh" if language == "zh" else "en"
    return said("instead", spoken).format(why=said("why", why, spoken))


def check_in(language: str) -> str:
    """The direct question, for when the model has not asked it."""
    return said("check_in", "zh" if language == "zh" else "en")
