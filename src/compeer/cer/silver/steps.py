"""The three steps of one moment, in parts: what comes from the conversation, and what the conclusion is.

    history    issue (what they face)    moment (what was just said)    standing -> Stage
    emotion    signs (what shows it)     reading -> Emotion             degree   -> Intensity
    strategy   need (what is asked for)  plan -> Strategy               against (what is not)

Parts are drawn from separate random streams, so any of them can be another moment's: a wrong conclusion behind
one's own evidence, or another conversation's evidence as well. Either way each part has been a right one
somewhere, which is why nothing in the text alone tells right from wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import msgspec

from compeer.cer.silver.evidence import Evidence, slots
from compeer.cer.silver.moment import Moment, stream
from compeer.cer.silver.phrases import Phrases, Slots, phrases, say
from compeer.reasoning.ontology import STRATEGIES
from compeer.reasoning.schema import STEPS

#: step -> its parts in the orders in which they may be told
SHAPES: dict[str, tuple[str, ...]] = {
    "history": (
        "issue moment standing",
        "issue moment standing",
        "moment issue standing",
        "issue standing",
        "standing issue",
        "issue standing moment",
        "standing issue moment",
        "moment standing issue",
    ),
    "emotion": (
        "signs reading degree",
        "signs reading degree",
        "reading signs degree",
        "reading degree signs",
        "signs degree reading",
        "signs reading",
        "reading signs",
    ),
    "strategy": (
        "need plan against",
        "need against plan",
        "plan need against",
        "against need plan",
        "need plan",
        "plan need",
        "plan against",
        "against plan",
    ),
}


_SPARE = ("moment", "degree", "against")
_END = re.compile(r"[.!?。！？](?=\s|$|[\u4e00-\u9fff])")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")


class Draft(msgspec.Struct, frozen=True):
    """The true steps of a moment: the parts of each, and the order in which they are told."""

    parts: dict[str, dict[str, str]]
    order: dict[str, tuple[str, ...]]

    def text(self, step: str, other: dict[str, str] | None = None) -> str:
        """The step's text, with the parts in `other` in place of its own."""
        parts = self.parts[step] | (other or {})
        order = self.order[step]
        sentences = sum(len(_END.findall(_QUOTED.sub("", parts.get(name, "")))) for name in order)
        if sentences > 4:  # a step is at most that long
            order = tuple(name for name in order if name not in _SPARE)
        gap = "" if re.search(r"[\u4e00-\u9fff]", "".join(parts.values())) else " "
        return gap.join(parts[name] for name in order if parts.get(name))


def draft(found: Evidence, seed: int) -> Draft:
    """The true steps of a moment; the corpus's own reasoning where it has one."""
    moment = found.moment
    if moment.written:
        parts = {step: {"whole": " ".join(getattr(moment.written, step).split())} for step in STEPS}
        return Draft(parts, dict.fromkeys(STEPS, ("whole",)))
    parts, order = {}, {}
    for step in STEPS:
        order[step] = tuple(stream(seed, moment.key, step, "shape").choice(SHAPES[step]).split())
        drawn = slots(found, step, seed)
        parts[step] = {name: _part(name, found, moment, drawn, seed) for name in order[step]}
    return Draft(parts, order)


def concluded(draft: Draft, step: str, names: Sequence[str], found: Evidence, concluding: Moment, seed: int) -> str:
    """The step with its own evidence, but with the named parts concluding what another moment concluded."""
    drawn = slots(found, step, seed)
    return draft.text(step, {n: _part(n, found, concluding, drawn, seed) for n in names if n in draft.order[step]})


def _part(name: str, found: Evidence, concluding: Moment, drawn: Slots, seed: int) -> str:
    """One part: evidence from one moment, conclusion and phrasing from another (or the same)."""
    bank = phrases(concluding.language)
    rng = stream(seed, concluding.key, name)
    match name:
        case "issue":
            patterns = bank.issue
        case "moment" | "signs" | "need":
            patterns = _occasion(
                {"moment": bank.moment, "signs": bank.signs, "need": bank.need}[name], found, drawn, rng
            )
        case "standing":
            patterns = bank.standing[concluding.stage]
        case "degree":
            patterns = bank.degree[concluding.intensity]
        case "reading":
            patterns, drawn = bank.reading, _feeling_slots(concluding, bank, rng)
        case "plan":
            patterns = bank.plan[concluding.strategy]
        case _:
            alternatives = [s for s in STRATEGIES.ids if s not in (concluding.strategy, *concluding.strategies)]
            patterns = bank.against[rng.choice(alternatives)]
    return say(patterns, rng, drawn) or say(bank.last_resort, rng, {}) or ""


#: feelings that another is told apart from
_COMMON = (
    "anxiety", "fear", "sadness", "depression", "anger", "disgust", "shame", "guilt", "loneliness", "frustration",
)  # fmt: skip


def _feeling_slots(concluding: Moment, bank: Phrases, rng: Random) -> Slots:
    meant = bank.feelings[concluding.emotion]
    other = bank.feelings[rng.choice([e for e in _COMMON if bank.feelings[e].family != meant.family])]
    return {
        "name": rng.choice(meant.names),
        "state": rng.choice(meant.states),
        "other": other.names[0],
        "otherstate": other.states[0],
    }


def _occasion(bank: dict[str, tuple[str, ...]], evidence: Evidence, slots: Slots, rng: Random) -> tuple[str, ...]:
    """The patterns for this occasion: what is special about the last message, or what can always be said."""
    special = [name for name in (*evidence.occasions, *(("word",) if "word" in slots else ())) if name in bank]
    if "asks" in special and "?" not in slots.get("last", "") and "？" not in slots.get("last", ""):
        special.remove("asks")  # the question was asked, but it is not what was drawn to be quoted
    return bank[rng.choice(special)] if special and rng.random() < 0.36 else bank["any"]
