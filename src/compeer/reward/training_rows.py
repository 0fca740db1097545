"""Training the judge (equation 4): `rows` from CER items, `reasons` behind verdicts, `train`.

Why a verdict is what it is, in a sentence, as far as that is known.

Silver items know how each wrong step and each reply was made (`item.trace["silver"]`), and what would have been right.
The sentences say no more than that, in the item's language, and vary, so that a judge learns what to look at and not
one phrase. Labels that people gave come without reasons: then there is none, and the verdict stands alone.

Training rows from CER items: the judge's conversation with its answers.

    unified    one row an item: up to four questions in one conversation
    prm        one row a step, each alone
    orm        the pair of replies alone

An answer is the verdict, and for a share of the items a reason behind it: scoring reads verdicts, people read reasons,
and the judge must know both forms. Reasons exist where it is known how a label came about (`reasons`).

A question without a label is not asked. It is left out just as a missing step is: the next question opens the
conversation, and the answers that remain do not refer to it. An item without any label gives no row.

The order of the two replies is drawn from the seed and the item's id, or both orders are shown. Rows that are too
long lose the oldest turns of the history, never their end, and are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.cer.item import QUESTIONS, Item, Question
from compeer.dialogue import trim
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import write_value
from compeer.reward.case import Case, case_of, drop_oldest_turns
from compeer.reward.conversation import JudgeThread, messages, threads
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind, choice_of
from compeer.training.encode import Example, ChatTokenizer, encode

Bank = Mapping[str, tuple[str, ...]]

# {given}: what the candidate concluded; {right}: what people noted, in sentences that serve only where it is known
_STEPS: dict[Language, dict[Question, Bank]] = {
    "en": {
        "history": {
            "right": ("That is what they are facing, and the talk is at the stage of {given}.",
                      "What it tells of them was said here, and the stage fits.",
                      "It keeps to what was said and rightly sees {given}.",
                      "Situation and stage both agree with the conversation."),
            "issue": ("The trouble it describes is not this person's.",
                      "It takes something for the issue that was not brought up here.",
                      "The last words are theirs, the problem is somebody else's."),
            "stage": ("The situation is right, but the talk is at {right}, not at {given}.",
                      "It says {given}, while the talk stands at {right}.",
                      "{given} is not where this conversation stands."),
            "whole": ("It tells another person's story.",
                      "What it speaks of belongs to another conversation.",
                      "It retells things that were not said here."),
        },
        "emotion": {
            "right": ("Their words carry {given}.",
                      "The feeling is read rightly: {given}.",
                      "What they say bears it out, {given} it is.",
                      "It names what they feel."),
            "emotion": ("It reads {given}, where their words point to {right}.",
                        "Not {given}: {right} is closer.",
                        "{given} is not what they show here."),
            "intensity": ("The feeling is right, its strength is not: {given} should be {right}.",
                          "It puts the strength at {given}; {right} would be nearer.",
                          "The feeling is right, its strength is not."),
            "whole": ("It reads another person's feelings.",
                      "{given} comes from words that were not said here.",
                      "This is about someone else's state."),
        },
        "strategy": {
            "right": ("This suits the moment: {given}.",
                      "What it sets out to do fits what they need now.",
                      "{given} is a good choice here.",
                      "That would help at this point."),
            "strategy": ("{given} does not suit this moment; {right} would.",
                         "Here {right} would serve them better than {given}.",
                         "{given} does not suit this moment.",
                         "This moment asks for something else."),
            "whole": ("It plans for another conversation.",
                      "{given} answers a moment that is not this one.",
                      "What it builds on was not said here."),
        },
    },
    "zh": {
        "history": {
            "right": ("处境说得对，对话正处在{given}阶段。", "说的都是对话里有的，阶段也合适。",
                      "处境和阶段都与对话相符。", "没有离开对方说过的话，{given}也判断得对。"),
            "issue": ("它说的困扰不是这个人的。", "它当作问题的事，这里没有提过。",
                      "最后的话是对方的，问题却是别人的。"),
            "stage": ("处境说对了，但对话处在{right}，不是{given}。", "它说是{given}，其实对话在{right}阶段。",
                      "这段对话并不在{given}阶段。"),
            "whole": ("它讲的是另一个人的事。", "说的内容属于另一段对话。", "它复述的事这里没有说过。"),
        },
        "emotion": {
            "right": ("对方的话里就是{given}。", "感受读得对：{given}。", "从对方说的话看得出{given}。",
                      "说出了对方的感受。"),
            "emotion": ("它读成{given}，对方的话更像{right}。", "不是{given}，更接近{right}。", "这里看不出{given}。"),
            "intensity": ("感受对了，强度不对：{given}应为{right}。", "强度写成{given}，{right}更接近。",
                          "感受对了，强度不对。"),
            "whole": ("它读的是别人的感受。", "{given}来自这里没有说过的话。", "说的是另一个人的状态。"),
        },
        "strategy": {
            "right": ("此刻适合：{given}。", "它打算做的正是对方现在需要的。", "在这里用{given}是合适的。",
                      "此时这样做有帮助。"),
            "strategy": ("{given}不适合此刻，{right}更合适。", "这里{right}比{given}更有帮助。", "{given}不适合此刻。",
                         "此刻需要的是别的做法。"),
            "whole": ("它是为另一段对话打算的。", "{given}回应的不是这个时刻。", "它依据的话这里没有说过。"),
        },
    },
}  # fmt: skip
# {good}, {bad}: the places of the better and the worse reply
_PAIR: dict[Language, Bank] = {
    "en": {
        "both": ("Both take up what was said.", "Either would do here.", "Each of them answers this person."),
        "candidate": ("The {good} one takes up what was said, the {bad} one does little for them.",
                      "The {bad} one misses what they need."),
        "off_topic": ("The {bad} one answers something that was not said here.",
                      "The {good} one stays with them, the {bad} one speaks of something else."),
        "unfit": ("The {bad} one does the wrong thing at this moment.",
                  "What the {bad} one does is not what they need now."),
        "spliced": ("The {bad} one begins here and ends somewhere else.",
                    "Half of the {bad} one belongs to another conversation."),
        "detail": ("The {bad} one gets something in their story wrong.",
                   "The {bad} one mentions what is not part of their story."),
        "generic": ("The {bad} one could be said to anyone.", "The {bad} one is a phrase, the {good} one an answer."),
        "failed": ("The {bad} one does little for this person.", "The {bad} one does not meet what they said."),
        "neither": ("Neither does this person much good.", "Neither meets what they need now."),
    },
    "zh": {
        "both": ("两句都接住了对方的话。", "这里哪一句都可以。", "两句都在回应这个人。"),
        "candidate": ("{good}接住了对方的话，{bad}帮助不大。", "{bad}没有看到对方的需要。"),
        "off_topic": ("{bad}回答的是这里没有说过的事。", "{good}跟着对方，{bad}说的是别的事。"),
        "unfit": ("{bad}此刻做得不合适。", "{bad}做的不是对方现在需要的。"),
        "spliced": ("{bad}开头对，后面说到别处去了。", "{bad}有一半属于另一段对话。"),
        "detail": ("{bad}把对方的事说错了。", "{bad}提到了对方没有的事。"),
        "generic": ("{bad}对谁都可以说。", "{bad}是套话，{good}才是回应。"),
        "failed": ("{bad}对这个人帮助不大。", "{bad}没有回应对方说的话。"),
        "neither": ("两句对这个人都没有多少帮助。", "两句都没有回应对方现在的需要。"),
    },
}  # fmt: skip
_PLACES: dict[Language, tuple[str, str]] = {"en": ("first", "second"), "zh": ("第一句", "第二句")}
#: the label that a sentence speaks of: the one that is wrong, else the step's main one
_LABELS = ("stage", "emotion", "intensity", "strategy")
_NAMELESS = ("others", "其他")
_MAIN = {"history": "stage", "emotion": "emotion", "strategy": "strategy"}


def reason(item: Item, question: Question, candidate_first: bool, rng: Random) -> str | None:
    """A sentence that says why the item's label is what it is, or None when nothing is known."""
    trace = item.trace.get("silver")
    if not isinstance(trace, dict) or item.label_source != "silver":
        return None
    if question == "preference":
        return _pair_reason(item, trace, candidate_first, rng)
    return _step_reason(item, question, trace, rng)


