from __future__ import annotations

from pathlib import Path
from typing import Any

from compeer.corpora import chinese
from compeer.dialogue import rounds


def test_data(data: Path, outcomes: Any) -> None:
    found = outcomes(chinese.load_emollm(data / "emollm" / "data.json"))
    assert (len(found.dialogues), found.rejected) == (1596, [])
    assert sum(len(rounds(d)) for d in found.dialogues) == 5072
    first = found.dialogues[0]
    assert [u.speaker for u in first.utterances] == ["seeker", "supporter"] * 3
    assert first.extra["system"].startswith("现在你是一个心理专家")
    assert not any(u.text.startswith("现在你是一个心理专家") for d in found.dialogues for u in d.utterances)
    assert (first.id, first.licence) == ("emollm/data/00000", "MIT")


def test_aiwei_is_marked_as_a_persona(data: Path, outcomes: Any) -> None:
    found = outcomes(chinese.load_emollm(data / "emollm", split="aiwei"))
    assert len(found.dialogues) == 200
    assert {d.extra["style"] for d in found.dialogues} == {"persona"}
    assert found.dialogues[0].id == "emollm/aiwei/00000"


def test_the_folder_is_both(data: Path, outcomes: Any) -> None:
    found = outcomes(chinese.load_emollm(data / "emollm"))
    assert len(found.dialogues) == 1796
    assert sum("style" in d.extra for d in found.dialogues) == 200


def test_broken_rows(put: Any, outcomes: Any) -> None:
    good = {"conversation": [{"input": "你好", "output": "你好"}]}
    rows = [good, {"conversation": [{"input": "你好"}]}, {"conversation": [{"input": "", "output": "x"}]}, good]
    found = outcomes(chinese.load_emollm(put("data.json", rows, as_list=True)))
    assert [d.id for d in found.dialogues] == ["emollm/data/00000", "emollm/data/00003"]
    assert [r.line for r in found.rejected] == [10, 17]
    assert "missing required field `output`" in found.rejected[0].reason
