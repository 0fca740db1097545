"""A case on its way through a local judge: its conversations, the rows they take, the verdicts so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compeer.cer.item import QUESTIONS, Question
from compeer.models.request import images_of
from compeer.reward.case import Case
from compeer.reward.conversation import Thread, messages
from compeer.reward.homes.rendering import Chat, Pictures
from compeer.reward.homes.trie import likeliest
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.reward.verdict import preference_of


class Docket:
    """One case with its conversations; `size` says how long they are, roughly, for sorting."""

    def __init__(self, case: Case, threads: Sequence[Thread], size: int) -> None:
        self.case, self.threads, self.size = case, list(threads), size
        self.pictures = bool(threads) and bool(images_of(messages(threads[0], [])))
        self.failure: str | None = None
        self.clear()

    def clear(self) -> None:
        """Forget the verdicts: the case will be judged again."""
        self.steps: dict[str, StepVerdict] = {}
        self.pairs: dict[bool, PairVerdict] = {}
        self.tokens = 0

    def judgement(self) -> Judgement:
        first, second, third = (self.steps.get(question, StepVerdict()) for question in QUESTIONS[:3])
        return Judgement(
            id=self.case.id,
            complete=self.case.complete,
            steps=(first, second, third),
            pairs=tuple(self.pairs[thread.candidate_first] for thread in self.threads if self._compared(thread)),
            failure=self.failure,
            tokens=self.tokens,
        )

    def _compared(self, thread: Thread) -> bool:
        return thread.turns[-1].question == "preference" and thread.candidate_first in self.pairs


class Line:
    """A row of the batch: the threads that are still one conversation, and the judge's answers in it."""

    def __init__(
        self, docket: Docket, threads: list[Thread], group: int, pictures: Pictures | None, answers: Sequence[str] = ()
    ) -> None:
        self.docket, self.threads, self.group, self.pictures = docket, threads, group, pictures
        self.answers = list(answers)

    @property
    def chat(self) -> Chat:
        """The conversation up to its open question."""
        return messages(self.threads[0], self.answers)

    @property
    def later(self) -> int:
        """Characters of the turns after the open question, for sorting."""
        return sum(len(str(turn.content)) for turn in self.threads[0].turns[len(self.answers) + 1 :])

    @property
    def question(self) -> Question:
        return self.threads[0].turns[len(self.answers)].question

    def record(self, probabilities: dict[Any, float], reason: str) -> None:
        """Keep the verdict on the open question; `probabilities` are those of its options."""
        verdict = likeliest(probabilities)
        if self.question != "preference":
            self.docket.steps[self.question] = StepVerdict(verdict, probabilities[True], reason)
            return
        for thread in self.threads:
            first = thread.candidate_first
            by_origin = {preference_of(choice, first): share for choice, share in probabilities.items()}
            self.docket.pairs[first] = PairVerdict(first, preference_of(verdict, first), by_origin, reason)

    def following(self) -> list[Line]:
        """The rows that this one becomes for its next turn."""
        return [
            Line(self.docket, threads, self.group, self.pictures, self.answers)
            for threads in parted(self.threads, len(self.answers))
        ]


def parted(threads: Sequence[Thread], turn: int) -> list[list[Thread]]:
    """The threads that have this turn, those together that ask the same in it."""
    found: list[list[Thread]] = []
    for thread in threads:
        if len(thread.turns) > turn:
            same = next((others for others in found if others[0].turns[turn] == thread.turns[turn]), None)
            if same is None:
                found.append([thread])
            else:
                same.append(thread)
    return found