def _step_reason(item: Item, step: Question, trace: Mapping[str, Any], rng: Random) -> str | None:
    candidate = item.candidate.reasoning if item.candidate else None
    label = getattr(item.labels, step)
    wrong = trace.get(step, {}).get("wrong")
    if candidate is None or label is None or label is not (wrong is None):
        return None
    kind = str(wrong) if wrong else "right"
    spoken = kind if kind in _LABELS else _MAIN[step]
    values = {"given": write_value(spoken, candidate.label(spoken), item.language)}
    if item.reference_reasoning is not None:
        values["right"] = write_value(spoken, item.reference_reasoning.label(spoken), item.language)
    sentences = [text for text in _STEPS[item.language][step].get(kind, ()) if _sayable(text, values)]
    return _capital(rng.choice(sentences).format(**values)) if sentences else None


def _pair_reason(item: Item, trace: Mapping[str, Any], candidate_first: bool, rng: Random) -> str | None:
    preference, made = item.labels.preference, trace.get("reply", {}).get("kind")
    kind = made if preference == "reference" else preference
    first, second = _PLACES[item.language]
    better_first = candidate_first == (preference == "candidate")
    places = {"good": first if better_first else second, "bad": second if better_first else first}
    sentences = _PAIR[item.language].get(str(kind), ())
    return _capital(rng.choice(sentences).format(**places)) if sentences else None


