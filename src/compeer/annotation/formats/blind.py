"""Tasks for other tools are blind too: a name that tells nothing, and an order of replies drawn for each item.

Both hang on the project's seed, so no key file travels along and reading answers back needs nothing but the project.
Another tool shows one task to everybody, so here the order is the item's and not the person's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from compeer.cer.item import Item, Question
from compeer.reasoning import STEPS, render_step
from compeer.reward.verdict import preference_of


class Blind(msgspec.Struct, frozen=True):
    """An item as another tool may show it."""

    name: str
    item: str
    candidate_first: bool
    first: str
    second: str
    steps: dict[str, str]  # empty without reasoning: then only the replies are compared


def blind(item: Item, seed: int) -> Blind | None:
    """The item as a blind task; None without a candidate."""
    if item.candidate is None:
        return None
    name, candidate_first = names(item.id, seed)
    replies = (item.candidate.response, item.reference)
    first, second = replies if candidate_first else replies[::-1]
    reasoning = item.candidate.reasoning
    steps = {step: render_step(reasoning, step) for step in STEPS} if reasoning else {}
    return Blind(name, item.id, candidate_first, first, second, steps)


def names(item: str, seed: int) -> tuple[str, bool]:
    """What an item is called outside, and whether its candidate is shown first there."""
    digest = hashlib.blake2b(f"{seed}\x1f{item}".encode(), digest_size=12, person=b"outside").digest()
    return digest[:10].hex(), digest[10] < 128


def keys(items: Iterable[str], seed: int) -> dict[str, tuple[str, bool]]:
    """For reading answers: the item and the order behind each name."""
    found = {}
    for item in items:
        name, candidate_first = names(item, seed)
        found[name] = (item, candidate_first)
    return found


def value_of(question: Question, said: str, candidate_first: bool) -> bool | str | None:
    """An answer of another tool; None when it is none.

    >>> value_of("emotion", "wrong", True), value_of("preference", "First", False), value_of("history", "?", True)
    (False, 'reference', None)
    """
    word = said.strip().lower()
    if question != "preference":
        return {"true": True, "right": True, "false": False, "wrong": False}.get(word)
    if word not in ("first", "second", "both", "neither"):
        return None
    return preference_of(word, candidate_first)  # type: ignore[arg-type]
