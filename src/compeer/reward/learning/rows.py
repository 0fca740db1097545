"""Training rows from CER items: the judge's conversation with its answers.

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
from collections.abc import Iterable, Iterator
from random import Random
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.cer.item import QUESTIONS, Item, Question
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, case_of, shortened
from compeer.reward.conversation import Thread, messages, threads
from compeer.reward.learning.reasons import reason
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind, choice_of
from compeer.training.encode import Example, Words, encode

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
    case = shortened(row.case, left_out) if left_out else row.case
    thread = next(
        thread
        for thread in threads(case, row.kind, row.candidate_first)
        if row.question is None or thread.turns[0].question == row.question
    )
    return messages(thread, answers(row, thread))


def answers(row: Row, thread: Thread) -> list[str]:
    """What the judge should say to each question of the thread."""
    return [_answer(row, turn.question) for turn in thread.turns]


def fit(row: Row, words: Words, max_length: int) -> tuple[Example, int] | None:
    """The row encoded, and how many turns it lost to fit; None when even its last turn does not."""
    whole = encode(chat(row), words)
    if len(whole) <= max_length:
        return whole, 0
    low, high = 1, len(row.case.history) - 1  # the fewest that suffice lie between
    found = None
    while low <= high:
        middle = (low + high) // 2
        tried = encode(chat(row, middle), words)
        if len(tried) <= max_length:
            found, high = (tried, middle), middle - 1
        else:
            low = middle + 1
    return found


def make(items: Iterable[Item], choices: Choices, words: Words, max_length: int) -> Made:
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
