"""-D, -R and -P: equal in size, the same originals, second copies that differ in wording only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from compeer.cer import rewrite as module
from compeer.cer.item import Item, Labels, PastTurn
from compeer.cer.rewrite import is_copy, origin, variants
from compeer.dialogue import read_rows
from compeer.errors import UserError


def item(number: int, **changes: Any) -> Item:
    values: dict[str, Any] = {
        "id": f"d{number}#1",
        "dialogue": f"d{number}",
        "source": "test",
        "licence": "MIT",
        "language": "en",
        "round": 1,
        "history": (PastTurn("seeker", f"Story {number}."),),
        "reference": "Tell me.",
        "labels": Labels(history=number % 2 == 0),
        "label_source": "silver",
        "split": "train",
    }
    return Item(**(values | changes))


def copy(before: Item, kind: str, **changes: Any) -> Item:
    trace = {"origin": before.dialogue, "origin_item": before.id}
    variant = {"R": "rewrite", "P": "persona"}[kind]
    return msgspec.structs.replace(
        before, **{"id": f"{before.id}~{kind}", "variant": variant, "trace": trace} | changes
    )


def test_equal_sizes_and_the_same_items(tmp_path: Path) -> None:
    originals = [item(n) for n in range(10)] + [item(90, split="test")]
    r = [copy(one, "R") for one in originals if one.dialogue not in ("d1", "d2")]
    p = [copy(one, "P", split=None) for one in originals if one.dialogue not in ("d2", "d3")]
    made = variants(originals, r, p)
    assert {name: len(items) for name, items in made.sets.items()} == {"D": 17, "R": 17, "P": 17}
    assert msgspec.to_builtins(made.sizes) == {
        "originals": 10, "copies": 7, "each": 17, "without_rewrite": 2, "without_persona": 2, "strays": 2,
    }  # fmt: skip
    for name, kind in (("D", "duplicate"), ("R", "rewrite"), ("P", "persona")):
        items = made.sets[name]
        assert items[:10] == originals[:10]
        assert [one.variant for one in items[10:]] == [kind] * 7
        assert [origin(one) for one in items[10:]] == ["d0", *(f"d{n}" for n in range(4, 10))]
        assert len({one.id for one in items}) == 17 and {one.split for one in items} == {"train"}
        assert [one.labels for one in items[10:]] == [made.sets["D"][n].labels for n in range(10, 17)]
    module.write(tmp_path, made)
    assert list(read_rows(tmp_path / "train-P.jsonl", Item)) == made.sets["P"]


def test_other_labels_are_refused() -> None:
    one = item(1)
    with pytest.raises(UserError, match="d1#1~R has other labels"):
        variants([one], [copy(one, "R", labels=Labels(history=True))], [])


def test_origin_of_items_made_from_a_rewritten_dialogue() -> None:
    made_later = item(1, dialogue="d1~P")  # nothing but the dialogue's id says so
    assert origin(made_later) == "d1" and is_copy(made_later)
    assert origin(item(1)) == "d1" and not is_copy(item(1))
