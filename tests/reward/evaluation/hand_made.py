"""Forty items with labels and a judge's verdicts on them, written by hand: `hand_made.jsonl`.

What goes wrong in practice is in it on purpose: verdicts that did not come, verdicts without a probability, items
without one of the labels; and pairs in one order or in both.
"""

from __future__ import annotations

import json
from pathlib import Path

from compeer.cer.item import Candidate, Item, Labels, LabelSource, PastTurn
from compeer.reasoning import Reasoning
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict

TEXTS = {
    "en": {"history": "What they face, and where we stand.", "emotion": "How it feels.", "strategy": "What may help."},
    "zh": {"history": "对方的处境和我们谈到哪里。", "emotion": "对方的感受。", "strategy": "此刻什么有帮助。"},
}
LABELS: dict[str, str | int] = {
    "stage": "exploration",
    "sentiment": "negative",
    "emotion": "sadness",
    "intensity": 3,
    "strategy": "question",
}


def load(label_source: LabelSource = "human") -> tuple[list[Item], dict[str, Judgement]]:
    """The items, and the judgements by item."""
    items, judgements = [], {}
    for line in Path(__file__).with_name("hand_made.jsonl").read_text().splitlines():
        row = json.loads(line)
        items.append(_item(row, label_source))
        judgements[row["id"]] = Judgement(
            id=row["id"],
            complete=True,
            steps=tuple(StepVerdict(*step) for step in row["steps"]),
            pairs=tuple(PairVerdict(*pair) for pair in row["pairs"]),
        )
    return items, judgements


def _item(row: dict, label_source: LabelSource) -> Item:
    history, emotion, strategy, preference = row["labels"]
    # the step's text names the message, so that texts differ from item to item
    texts = {step: f"{text} ({row['seeker']})" for step, text in TEXTS[row["language"]].items()}
    return Item(
        id=row["id"],
        dialogue=row["dialogue"],
        source=row["source"],
        licence="CC0",
        language=row["language"],
        round=1,
        history=(PastTurn("seeker", row["seeker"]),),
        reference=row["reference"],
        candidate=Candidate(response=row["candidate"], reasoning=Reasoning.of(texts, LABELS, row["language"])),
        labels=Labels(history=history, emotion=emotion, strategy=strategy, preference=preference),
        label_source=label_source,
    )
