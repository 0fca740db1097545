"""Crisis turns and replies that did not help never reach supervised training; a literary voice only when asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from compeer.cer import gold
from compeer.cer.item import Item, item_at, read_items, to_row
from compeer.corpora import bundled, open_cer
from compeer.dialogue import Dialogue, Steps, Utterance, rounds, write_rows
from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
from compeer.policy.prompts import demonstration
from compeer.policy.sft import SftConfig, examples


def _made_up() -> list[Dialogue]:
    """Four conversations with reasoning: a good one, one marked unhelpful, one marked and one unmarked crisis."""

    def one(name: str, said: str, **marks: bool) -> Dialogue:
        reply = Utterance(
            speaker="supporter", text="What happened?", stage="exploration", emotion="sadness", intensity=4,
            strategy="question", reasoning=Steps(history="Lost.", emotion="It hurts.", strategy="Ask."),
        )  # fmt: skip
        turns = (Utterance(speaker="seeker", text=said), reply)
        return Dialogue(id=name, source="made", licence="CC0", language="en", utterances=turns, **marks)

    return [
        one("good", "I lost my job last week."),
        one("unhelpful", "Nobody listens to me.", helpful=False),
        one("marked", "It all got too much last night.", crisis=True),
        one("unmarked", "I want to kill myself."),
    ]


CORPORA = {
    "bundled": lambda: [*bundled.load()],
    "open-cer": lambda: [*open_cer.load(), *open_cer.load(crisis=True)],
    "made up": _made_up,
}


def _items(dialogues: Iterable[Dialogue]) -> list[Item]:
    return [item_at(one, place) for one in dialogues for place in rounds(one)]


@pytest.mark.parametrize("corpus", CORPORA)
def test_what_did_not_help_and_what_is_a_crisis_is_never_taught(corpus: str) -> None:
    dialogues = {one.id: one for one in CORPORA[corpus]()}
    items = _items(dialogues.values())
    forbidden = {name for name, one in dialogues.items() if one.helpful is False or one.crisis}
    with_reasoning = {item.dialogue for item in items if item.reference_reasoning is not None}
    assert forbidden & with_reasoning, "there must be something to keep out"
    taught = {item.dialogue for item in items if demonstration(item) is not None}
    assert taught and not taught & forbidden


def test_the_gold_set_carries_the_marks_of_its_dialogues() -> None:
    dialogues = {one.id: one for one in bundled.load()}
    for item in gold.load(disputed=True):
        one = dialogues[item.dialogue]
        assert (item.helpful, item.crisis, item.voice) == (one.helpful, one.crisis, "literary")
        assert demonstration(item) is None or (one.helpful and not one.crisis)


def test_the_marks_survive_every_form_of_an_item(tmp_path: Path) -> None:
    items = _items([*_made_up(), *bundled.load("zh")])
    write_rows(tmp_path / "items.jsonl", items)
    write_rows(tmp_path / "published.jsonl", map(to_row, items))
    for name in ("items", "published"):
        again = list(read_items(tmp_path / f"{name}.jsonl"))
        assert [(one.helpful, one.crisis, one.voice) for one in again] == [
            (one.helpful, one.crisis, one.voice) for one in items
        ]
        assert [demonstration(one) for one in again] == [demonstration(one) for one in items]


def test_training_leaves_them_out_and_counts_them(tiny_model_dir: Path, tmp_path: Path) -> None:
    words = ChatTokenizer(*open_tokenizer(str(tiny_model_dir)))
    config = SftConfig(out=str(tmp_path), model=str(tiny_model_dir), data=("-",), length="brief", max_length=4096)
    found, counts = examples(_items(_made_up()), words, config)
    assert len(found) == 1 and (counts["not helpful"], counts["crisis"]) == (1, 2)
    literary = _items(list(bundled.load("zh"))[:6])
    assert {item.voice for item in literary} == {"literary"}
    plain = _items(_made_up())[:1]
    assert examples([*plain, *literary], words, config)[1]["learned"] == 1
    asked_for = msgspec.structs.replace(config, literary=True)
    found, counts = examples([*plain, *literary], words, asked_for)
    assert counts["learned"] > 1 and "literary" not in counts
