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
from functools import cache
from random import Random
from types import ModuleType

import msgspec

from compeer.cer.silver import chinese, english_emotion, english_history, english_strategy, feelings
from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.own_words import quotes, retold, topics
from compeer.cer.silver.phrases import Slots, say
from compeer.reasoning.ontology import STRATEGIES
from compeer.reasoning.schema import STEPS

#: step -> its parts in the orders in which they may be told
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "history": (
        ("issue", "moment", "standing"), ("issue", "moment", "standing"), ("moment", "issue", "standing"), ("issue", "standing"),
        ("standing", "issue"), ("issue", "standing", "moment"), ("standing", "issue", "moment"), ("moment", "standing", "issue"),
    ),
    "emotion": (
        ("signs", "reading", "degree"), ("signs", "reading", "degree"), ("reading", "signs", "degree"), ("reading", "degree", "signs"),
        ("signs", "reading"), ("reading", "signs"), ("signs", "degree", "reading"),
    ),
    "strategy": (
        ("need", "plan", "against"), ("need", "against", "plan"), ("plan", "need", "against"), ("against", "need", "plan"),
        ("need", "plan"), ("plan", "against"), ("against", "plan"), ("plan", "need"),
    ),
}  # fmt: skip
#: which parts carry a conclusion, and which label they carry
CONCLUDES = {"standing": "stage", "reading": "emotion", "degree": "intensity", "plan": "strategy", "against": "strategy"}
_DISCLOSED = 25  # words after which the seeker has usually said what it is about
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_REFUSES = re.compile(r"^\W*(?:no|not|nah|but|i (?:can't|cant|don't|dont|tried|already))\b|^不|但是|没用", re.IGNORECASE)
_THANKS = re.compile(r"\b(?:thank|thanks|thx|appreciate|bye)\b|谢谢|再见", re.IGNORECASE)


class Draft(msgspec.Struct, frozen=True):
    """The true steps of a moment: the parts of each, and the order in which they are told."""

    parts: dict[str, dict[str, str]]
    order: dict[str, tuple[str, ...]]

    def text(self, step: str, other: dict[str, str] | None = None) -> str:
        """The step's text, with the parts in `other` in place of its own."""
        parts = self.parts[step] | (other or {})
        order = self.order[step]
        sentences = sum(len(re.findall(r"[.!?。！？](?:\s|$|\")", parts.get(name, ""))) for name in order)
        if sentences > 4 and "moment" in order:  # a step is at most four sentences
            order = tuple(name for name in order if name != "moment")
        gap = "" if re.search(r"[\u4e00-\u9fff]", "".join(parts.values())) else " "
        return gap.join(parts[name] for name in order if parts.get(name))


def draft(moment: Moment, seed: int) -> Draft:
    """The true steps of a moment; the corpus's own reasoning where it has one."""
    if moment.written:
        parts = {step: {"whole": " ".join(getattr(moment.written, step).split())} for step in STEPS}
        return Draft(parts, {step: ("whole",) for step in STEPS})
    order = {step: stream(seed, moment.key, step, "shape").choice(SHAPES[step]) for step in STEPS}
    return Draft({step: {name: part(name, moment, moment, seed) for name in sorted(set(order[step]))} for step in STEPS}, order)


def part(name: str, of: Moment, concluding: Moment, seed: int) -> str:
    """One part: evidence and topics from `of`, conclusion and phrasing from `concluding`."""
    banks = _banks(of.language)
    rng = stream(seed, concluding.key, name)
    slots = evidence(of, seed)
    if name in ("issue", "moment", "signs", "need"):
        bank = {"issue": banks.ISSUE, "moment": banks.MOMENT, "signs": banks.SIGNS, "need": banks.NEED}[name]
        if name != "issue":
            bank = _occasion(bank, of, slots, rng)
        return say(bank, rng, slots) or say(_LAST_RESORT[of.language], rng, slots) or ""
    if name == "standing":
        return say(banks.STANDING[concluding.stage], rng, slots) or ""
    if name == "degree":
        return say(banks.DEGREE[concluding.intensity], rng, slots) or ""
    if name == "reading":
        return say(banks.READING, rng, _feeling_slots(concluding, banks, rng)) or ""
    if name == "plan":
        return say(banks.PLAN[concluding.strategy], rng, slots) or ""
    alternatives = [s for s in STRATEGIES.ids if s not in concluding.strategies and s != concluding.strategy]
    return say(banks.AGAINST[rng.choice(alternatives)], rng, slots) or ""


@cache
def _banks(language: str) -> ModuleType:
    if language == "zh":
        return chinese
    merged = ModuleType("english")
    for module in (feelings, english_history, english_emotion, english_strategy):
        merged.__dict__.update({name: value for name, value in vars(module).items() if name.isupper()})
    return merged


