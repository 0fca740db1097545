"""Train, valid and test, by dialogue, stratified, without leakage.

What may not be parted moves together: all items of a dialogue, of its rewritings (`origin`) and of its
near-duplicates form one group, and a group lies in one split. Held-out sets consist of original items
with labels of one kind, people's (human, author) or silver, never both; what else belongs to a held-out
group (rewritings, the other kind of label) can go nowhere and is set aside with that reason.

The test set has 574 items as in the paper, or a fifth of what there is when that is less; the valid set
574 or a tenth. Groups are chosen greedily: each time the one that brings the set closest, in chi-square,
to its share of every language, source, length, label of each question and whole label pattern. Where groups do not
add up to the number, items of the last one are set aside, so that the number is met exactly.

Crisis items are kept out of train unless `include_crisis` (which says that a person reviewed them): nothing
in the paper's reward mentions safety, so preference training could trade it away. In the held-out sets they
stay: a judge should be measured on them.

`plan` reads the items once and remembers a few facts of each; `SplitPlan` then places them while they are read again,
so a large dataset is never held in memory.

Departure from the paper: it says "a held-out subset comprising 574 samples", and no more.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.cer.duplicates import Duplicate, Signatures
from compeer.cer.item import QUESTIONS, Item, LabelSource, Split
from compeer.cer.rewrite import is_copy, origin
from compeer.pipeline.stage import Reject

TEST_SIZE = 574
#: lower than the filter's 0.8: the search links each text to one that stays, not to all it resembles, and this margin
#: joins most chains that that leaves open
SIMILAR = 0.7
LabelKind = Literal["people", "silver"]
KINDS: dict[LabelSource, LabelKind] = {"human": "people", "author": "people", "silver": "silver"}
_POOL = 2048  # groups considered for a held-out set; enough for any 574 items, and bounded for any corpus
Feature = tuple[object, ...]


class Leak(msgspec.Struct, frozen=True):
    """Something that stands in two splits, or two kinds of label in one held-out set."""

    kind: Literal["dialogue", "rewriting", "near-duplicate", "labels"]
    ids: tuple[str, ...]
    splits: tuple[str, ...]


class SplitPlan(msgspec.Struct, frozen=True):
    """Where each item goes, by its number: a split, or the reason and the detail why it goes nowhere."""

    places: list[Split | tuple[str, str]]

    def place(self, items: Iterable[Item]) -> Iterator[Item | Reject]:
        """The same items that were planned, in the same order, each with its split or as a rejection."""
        for item, place in zip(items, self.places, strict=True):
            if isinstance(place, tuple):
                yield Reject(item.id, *place, msgspec.structs.replace(item, split=None))
            else:
                yield msgspec.structs.replace(item, split=place)

    def placed(self, items: Iterable[Item]) -> Iterator[Item]:
        """Those of the items that have a split."""
        return (one for one in self.place(items) if isinstance(one, Item))

    @property
    def aside(self) -> dict[str, int]:
        """How many items go nowhere, by reason."""
        return dict(Counter(place[0] for place in self.places if isinstance(place, tuple)))


def plan(
    items: Iterable[Item],
    *,
    seed: int = 0,
    test: int = TEST_SIZE,
    valid: int = TEST_SIZE,
    kind: LabelKind | None = None,
    include_crisis: bool = False,
    similar: Iterable[Duplicate] = (),
) -> SplitPlan:
    """Where each item goes. `kind`: whose labels are held out (people's where there are any). `similar`: dialogues that
    must lie together."""
    facts = [_Facts.of(item) for item in items]
    if kind is None:
        kind = "people" if any(one.kind == "people" for one in facts) else "silver"
    groups = _groups(facts, similar)
    eligible = {name: [at for at in members if facts[at].can_be_held_out(kind)] for name, members in groups.items()}
    count = sum(map(len, eligible.values()))
    where: dict[str, Split] = {}
    chosen: set[int] = set()
    sizes: tuple[tuple[Split, int], ...] = (("test", min(test, count // 5)), ("valid", min(valid, count // 10)))
    for name, size in sizes:
        free = {group: members for group, members in eligible.items() if members and group not in where}
        taken = _choose(facts, free, size, random.Random(f"{seed}/{name}"))
        where |= dict.fromkeys(taken, name)
        chosen.update(at for members in taken.values() for at in members)
    places: list[Split | tuple[str, str]] = ["train"] * len(facts)
    for group, members in groups.items():
        part = where.get(group, "train")
        for at in members:
            places[at] = _why_aside(facts[at], part, at in chosen, kind, include_crisis) or part
    return SplitPlan(places)


def leaks(items: Iterable[Item], similar: Iterable[Duplicate] = ()) -> list[Leak]:
    """What stands in more than one split; `similar` dialogues count as one."""
    found: list[Leak] = []
    by_dialogue: dict[str, set[str]] = defaultdict(set)
    by_origin: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    kinds: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if not item.split:
            continue
        by_dialogue[item.dialogue].add(item.split)
        by_origin[origin(item)][item.split].add(item.dialogue)
        if item.split != "train" and item.label_source:
            kinds[item.split].add(KINDS[item.label_source])
    for dialogue, parts in by_dialogue.items():
        if len(parts) > 1:
            found.append(Leak("dialogue", (dialogue,), tuple(sorted(parts))))
    for parts_of in by_origin.values():
        names = sorted(set().union(*parts_of.values()))
        if len(parts_of) > 1 and len(names) > 1:
            found.append(Leak("rewriting", tuple(names), tuple(sorted(parts_of))))
    found += [Leak("labels", tuple(sorted(some)), (part,)) for part, some in kinds.items() if len(some) > 1]
    for pair in similar:
        parts = set(by_origin.get(pair.id, ())) | set(by_origin.get(pair.kept, ()))
        if len(parts) > 1:
            found.append(Leak("near-duplicate", (pair.id, pair.kept), tuple(sorted(parts))))
    return found


def similar_dialogues(items: Iterable[Item]) -> list[Duplicate]:
    """Near-duplicates where the dialogues themselves are not at hand: of each the longest history with its reply."""
    longest: dict[str, tuple[int, str]] = {}
    for item in items:
        if not is_copy(item) and item.round >= longest.get(item.dialogue, (0, ""))[0]:
            longest[item.dialogue] = item.round, "\n".join([*(turn.text for turn in item.history), item.reference])
    texts = ((dialogue, text) for dialogue, (_, text) in sorted(longest.items()))
    return Signatures(texts).near_duplicates(SIMILAR)


class _Facts(msgspec.Struct, frozen=True):
    """What deciding on an item needs to know of it."""

    origin: str
    copy: bool
    kind: LabelKind | None
    answers: tuple[bool | str | None, ...]  # in the order of QUESTIONS
    language: str
    source: str
    round: int
    crisis: bool

    @classmethod
    def of(cls, item: Item) -> _Facts:
        answers = tuple(getattr(item.labels, question) for question in QUESTIONS)
        kind = KINDS[item.label_source] if item.label_source else None
        return cls(origin(item), is_copy(item), kind, answers, item.language, item.source, item.round, item.crisis)

    def can_be_held_out(self, kind: LabelKind) -> bool:
        return not self.copy and self.kind == kind


def _why_aside(
    item: _Facts, part: Split, chosen: bool, kind: LabelKind, include_crisis: bool
) -> tuple[str, str] | None:
    if part == "train":
        kept_out = item.crisis and not include_crisis
        return ("crisis", "kept out of training until a person reviews it") if kept_out else None
    if chosen:
        return None
    if item.copy:
        return "rewriting-of-held-out", f"its dialogue is in {part}"
    if not item.can_be_held_out(kind):
        whose = "people's" if kind == "people" else "silver"
        return "labels-of-another-kind", f"its dialogue is in {part}, where labels are {whose}"
    return "beyond-the-number", f"its dialogue is in {part}, which is full"


def _groups(facts: Sequence[_Facts], similar: Iterable[Duplicate]) -> dict[str, list[int]]:
    """Item numbers by group; a group is named after the first, by name, of its dialogues."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for pair in similar:
        first, second = sorted((find(pair.id), find(pair.kept)))
        parent[second] = first
    groups: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(facts):
        groups[find(one.origin)].append(number)
    return dict(sorted(groups.items()))


def _choose(facts: Sequence[_Facts], free: dict[str, list[int]], size: int, rng: random.Random) -> dict[str, list[int]]:
    """Groups with `size` items in total, and the chosen items of each."""
    names = sorted(free)
    rng.shuffle(names)
    features = {name: _features([facts[number] for number in free[name]]) for name in names}
    everywhere: Counter[Feature] = Counter()
    for some in features.values():
        everywhere.update(some)
    columns = {feature: at for at, feature in enumerate(everywhere)}
    total = sum(map(len, free.values()))
    share: npt.NDArray[np.float64] = np.array(list(everywhere.values())) * (size / max(total, 1))
    pool = names[:_POOL]
    counts = np.zeros((len(pool), len(columns)))
    for row, name in enumerate(pool):
        for feature, count in features[name].items():
            counts[row, columns[feature]] = count
    sizes = np.array([len(free[name]) for name in pool])
    unused = np.ones(len(pool), dtype=bool)
    have, got = np.zeros(len(columns)), 0
    taken: dict[str, list[int]] = {}
    while got < size and unused.any():
        fits = np.flatnonzero(unused & (sizes <= size - got))
        if not fits.size:  # the smallest that is left is cut to what is missing
            row = int(np.flatnonzero(unused)[sizes[unused].argmin()])
            taken[pool[row]] = rng.sample(free[pool[row]], size - got)
            break
        progress = (got + sizes[fits])[:, None] / size
        distance = ((have + counts[fits] - progress * share) ** 2 / (share + 1)).sum(axis=1)
        row = int(fits[distance.argmin()])
        taken[pool[row]], unused[row] = free[pool[row]], False
        have, got = have + counts[row], got + int(sizes[row])
    return taken


def _features(group: Sequence[_Facts]) -> Counter[Feature]:
    """What each held-out set should have its share of, counted over a group's items.

    The group's size and the round are among them: small groups fit more easily, and would make a test set of
    short dialogues.
    """
    found: Counter[Feature] = Counter({("size", len(group)): len(group)})
    for item in group:
        asked = zip(QUESTIONS, item.answers, strict=True)
        found.update((question, value) for question, value in asked if value is not None)
        place = (item.language, item.source)
        rounds = ("round", item.round.bit_length())  # 1, 2-3, 4-7, 8-15, …
        found.update([("language", item.language), ("source", *place), rounds, ("pattern", *item.answers)])
        found[("all", *place, *item.answers)] += 1
    return found
