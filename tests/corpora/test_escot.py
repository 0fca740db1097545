from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import escot
from compeer.corpora.escot import named_strategy


def test_full_chains(data: Path, outcomes: Any) -> None:
    found = outcomes(escot.load(data / "escot" / "val.json"))
    assert (len(found.dialogues), found.rejected) == (172, [])
    for one in found.dialogues:
        *before, reply = one.utterances
        assert reply.speaker == "supporter" and reply.strategy
        assert reply.reasoning is not None
        assert one.extra["cot"]["emotion_stimuli"] in reply.reasoning.history
        assert one.extra["cot"]["emotion"] == reply.reasoning.emotion
        assert not any(u.reasoning or u.strategy for u in before)
        assert "unmapped_strategies" not in one.extra
    first = found.dialogues[0]
    assert first.id == "escot/val/00944"
    assert first.utterances[-1].strategy == "affirmation and reassurance"
    assert first.utterances[-1].text.startswith("You're doing great work")
    assert first.utterances[-1].reasoning.emotion == "The seeker feels depleted and overwhelmed."


def test_instruction_rows(data: Path, outcomes: Any) -> None:
    found = outcomes(escot.load(data / "escot", split="train"))
    assert (len(found.dialogues), found.rejected) == (1195, [])
    assert sum(len(d.utterances) - 1 for d in found.dialogues) == 14049 + 13903
    assert sum(d.utterances[-1].strategy is None for d in found.dialogues) == 7  # those that name none
    assert not any("unmapped_strategies" in d.extra for d in found.dialogues)
    assert not any(u.reasoning for d in found.dialogues for u in d.utterances)  # half a chain is none
    first = found.dialogues[0]
    assert first.id == "escot/train/01272"
    assert first.extra["cot"]["emotion"].startswith("The seeker feels lost, confused")
    assert first.extra["raw_strategies"] == {str(len(first.utterances) - 1): "Summarize"}
    assert first.utterances[-1].text.startswith("It seems like you're feeling lost")


def test_the_folder_is_both(data: Path, outcomes: Any) -> None:
    assert len(outcomes(escot.load(data / "escot")).dialogues) == 1195 + 172


@pytest.mark.parametrize(
    ("reason", "strategy"),
    [
        ('can use "Take Responsibility" to', "Take Responsibility"),
        ('can use "Question." to', "Question"),
        ('the seeker says "no", so "Question" fits', "Question"),
        ('can use "Homework Assignment" to', "Homework Assignments"),
        ("can use the strategy of asking a question", "Question"),
        ('can use "_LS" to', None),
        ("offers suggestions for outside help", None),
    ],
)
def test_the_strategy_inside_a_reason(reason: str, strategy: str | None) -> None:
    assert named_strategy(reason) == strategy


def test_what_an_instruction_row_can_lack(put: Any, outcomes: Any) -> None:
    output = 'Emotion:\nsad\nStrategy Reason:\nuse "Imagery"\nResponse:\nPicture it.'
    rows = [
        {"dialog_id": 1, "input": "seeker: I am low.\nAnd tired.\nsupporter: I see.\nseeker: Yes.", "output": output},
        {"dialog_id": 2, "input": "seeker: Hi", "output": "Response:\nHello"},
        {"dialog_id": 3, "input": "hi there", "output": output},
        {"dialog_id": 1, "input": "seeker: Hi", "output": output},
        {"dialog_id": 4},
    ]
    found = outcomes(escot.load(put("train_em_sr_re.json", rows, as_list=True)))
    [only] = found.dialogues
    assert only.utterances[0].text == "I am low.\nAnd tired."
    assert [u.speaker for u in only.utterances] == ["seeker", "supporter", "seeker", "supporter"]
    assert only.utterances[-1].strategy == "providing suggestions"
    assert [r.reason.split(" ")[0] for r in found.rejected] == ["output", "input", "an", "neither"]
    assert found.rejected[2].record == "escot/train/00001"
