"""Items out to people, their answers back: blind tasks, votes, and the 2 + 1 consensus of the paper.

A task shows what an annotator judges and nothing else: history, reasoning, two replies in an order drawn
for this item and this annotator. Which reply is whose stands only in the key, a file of its own that stays
at home; task ids are hashes, so a task tells neither its item nor its generator. Answers come back as
"first" and "second", and become votes for reference and candidate by the key.

Two people judge each question; where they disagree a third one does, and two of three decide. Without two
equal answers there is no label (the paper excludes such samples). Consensus is a pure function of the
votes and is computed here, on import; every vote is kept.

Departure from the paper: it excludes whole samples; a question without consensus here loses only its own
label, and an item only when it is left without any. Item, task, key and answer are plain rows, so other
tools' formats (Label Studio, Potato) are a mapping of `LabelTask` and `TaskAnswer`, nothing more.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from compeer.cer.item import QUESTIONS, Item, Labels, PastTurn, Preference, Question, Vote
from compeer.errors import UserError
from compeer.pipeline.stage import Reject
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.typed import from_plain

Status = Literal["agreed", "adjudicated", "dropped", "open"]
Place = Literal["first", "second", "both", "neither"]


class LabelTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one annotator sees of one item. Without reasoning only the preference is asked."""

    id: str
    language: Language
    history: tuple[PastTurn, ...]
    first: str
    second: str
    reasoning: dict[str, str] | None = None  # step -> its text and its labelled lines
    questions: tuple[Question, ...] = QUESTIONS


class TaskKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a task hides. Kept apart from the tasks, needed to read their answers."""

    task: str
    item: str
    annotator: str
    candidate_first: bool


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One annotator's answers to one task; None where a question was not answered."""

    task: str
    annotator: str
    history: bool | None = None
    emotion: bool | None = None
    strategy: bool | None = None
    preference: Place | None = None
    skipped: str | None = None
    at: str | None = None
    seconds: float | None = None
    guideline: str | None = None


class Consensus(NamedTuple):
    """What the votes on one question come to."""

    value: bool | Preference | None
    status: Status


def consensus(votes: Sequence[bool | Preference]) -> Consensus:
    """Two equal votes decide, or a third one if the first two differ. Votes are in the order cast; more do not count.

    >>> consensus([True, True]), consensus([True, False, True])
    (Consensus(value=True, status='agreed'), Consensus(value=True, status='adjudicated'))
    >>> consensus(["both", "candidate", "neither"]), consensus([False])
    (Consensus(value=None, status='dropped'), Consensus(value=None, status='open'))
    """
    if len(votes) < 2:
        return Consensus(None, "open")
    first, second, *others = votes
    if first == second:
        return Consensus(first, "agreed")
    if not others:
        return Consensus(None, "open")
    return Consensus(others[0], "adjudicated") if others[0] in (first, second) else Consensus(None, "dropped")


def export(items: Iterable[Item], annotator: str, seed: int = 0) -> Iterator[tuple[LabelTask, TaskKey]]:
    """The tasks of one annotator with their keys. Items without a candidate have nothing to judge and are left out."""
    for item in items:
        if item.candidate is None:
            continue
        token = f"{seed}\x1f{annotator}\x1f{item.id}".encode()
        name = hashlib.blake2b(token, digest_size=10, person=b"task").hexdigest()
        candidate_first = random.Random(hashlib.sha256(token).digest()).random() < 0.5
        questions: tuple[Question, ...] = QUESTIONS if item.candidate.reasoning else ("preference",)
        task = task_for(item, candidate_first=candidate_first, name=name, questions=questions)
        yield task, TaskKey(task=name, item=item.id, annotator=annotator, candidate_first=candidate_first)


def task_for(item: Item, *, candidate_first: bool, name: str, questions: tuple[Question, ...]) -> LabelTask:
    """The item as a blind task, which does not tell whose reply is which."""
    assert item.candidate is not None
    replies = (item.candidate.response, item.reference)
    first, second = replies if candidate_first else replies[::-1]
    reasoning = item.candidate.reasoning
    return LabelTask(
        id=name,
        language=item.language,
        history=item.history,
        first=first,
        second=second,
        reasoning={step: render_step(reasoning, step) for step in STEPS} if reasoning else None,
        questions=questions,
    )


def votes_of(judgements: Iterable[TaskAnswer], keys: Iterable[TaskKey]) -> dict[str, list[Vote]]:
    """Votes by item, in the order they came. Who answers a task again replaces the earlier answer, in its place."""
    by_task = {key.task: key for key in keys}
    found: dict[str, dict[tuple[str, Question], Vote]] = {}
    for judgement in judgements:
        key = by_task.get(judgement.task)
        if key is None:
            raise UserError(f"There is no key for the task {judgement.task}. Give the key file of its export.")
        if key.annotator != judgement.annotator:
            raise UserError(
                f"The task {judgement.task} was made for {key.annotator} and comes back from {judgement.annotator}. "
                "Each annotator has an order of their own; export the tasks once more for this one."
            )
        cast = found.setdefault(key.item, {})
        for question in QUESTIONS:
            if (value := _value(judgement, question, key.candidate_first)) is not None and not judgement.skipped:
                cast[judgement.annotator, question] = Vote(
                    annotator=judgement.annotator,
                    question=question,
                    value=value,
                    at=judgement.at,
                    seconds=judgement.seconds,
                    candidate_first=key.candidate_first,
                    guideline=judgement.guideline,
                )
    return {item: list(cast.values()) for item, cast in found.items()}


def with_votes(item: Item, votes: tuple[Vote, ...], results: Mapping[Question, Consensus], **trace: Any) -> Item:
    """The item with its votes and the resulting labels. An undecided item keeps its earlier (silver) labels."""
    status = {question: result.status for question, result in results.items()}
    changed: dict[str, Any] = {"votes": votes, "trace": {**item.trace, "consensus": status, **trace}}
    decided = any(result.value is not None for result in results.values())
    if decided or "open" not in status.values():
        changed["labels"] = from_plain({question: result.value for question, result in results.items()}, Labels)
        changed["label_source"] = "human" if decided else None
    return msgspec.structs.replace(item, **changed)


def merge(items: Iterable[Item], votes: Mapping[str, Sequence[Vote]]) -> Iterator[Item | Reject]:
    """Items with their votes and the labels these come to. Items without any vote pass as they are.

    With the first label that people agree on the item is human, and none of its silver labels stay. Left without
    any while nothing is open, it is rejected as `no-consensus`.
    """
    missing = set(votes)
    for item in items:
        missing.discard(item.id)
        if item.id not in votes:
            yield item
            continue
        joined = {(vote.annotator, vote.question): vote for vote in (*item.votes, *votes[item.id])}  # the newest counts
        cast: dict[Question, list[Vote]] = {}
        for vote in joined.values():
            cast.setdefault(vote.question, []).append(vote)
        results = {name: consensus([vote.value for vote in cast[name]]) for name in QUESTIONS if name in cast}
        made = with_votes(item, tuple(joined.values()), results)
        if made.label_source or any(result.status == "open" for result in results.values()):
            yield made
        else:
            yield Reject(item.id, "no-consensus", "no two votes agree on any question", made)
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise UserError(f"{len(missing)} items have votes but are not among the items: {some}. Give the exported file.")


def _value(judgement: TaskAnswer, question: Question, candidate_first: bool) -> bool | Preference | None:
    given: Any = getattr(judgement, question)
    if given in ("first", "second"):
        return "candidate" if (given == "first") == candidate_first else "reference"
    value: bool | Preference | None = given
    return value
