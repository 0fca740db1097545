"""Splits: exact numbers, strata, no leaks, one kind of label in a held-out set, crisis, determinism."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from compeer.cer.duplicates import Duplicate
from compeer.cer.item import QUESTIONS, Item, Labels, PastTurn, Preference
from compeer.cer.split import Leak, leaks, plan, similar_dialogues
from compeer.pipeline.stage import Reject


def item(dialogue: str, number: int = 1, **changes: Any) -> Item:
    values: dict[str, Any] = {
        "id": f"{dialogue}#{number}",
        "dialogue": dialogue,
        "source": "test",
        "licence": "MIT",
        "language": "en",
        "round": number,
        "history": (PastTurn("seeker", f"Story of {dialogue}."),),
        "reference": "Tell me.",
        "labels": Labels(history=True, emotion=True, strategy=True, preference="both"),
        "label_source": "silver",
    }
    return Item(**(values | changes))


def corpus(dialogues: int, seed: int = 0, **changes: Any) -> list[Item]:
    """One to five items a dialogue, labels as the paper's: 23 % False, four preferences, three sources."""
    rng = random.Random(seed)
    items = []
    for n in range(dialogues):
        source = rng.choices(["esconv", "mesc", "smile"], [6, 3, 1])[0]
        for number in range(1, rng.randint(1, 5) + 1):
            steps = {step: rng.random() > 0.23 for step in QUESTIONS[:3]}
            preference = rng.choices(get_args(Preference), [4, 3, 2, 1])[0]
            values = {"source": source, "language": "zh" if source == "smile" else "en"}
            items.append(item(f"d{n}", number, **values, labels=Labels(**steps, preference=preference), **changes))
    return items


class Splits(NamedTuple):
    items: list[Item]
    aside: list[Reject]


def split(items: list[Item], similar: list[Duplicate] | None = None, **options: Any) -> Splits:
    """The items as a plan places them, and those it sets aside."""
    pairs = similar_dialogues(items) if similar is None else similar
    placed = list(plan(items, similar=pairs, **options).place(items))
    return Splits([one for one in placed if isinstance(one, Item)], [one for one in placed if isinstance(one, Reject)])


def sizes(found: Splits) -> dict[str, int]:
    return dict(Counter(str(one.split) for one in found.items))


def reasons(found: Splits) -> dict[str, int]:
    return dict(Counter(one.reason for one in found.aside))


def test_574_when_there_is_enough() -> None:
    items = corpus(3000)
    found = split(items, similar=[])
    assert sizes(found)["test"] == sizes(found)["valid"] == 574
    assert len(found.items) + len(found.aside) == len(items)
    assert leaks(found.items) == []
    order = {one.id: n for n, one in enumerate(items)}
    assert [order[one.id] for one in found.items] == sorted(order[one.id] for one in found.items)


def test_a_fifth_and_a_tenth_otherwise() -> None:
    found = split([item(f"d{n}") for n in range(200)], similar=[])
    assert sizes(found) == {"test": 40, "valid": 20, "train": 140} and found.aside == []


def test_number_is_met_exactly_with_big_dialogues() -> None:
    found = split([item(f"d{n}", m) for n in range(10) for m in range(1, 8)], similar=[])
    assert sizes(found) == {"test": 14, "valid": 7, "train": 49}
    found = split([item(f"d{n}", m) for n in range(10) for m in range(1, 9)], similar=[])
    assert sizes(found)["test"] == 16 and sizes(found)["valid"] == 8 and leaks(found.items) == []
    found = split([item(f"d{n}", m) for n in range(9) for m in range(1, 8)], similar=[])  # 12 of dialogues of seven
    assert sizes(found)["test"] == 12 and reasons(found)["beyond-the-number"] == 2 + 1


def test_strata_are_kept() -> None:
    found = split(corpus(3000, seed=5), similar=[])
    for name in ("test", "valid"):
        for share in (
            lambda one: one.language == "zh",
            lambda one: one.source == "mesc",
            lambda one: one.labels.history is False,
            lambda one: one.labels.emotion is False,
            lambda one: one.labels.strategy is False,
            lambda one: one.labels.preference == "candidate",
            lambda one: one.labels.preference == "neither",
            lambda one: one.round == 1,
        ):
            everywhere = sum(map(share, found.items)) / len(found.items)
            here = [one for one in found.items if one.split == name]
            # drawing at random would miss by 1.7 points on average at a share of 0.23
            assert sum(map(share, here)) / len(here) == pytest.approx(everywhere, abs=0.007)
        dialogues = len({one.dialogue for one in here})
        assert len(here) / dialogues == pytest.approx(3.0, abs=0.15)  # as in the whole: not the short ones only


