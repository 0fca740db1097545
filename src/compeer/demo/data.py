"""The bundled corpus as a dataset, and the few rows of it that the demo uses.

`compeer cer build` imports the conversations, draws rounds by equation 1, labels them silver and parts them by
dialogue. Of the training part the shortest histories are taken, and of the test part those that both models answer:
no conversation that a model is measured on has been trained on here. (The shipped adapters have seen the bundled
corpus, as their cards say.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.cer.build import Build, Source, build
from compeer.cer.item import Item, Labels
from compeer.cer.publish import from_row
from compeer.demo.folder import Folder
from compeer.demo.stages import Made
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.policy.prompts import demonstration
from compeer.reasoning.language import words


def make(folder: Folder) -> Made:
    sizes = folder.sizes
    corpus = Source("bundled", limit=sizes.dialogues, options={"language": "en"})
    config = Build(
        name="CER, demo",
        out=str(folder.path("cer")),
        corpora=(corpus,),
        seed=sizes.seed,
        silver={"per_dialogue": sizes.rounds},
    )
    steps = {step.name: step.rows for step in build(config)}
    train, test = (_items(folder.path("cer", "dataset", "jsonl", f"{name}.jsonl")) for name in ("train", "test"))
    taught = _short([item for item in train if demonstration(item) is not None], folder)
    _write(folder, "judge", _short([item for item in train if item.candidate is not None], folder), sizes.judge_items)
    _write(folder, "sft", taught, sizes.sft_items)
    _write(folder, "prompts", taught[sizes.sft_items :], sizes.prompts)
    _write(folder, "moments", [_asked(item) for item in _short(test, folder)], sizes.moments)
    told = (
        f"{steps['01-dialogues']} conversations, {steps['05-silver']} moments drawn and labelled silver: "
        f"{len(train)} to train on, {len(test)} to measure on, no conversation in both"
    )
    return Made(told)


def _items(path: Path) -> list[Item]:
    return [from_row(row) for row in read_rows(path, dict)]


def _short(items: Sequence[Item], folder: Folder) -> list[Item]:
    """Those with a short history, one of every conversation before a second one of any; then the rest by length."""
    sized = sorted(items, key=lambda item: (sum(len(words(turn.text)) for turn in item.history), item.id))
    seen: set[str] = set()
    first: list[Item] = []
    later: list[Item] = []
    for item in sized:
        short = sum(len(words(turn.text)) for turn in item.history) <= folder.sizes.longest
        (first if short and item.dialogue not in seen else later).append(item)
        seen.add(item.dialogue)
    return first + later


def _write(folder: Folder, name: str, items: Sequence[Item], count: int) -> None:
    if len(items) < count:
        raise UserError(f"The demo wants {count} items for {name}, and the corpus gives {len(items)}.")
    write_rows(folder.rows(name), items[:count])


def _asked(item: Item) -> Item:
    """The moment alone, without a candidate and its labels."""
    return msgspec.structs.replace(item, candidate=None, labels=Labels(), label_source=None)