#: where nothing can be quoted
_LAST_RESORT = {
    "en": ("[They have not said much that I could hold on to|There is little in words so far|Much of it stays vague].",),
    "zh": ("[能抓住的话不多|说得还很少]。",),
}


def evidence(moment: Moment, seed: int) -> Slots:
    """What the conversation so far offers for the slots. Nothing said later, nothing untold."""
    language = moment.language
    rng = stream(seed, moment.key, "evidence")
    slots: dict[str, str] = {}
    last = quotes(moment.last, language)
    earlier = [q for text in moment.seeker for q in quotes(text, language)]
    if last:
        slots["last"] = _quoted(rng.choice(last), language)
    if pool := [q for q in dict.fromkeys(earlier + list(last)) if _quoted(q, language) != slots.get("last")]:
        first, second = _draw(pool, rng), _draw(pool, rng)
        slots["quote"] = _quoted(first, language)
        if second != first:
            slots["quote2"] = _quoted(second, language)
    facts = list(dict.fromkeys([f for text in moment.seeker for f in retold(text, language)] + _situation(moment)))
    if facts:
        first, second = _draw(facts, rng), _draw(facts, rng)
        slots["fact"] = first
        if second != first:
            slots["fact2"] = second
    if named := topics(moment.told, language):
        slots["topic"] = rng.choice(named[:3])
    slots["it"] = slots.get("topic", "all this" if rng.random() < 0.5 else "this")
    phrases = _banks(language).PROBLEMS.get(moment.dialogue.problem or "")
    if phrases and size(moment.told, language) >= _DISCLOSED:
        slots["problem"] = rng.choice(phrases)
    if 3 <= moment.index < len(_NUMBERS):
        slots["count"] = _NUMBERS[moment.index]
    if moment.seen and (seen := quotes(moment.seen, language)):
        slots["seen"] = seen[0]
    word = _banks(language).GIVEAWAYS[feelings.family(moment.emotion)]
    bound = r"\b" if language == "en" else ""
    if found := re.findall(rf"{bound}(?:{word}){bound}", moment.told, re.IGNORECASE):
        slots["word"] = _quoted(found[-1], language)
    return slots


def _situation(moment: Moment) -> list[str]:
    """Sentences of the questionnaire that the seeker has told by now: half of their longer words have been said."""
    said = set(re.findall(r"\w{4,}", moment.told.lower()))
    facts = []
    for fact in retold(moment.dialogue.situation or "", moment.language):
        words = [w for w in re.findall(r"\w{4,}", fact.lower()) if w not in {"they", "them", "their", "have"}]
        if len(words) >= 2 and sum(w in said for w in words) >= 0.6 * len(words):
            facts.append(fact)
    return facts


def _draw(pool: list[str], rng: Random) -> str:
    """The later and the longer, the likelier."""
    return rng.choices(pool, [(1 + at) ** 0.5 * min(len(text), 80) for at, text in enumerate(pool)])[0]


def _quoted(text: str, language: str) -> str:
    return f'"{text}"' if language == "en" else f"“{text}”"


def _feeling_slots(concluding: Moment, banks: ModuleType, rng: Random) -> Slots:
    meant = banks.FEELINGS[concluding.emotion]
    common = ("anxiety", "fear", "sadness", "depression", "anger", "disgust", "shame", "guilt", "loneliness", "frustration")
    other = banks.FEELINGS[rng.choice([e for e in common if banks.FEELINGS[e].family != meant.family])]
    return {
        "name": rng.choice(meant.names),
        "state": rng.choice(meant.states),
        "other": other.names[0],
        "otherstate": other.states[0],
    }


def _occasion(bank: dict[str, tuple[str, ...]], moment: Moment, slots: Slots, rng: Random) -> tuple[str, ...]:
    """The patterns for this occasion: what is special about the last message, or what can always be said."""
    words = size(moment.last, moment.language)
    before = moment.before[-1] if moment.before else ""
    fits = {
        "short": words <= 5,
        "long": words >= 40,
        "asks": "?" in slots.get("last", "") or "？" in slots.get("last", ""),
        "thanks": bool(_THANKS.search(moment.last)),
        "first": len(moment.seeker) <= 2,
        "answered": before == "question",
        "asked": before == "question" and moment.before[-2:-1] == ("question",),
        "advised": before in ("providing suggestions", "information"),
        "refuses": bool(_REFUSES.search(moment.last)),
        "loud": moment.last.count("!") >= 2,
        "trailing": ".." in moment.last or "…" in moment.last,
        "laugh": bool(re.search(r"\b(?:lol|haha\w*|lmao)\b|哈哈", moment.last, re.IGNORECASE)),
        "word": "word" in slots,
    }
    special = [name for name, holds in fits.items() if holds and name in bank]
    if special and rng.random() < 0.45:
        return bank[rng.choice(special)] if rng.random() < 0.8 else bank["any"]
    return bank["any"]
