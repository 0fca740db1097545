"""The paper's 2 + 1 protocol as pure rules: who is still needed, on which questions, and what the votes come to.

Two people answer every question of an item, each alone. On the questions where they differ, and on no others, a third
person votes without seeing them. Two equal votes of three make the label; three that all differ (possible only for the
preference) drop the question. What two or three votes come to is decided by `compeer.cer.exchange.consensus`, which
the file-based exchange uses too, so there is one rule in one place.

Nothing here is stored. Whoever wants a label gives the ballots and gets it computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from compeer.cer.exchange import Consensus, Status, consensus
from compeer.cer.item import QUESTIONS, Item, Preference, Question
from compeer.reward.verdict import PREFERENCES

Answer = bool | Preference
#: `first`: one of the two independent votes; `third`: on what they differ about; `audit`: again, after the item closed
Pass = Literal["first", "third", "audit"]
Stage = Literal["first", "third", "closed"]
STATUSES: tuple[Status, ...] = ("open", "agreed", "adjudicated", "dropped")
#: which of the places at an item belong to which pass; a place is taken by one person at a time
PLACES: dict[Pass, tuple[int, ...]] = {"first": (1, 2), "third": (3,), "audit": (4,)}

__all__ = [
    "PLACES",
    "QUESTIONS",
    "STATUSES",
    "Answer",
    "Ballot",
    "Consensus",
    "Pass",
    "Stage",
    "Status",
    "answer_of",
    "answer_text",
    "asked_of",
    "consensus",
    "disputed",
    "stage",
    "verdicts",
]


class Ballot(msgspec.Struct, frozen=True):
    """One person's valid answers to one item in one pass."""

    annotator: str
    turn: Pass
    answers: Mapping[Question, Answer]


def asked_of(item: Item) -> tuple[Question, ...]:
    """The questions an item poses: without reasoning there is only the pair to compare, without a candidate nothing."""
    if item.candidate is None:
        return ()
    return QUESTIONS if item.candidate.reasoning is not None else ("preference",)


def verdicts(questions: Sequence[Question], ballots: Sequence[Ballot]) -> dict[Question, Consensus]:
    """Label and status of each question. First-pass ballots count before the third; audits never do.

    >>> two = [Ballot("a", "first", {"history": True}), Ballot("b", "first", {"history": False})]
    >>> verdicts(["history"], two)["history"].status
    'open'
    >>> verdicts(["history"], [*two, Ballot("c", "third", {"history": False})])["history"]
    Consensus(value=False, status='adjudicated')
    """
    counted = [one for turn in ("first", "third") for one in ballots if one.turn == turn]
    return {
        question: consensus([one.answers[question] for one in counted if question in one.answers])
        for question in questions
    }


def disputed(questions: Sequence[Question], ballots: Sequence[Ballot]) -> tuple[Question, ...]:
    """The questions on which the two first-pass ballots differ; none before both are in.

    >>> disputed(["history", "preference"], [
    ...     Ballot("a", "first", {"history": True, "preference": "both"}),
    ...     Ballot("b", "first", {"history": True, "preference": "candidate"})])
    ('preference',)
    """
    first = [one for one in ballots if one.turn == "first"]
    if len(first) < 2:
        return ()
    return tuple(question for question in questions if first[0].answers[question] != first[1].answers[question])


def stage(questions: Sequence[Question], ballots: Sequence[Ballot]) -> Stage:
    """What the item waits for: first-pass votes, a third person, or nothing any more."""
    if sum(one.turn == "first" for one in ballots) < 2:
        return "first"
    return "third" if any(one.status == "open" for one in verdicts(questions, ballots).values()) else "closed"


def answer_text(answer: Answer) -> str:
    """An answer as it is stored: true, false, or the preference's own name."""
    return ("false", "true")[answer] if isinstance(answer, bool) else answer


def answer_of(question: Question, text: str) -> Answer:
    """The way back.

    >>> answer_of("history", "false"), answer_of("preference", "both")
    (False, 'both')
    """
    if question == "preference":
        return PREFERENCES[PREFERENCES.index(text)]
    return {"true": True, "false": False}[text]