def _sayable(text: str, values: Mapping[str, str]) -> bool:
    """All that it names is known, and none of it is the strategy that has no name of its own."""
    named = [name for name in ("given", "right") if f"{{{name}}}" in text]
    if "right" in named and values.get("right") == values["given"]:
        return False
    return all(name in values and values[name] not in _NAMELESS for name in named)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_JOINT: dict[Language, str] = {"en": " ", "zh": ""}


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What rows are made of an item."""

    kind: Kind = "unified"
    seed: int = 0
    reasons: Annotated[float, Meta(ge=0, le=1)] = 0.5  # share of the items whose answers give reasons
    orders: Literal["one", "both"] = "one"
    repeat_false: Annotated[float, Meta(ge=1)] = 1.0  # how often rows with a False step are shown


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation to learn, before it is made to fit a model."""

    item: Item
    case: Case
    kind: Kind
    candidate_first: bool
    question: Question | None = None  # the only one, of a PRM's row
    reasoned: bool = False
    copy: int = 0
    seed: int = 0


class Made(msgspec.Struct, frozen=True):
    """Examples, and what became of the items."""

    examples: list[Example]
    counts: dict[str, int]
    languages: tuple[str, ...]
    label_sources: tuple[str, ...]
    licences: tuple[str, ...]
    dialogues: frozenset[str]


def rows(item: Item, choices: Choices) -> Iterator[Row]:
    """The rows of one item; none when it has no label that this kind of judge learns."""
    case = labelled(case_of(item), item)
    for copy in range(_copies(item, choices)):
        drawn = _draw(choices, item, "order", copy) < 0.5
        reasoned = _draw(choices, item, "reasons", copy) < choices.reasons
        for first in (True, False) if choices.orders == "both" else (drawn,):
            asked = [thread.turns for thread in threads(case, choices.kind, first)]
            if choices.kind == "prm" and first is not drawn:
                continue  # a step alone has no order
            for turns in asked:
                question = turns[0].question if choices.kind == "prm" else None
                if copy and question and getattr(item.labels, question) is not False:
                    continue
                yield Row(item=item, case=case, kind=choices.kind, candidate_first=first, question=question,
                          reasoned=reasoned, copy=copy, seed=choices.seed)  # fmt: skip


