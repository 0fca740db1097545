"""Cases as training meets them: moments of the gold set with several candidates each."""

from __future__ import annotations

import random
from functools import cache

import msgspec

from compeer.cer import gold
from compeer.cer.item import PastTurn
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, case_of


@cache
def gold_cases(language: Language | None = None) -> tuple[Case, ...]:
    return tuple(case_of(item) for item in gold.load(language))


def groups(count: int, size: int, language: Language | None = None, seed: int = 1) -> list[Case]:
    """`count` histories with `size` candidates each, next to each other: the item's own, then steps and replies that
    were written for other moments."""
    rng = random.Random(seed)
    known = gold_cases(language)
    found: list[Case] = []
    for case in rng.sample(known, count):
        found.append(case)
        same = [other for other in known if other.language == case.language]
        for number in range(1, size):
            steps = tuple(rng.choice(same).steps[place] for place in range(3))
            reply = rng.choice(same).reply
            found.append(msgspec.structs.replace(case, id=f"{case.id}/{number}", steps=steps, reply=reply))
    return found


def varied(cases: list[Case]) -> list[Case]:
    """The same cases, some of them with a missing step, no reply, nothing at all, or the reference's own words."""
    changes = (
        {},
        {"steps": (None, "Mara is afraid.\nEmotion: fear", None), "complete": False},
        {"reply": "", "complete": False},
        {"steps": (None, None, None), "complete": False},
        {"steps": (None, None, None), "reply": "...", "complete": False},
        {"reply": cases[0].reference},
    )
    return [msgspec.structs.replace(case, **changes[number % len(changes)]) for number, case in enumerate(cases)]


def with_pictures(case: Case, *paths: str) -> Case:
    """The case with pictures in the first and the last turn of its history."""
    history = list(case.history)
    for place, path in zip((0, -1), paths, strict=False):
        history[place] = PastTurn(history[place].speaker, history[place].text, (path,))
    return msgspec.structs.replace(case, id=f"{case.id}+pictures", history=tuple(history))
