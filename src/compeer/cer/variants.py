"""The training sets of the ablation: -D, -R and -P of Table 1, equal in size, from the same items.

Each is all the original items and, once more, those that every variant has: as they are (-D), rewritten
freely (-R), rewritten with a persona (-P). An item whose rewriting was rejected in -R or in -P gives no
second copy to any of the three, so they differ in nothing but the wording of the second copies. Labels
are the original's in all of them; a copy with other labels is refused.

Departure from the paper: it says only that all variants use an equal number of samples. Originals without
a second copy stay, so that each set contains the plain UnifiReward set and compares with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from compeer.cer.item import Item
from compeer.cer.personas import Persona
from compeer.cer.rewrite import DialogueTask, ItemTask
from compeer.dialogue import Dialogue, write_rows
from compeer.errors import UserError

NAMES = ("D", "R", "P")
_SUFFIX = re.compile(r"(~[DRP])+$")


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """What the three sets are made of."""

    originals: int
    copies: int  # in each set
    each: int  # originals and copies: the size of every one of the three sets
    without_rewrite: int  # originals whose free rewriting was rejected
    without_persona: int  # originals whose rewriting with a persona was rejected
    strays: int  # rewritings of items that are not among the originals


class Variants(msgspec.Struct, frozen=True):
    """The three training sets, by name, and their sizes."""

    sets: dict[str, list[Item]]
    sizes: Sizes


def origin(item: Item) -> str:
    """The dialogue of the corpus that an item comes from, through any rewriting.

    The trace says it; where a dialogue was rewritten first and its items made later, its id does.
    """
    return _SUFFIX.sub("", str(item.trace.get("origin") or item.dialogue))


def is_copy(item: Item) -> bool:
    """Whether the item, or the dialogue it was made from, is a rewriting or a duplicate of another."""
    return item.variant != "original" or origin(item) != item.dialogue


def origin_item(item: Item) -> str:
    """The id of the item that this one is a copy of; its own, for an original."""
    return str(item.trace.get("origin_item") or item.id)


def item_tasks(items: Iterable[Item], draws: Mapping[str, Persona] | None) -> Iterator[ItemTask]:
    """Items to rewrite, each with the persona drawn for its dialogue; `None` asks for the variant without."""
    for item in items:
        persona = _drawn(item.dialogue, draws)
        yield ItemTask(id=item.id + ("~P" if persona else "~R"), item=item, persona=persona)


def dialogue_tasks(dialogues: Iterable[Dialogue], draws: Mapping[str, Persona] | None) -> Iterator[DialogueTask]:
    """Dialogues to rewrite, likewise."""
    for dialogue in dialogues:
        persona = _drawn(dialogue.id, draws)
        yield DialogueTask(id=dialogue.id + ("~P" if persona else "~R"), dialogue=dialogue, persona=persona)


def _drawn(dialogue: str, draws: Mapping[str, Persona] | None) -> Persona | None:
    if draws is None:
        return None
    if dialogue not in draws:
        raise UserError(
            f"No persona was drawn for the dialogue {dialogue}: it was not described, or it is the only one of its "
            "language. Run `compeer cer personas` on all dialogues, or leave this one out."
        )
    return draws[dialogue]


def duplicate(item: Item) -> Item:
    """The second copy of -D: the same, under its own id."""
    trace = {**item.trace, "origin": origin(item), "origin_item": item.id, "variant": "duplicate"}
    return msgspec.structs.replace(item, id=f"{item.id}~D", variant="duplicate", trace=trace)


def variants(originals: Iterable[Item], rewritten: Iterable[Item], with_persona: Iterable[Item]) -> Variants:
    """The three sets. Held-out originals (split valid or test) and their copies are left out."""
    base = [item for item in originals if item.split in (None, "train") and not is_copy(item)]
    by_id = {item.id: item for item in base}
    strays = 0
    copies: dict[str, dict[str, Item]] = {"D": {item.id: duplicate(item) for item in base}}
    for name, items in (("R", rewritten), ("P", with_persona)):
        copies[name] = {}
        for item in items:
            before = by_id.get(origin_item(item))
            if before is None:
                strays += 1
                continue
            if item.labels != before.labels or item.label_source != before.label_source:
                raise UserError(
                    f"{item.id} has other labels than {before.id}, of which it is a rewriting. "
                    "Labels changed after the rewriting: run `compeer cer rewrite` again."
                )
            # the split may have been drawn after the rewriting
            copies[name][before.id] = msgspec.structs.replace(item, split=before.split)
    shared = [item.id for item in base if item.id in copies["R"] and item.id in copies["P"]]
    sizes = Sizes(
        originals=len(base),
        copies=len(shared),
        each=len(base) + len(shared),
        without_rewrite=len(base) - len(copies["R"]),
        without_persona=len(base) - len(copies["P"]),
        strays=strays,
    )
    return Variants({name: [*base, *(copies[name][one] for one in shared)] for name in NAMES}, sizes)


def write(folder: Path, made: Variants) -> None:
    """`train-D.jsonl`, `train-R.jsonl`, `train-P.jsonl` and `variants.json` with the sizes."""
    for name, items in made.sets.items():
        write_rows(folder / f"train-{name}.jsonl", items)
    (folder / "variants.json").write_bytes(msgspec.json.format(msgspec.json.encode(made.sizes)) + b"\n")