def labelled(case: Case, item: Item) -> Case:
    """The case with nothing but what has a label: an unlabelled step counts as missing, an unlabelled pair as none."""
    first, second, third = (
        step if getattr(item.labels, question) is not None else None
        for question, step in zip(QUESTIONS, case.steps, strict=False)
    )
    reference = case.reference if item.labels.preference is not None else ""
    return msgspec.structs.replace(case, steps=(first, second, third), reference=reference)


def chat(row: Row, left_out: int = 0) -> list[dict[str, Any]]:
    """The row's messages, without the oldest `left_out` turns of the history."""
    case = drop_oldest_turns(row.case, left_out) if left_out else row.case
    thread = next(
        thread
        for thread in threads(case, row.kind, row.candidate_first)
        if row.question is None or thread.turns[0].question == row.question
    )
    return messages(thread, answers(row, thread))


def answers(row: Row, thread: JudgeThread) -> list[str]:
    """What the judge should say to each question of the thread."""
    return [_answer(row, turn.question) for turn in thread.turns]


def fit(row: Row, words: ChatTokenizer, max_length: int) -> tuple[Example, int] | None:
    """The row encoded, and how many turns it lost to fit; None when even its last turn does not."""
    tried: dict[int, Example] = {}

    def example(left_out: int) -> Example:
        if left_out not in tried:
            tried[left_out] = encode(chat(row, left_out), words)
        return tried[left_out]

    turns = row.case.history
    kept = trim(turns, lambda end: len(example(len(turns) - len(end))) <= max_length, starts=lambda turn: True)
    left_out = len(turns) - len(kept)
    found = example(left_out)
    return (found, left_out) if len(found) <= max_length else None


def make(items: Iterable[Item], choices: Choices, words: ChatTokenizer, max_length: int) -> Made:
    """Examples of all items, in their order."""
    examples: list[Example] = []
    counts: Counter[str] = Counter()
    seen: dict[str, set[str]] = {"languages": set(), "sources": set(), "licences": set(), "dialogues": set()}
    for item in items:
        counts["items"] += 1
        made = list(rows(item, choices)) if item.candidate is not None else []
        counts["items without a row"] += not made
        for row in made:
            fitted = fit(row, words, max_length)
            if fitted is None:
                counts["rows too long"] += 1
                continue
            example, lost = fitted
            examples.append(example)
            counts["rows"] += 1
            counts["rows shortened"] += lost > 0
            counts["rows with pictures"] += bool(example.images)
            counts["tokens"] += len(example)
            counts["tokens learnt"] += sum(end - start for start, end in example.spans)
        if made:
            seen["languages"].add(item.language)
            seen["sources"].add(item.label_source or "unknown")
            seen["licences"].add(item.licence)
            seen["dialogues"].add(item.dialogue)
    return Made(
        examples,
        {name: count for name, count in counts.items() if count},
        tuple(sorted(seen["languages"])),
        tuple(sorted(seen["sources"])),
        tuple(sorted(seen["licences"])),
        frozenset(seen["dialogues"]),
    )


def _answer(row: Row, question: Question) -> str:
    item, language = row.item, row.item.language
    label = getattr(item.labels, question)
    if question == "preference":
        verdict = PAIR_WORDS[language][choice_of(label, row.candidate_first)]
    else:
        verdict = STEP_WORDS[language][label]
    rng = Random(f"{row.seed} {item.id} {question} {row.copy} {row.candidate_first}")
    why = reason(item, question, row.candidate_first, rng) if row.reasoned else None
    return verdict if why is None else verdict + _JOINT[language] + why


def _copies(item: Item, choices: Choices) -> int:
    """Once, and more often where a step is False and the configuration asks for it; a broken share by chance."""
    steps = [getattr(item.labels, question) for question in QUESTIONS[:3]]
    if choices.kind == "orm" or False not in steps:
        return 1
    whole = int(choices.repeat_false)
    return whole + (_draw(choices, item, "copies", 0) < choices.repeat_false - whole)


def _draw(choices: Choices, item: Item, what: str, copy: int) -> float:
    return Random(f"{choices.seed} {item.id} {what} {copy}").random()
