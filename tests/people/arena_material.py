"""Cases with small generated pictures, and replies whose author only a test can tell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.people.labelling import LABELS
from tests.studio.labelling import png

from compeer.cer.item import PastTurn
from compeer.people.arena_cases import Case, Reply
from compeer.people.arena_results import ArenaVote
from compeer.reasoning import Reasoning

#: names that stand in no page for any other reason
MODELS = ("Zephyrine", "Quartz-4o", "Basalt-VL", "Cobaltus3")
#: how good each is, for people who vote by it
GOOD = dict(zip(MODELS, (1.1, 0.4, -0.2, -1.3), strict=True))

_TROUBLES = ("I lost my job", "My mother is ill", "We broke up", "I failed the exam", "I cannot sleep", "I feel alone")
_OPENINGS = (
    "That sounds heavy.",
    "I am glad you told me.",
    "It makes sense to feel this way.",
    "Thank you for saying it.",
)
_ENDINGS = ("What has today been like?", "Who knows about it?", "What would help tonight?", "When did it begin?")


def cases(count: int, images: Path | None = None) -> list[Case]:
    """So many cases; with a folder each shows one picture, and every fifth two."""
    found = []
    for number in range(count):
        names: tuple[str, ...] = ()
        if images is not None:
            names = tuple(f"case-{number}-{n}.png" for n in range(2 if number % 5 == 0 else 1))
            for place, name in enumerate(names):
                (images / name).write_bytes(png(96, 54, 90 + (number * 7 + place * 30) % 80))
        history = (
            PastTurn("seeker", f"{_TROUBLES[number % 6]}, and this is the {number}th time.", names),
            PastTurn("supporter", "I am listening."),
            PastTurn("seeker", "I do not know how to go on with it."),
        )
        found.append(Case(id=f"case/{number}", history=history))
    return found


def replies(given: Sequence[Case], models: Sequence[str] = MODELS, seed: int = 0) -> list[Reply]:
    """A reply of every model to every case, drawn from the same sentences for all of them and told apart by a number."""
    rng, found = random.Random(seed), []
    numbers = list(range(1000, 1000 + len(given) * len(models)))
    rng.shuffle(numbers)
    steps = {"history": "They carry it alone.", "emotion": "Worn out.", "strategy": "Ask about today."}
    for case in given:
        for model in models:
            text = f"{rng.choice(_OPENINGS)} {rng.choice(_ENDINGS)} ({numbers.pop()})"
            found.append(Reply(case=case.id, model=model, response=text, reasoning=Reasoning.of(steps, LABELS)))
    return found


def drawn_ballots(count: int, rng: random.Random, models: Sequence[str] = MODELS, votes: int = 1) -> list[ArenaVote]:
    """Votes on every pair and case by people who prefer what is better, more or less."""
    found = []
    for number in range(count):
        mood = rng.gauss(0, 0.6)  # some cases are hard for people_of
        for place, one in enumerate(models):
            for two in models[place + 1 :]:
                for _ in range(votes):
                    left, right = (one, two) if rng.random() < 0.5 else (two, one)
                    felt = GOOD[left] - GOOD[right] + rng.gauss(0, 1)
                    level = "both" if mood + rng.gauss(0, 1) > 0 else "neither"
                    choice = "first" if felt > 0.5 else "second" if felt < -0.5 else level
                    found.append(ArenaVote(f"case/{number}", left, right, choice, "Anna", "", 9.0))  # type: ignore[arg-type]
    return found