def test_same_seed_same_split_whatever_the_order() -> None:
    items = corpus(400)
    where = {one.id: one.split for one in split(items, similar=[], seed=3).items}
    mixed = random.Random(1).sample(items, len(items))
    assert {one.id: one.split for one in split(mixed, similar=[], seed=3).items} == where
    assert {one.id: one.split for one in split(items, similar=[], seed=4).items} != where


def test_near_duplicates_lie_together() -> None:
    story = (
        "I have been fighting with my brother about the house our mother left us and nobody will talk to me any more "
    )
    items = []
    for n in range(300):
        twin = n // 2  # each story twice, the second time with a word changed
        text = f"{story} {twin} " + " ".join(f"w{twin}x{m}" for m in range(80)) + (" indeed" if n % 2 else "")
        items.append(item(f"d{n}", history=(PastTurn("seeker", text),)))
    apart = split(items, similar=[])
    pairs = similar_dialogues(items)
    assert any(leak.kind == "near-duplicate" for leak in leaks(apart.items, pairs))
    together = split(items)  # the real search
    assert leaks(together.items, pairs) == [] and sizes(together)["test"] == 60
    assert split(items, similar=pairs) == together


def test_a_plan_places_items_that_are_read_again() -> None:
    items = corpus(300)
    planned = plan(iter(items), similar=[])
    whole = split(items, similar=[])
    assert list(planned.placed(iter(items))) == whole.items
    assert planned.aside == reasons(whole)
    with pytest.raises(ValueError, match="zip"):  # other items than were planned
        list(planned.place(items[1:]))


def test_rewritings_follow_their_dialogue_and_are_never_held_out() -> None:
    items = [item(f"d{n}") for n in range(100)]
    copies = [
        msgspec.structs.replace(one, id=f"{one.id}~P", variant="persona", trace={"origin": one.dialogue})
        for one in items
    ]
    later = [item(f"d{n}~R", label_source="silver") for n in range(100)]  # made from rewritten dialogues, unmarked
    found = split([*items, *copies, *later], similar=[])
    assert sizes(found) == {"test": 20, "valid": 10, "train": 210}
    assert reasons(found) == {"rewriting-of-held-out": 60}
    assert leaks(found.items) == []
    mixed = [msgspec.structs.replace(items[0], split="test"), msgspec.structs.replace(later[0], split="train")]
    assert leaks(mixed) == [Leak("rewriting", ("d0", "d0~R"), ("test", "train"))]


def test_people_and_silver_never_share_a_held_out_set() -> None:
    people = [item(f"d{n}", 1, label_source="human" if n % 2 else "author") for n in range(60)]
    silver = [item(f"d{n}", 2) for n in range(200)]
    found = split([*people, *silver], similar=[])
    for name in ("test", "valid"):
        assert {one.label_source for one in found.items if one.split == name} <= {"human", "author"}
    assert sizes(found) == {"test": 12, "valid": 6, "train": 42 + 182}
    assert reasons(found) == {"labels-of-another-kind": 18}
    other = split([*people, *silver], similar=[], kind="silver")
    assert {one.label_source for one in other.items if one.split == "test"} == {"silver"}
    mixed = [item("a", split="test"), item("b", split="test", label_source="human")]
    assert [leak.kind for leak in leaks(mixed)] == ["labels"]


def test_crisis_items_are_not_trained_on() -> None:
    items = [item(f"d{n}", crisis=n % 4 == 0) for n in range(200)]
    found = split(items, similar=[])
    assert not any(one.crisis for one in found.items if one.split == "train")
    held = sum(one.crisis for one in found.items)
    assert reasons(found) == {"crisis": 50 - held} and held > 0
    assert split(items, similar=[], include_crisis=True).aside == []


def test_leaks_by_dialogue() -> None:
    found = leaks([item("a", 1, split="train"), item("a", 2, split="test"), item("b", split="valid")])
    assert found == [Leak("dialogue", ("a",), ("test", "train"))]


def test_unlabelled_items_all_go_to_train() -> None:
    found = split([item(f"d{n}", label_source=None, labels=Labels()) for n in range(20)], similar=[])
    assert sizes(found) == {"train": 20}
