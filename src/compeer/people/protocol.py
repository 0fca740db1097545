"""The paper's 2 + 1 protocol as pure rules: who is still needed, on which questions, and what the votes come to.

Two people answer every question of an item, each alone. On the questions where they differ, and on no others, a third
person votes without seeing their answers. Two equal votes of three make the label; three that all differ (possible only
for the preference) drop the question. `compeer.cer.exchange.consensus` decides, as for labels exchanged by files.

"Unsure" is a finished look without a vote on that question. A third person is asked, and two equal votes still make the
label: one of the first two and the third. Where both of the first pass are unsure the question is dropped, because a
third alone cannot make two equal votes. An unsure answer is kept, and never becomes True, False or a preference.

Nothing here is stored: labels are computed from ballots whenever they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from compeer.cer.exchange import Consensus, Status, consensus
from compeer.cer.item import QUESTIONS, Item, Preference, Question
from compeer.reasoning import STEPS

Vote = bool | Preference
Unsure = Literal["unsure"]
UNSURE: Unsure = "unsure"
Answer = Vote | Unsure
#: `first`: one of the two independent votes; `third`: on what they differ about; `audit`: again, after the item closed;
#: `gold`: on an item whose answers are known, which takes no place
Pass = Literal["first", "third", "audit", "gold"]
Stage = Literal["first", "third", "closed"]
STATUSES: tuple[Status, ...] = ("open", "agreed", "adjudicated", "dropped")
#: the places at an item by pass; one person takes a place at a time
PLACES: dict[Pass, tuple[int, ...]] = {"first": (1, 2), "third": (3,), "audit": (4,), "gold": ()}


class Ballot(msgspec.Struct, frozen=True):
    """One person's valid answers to one item in one pass."""

    annotator: str
    turn: Pass
    answers: Mapping[Question, Answer]


def questions_for(item: Item) -> tuple[Question, ...]:
    """The questions about an item: without reasoning only the pair of replies, without a candidate none."""
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

    def given(turn: Pass, question: Question) -> list[Answer]:
        return [one.answers[question] for one in ballots if one.turn == turn and question in one.answers]

    return {one: decide(given("first", one), next(iter(given("third", one)), None)) for one in questions}


def decide(first: Sequence[Answer], third: Answer | None = None) -> Consensus:
    """What the answers to one question come to: those of the first pass, and that of the third person if there is one.

    >>> decide([True, "unsure"]).status, decide([True, "unsure"], False).status, decide(["unsure", "unsure"]).status
    ('open', 'dropped', 'dropped')
    >>> decide([True, "unsure"], True)
    Consensus(value=True, status='adjudicated')
    """
    cast: list[Vote] = [one for one in first if one != UNSURE]
    found = consensus(cast)
    if len(first) < 2 or found.status == "agreed":
        return found
    if not cast:
        return Consensus(None, "dropped")
    if third is None:
        return found
    value = consensus([*cast, *([] if third == UNSURE else [third])]).value
    return Consensus(value, "dropped" if value is None else "adjudicated")


def disputed(questions: Sequence[Question], ballots: Sequence[Ballot]) -> tuple[Question, ...]:
    """The questions that the two first-pass ballots leave open: they differ, or one is unsure. None before both are in.

    >>> disputed(["history", "preference"], [
    ...     Ballot("a", "first", {"history": True, "preference": "both"}),
    ...     Ballot("b", "first", {"history": True, "preference": "candidate"})])
    ('preference',)
    """
    first = [one for one in ballots if one.turn == "first"]
    if len(first) < 2:
        return ()
    return tuple(one for one, found in verdicts(questions, first).items() if found.status == "open")


def stage(questions: Sequence[Question], ballots: Sequence[Ballot]) -> Stage:
    """What the item waits for: first-pass votes, a third person, or nothing any more."""
    if sum(one.turn == "first" for one in ballots) < 2:
        return "first"
    return "third" if any(one.status == "open" for one in verdicts(questions, ballots).values()) else "closed"


def answer_text(answer: Answer) -> str:
    """An answer as it is stored: true, false, unsure, or the preference's own name."""
    return ("false", "true")[answer] if isinstance(answer, bool) else answer


def answer_of(question: Question, text: str) -> Answer:
    """The answer behind a stored text.

    >>> answer_of("history", "false"), answer_of("preference", "both")
    (False, 'both')
    """
    if text == UNSURE:
        return UNSURE
    if question in STEPS:
        return {"true": True, "false": False}[text]
    return cast("Preference", text)  # of the preference, or of a question of the project's own
