from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, chinese
from compeer.dialogue import rounds


def test_the_real_folder(data: Path, outcomes: Any) -> None:
    found = outcomes(chinese.load_cpsycoun(data / "cpsycoun"))
    assert (len(found.dialogues), found.rejected) == (400, [])
    assert [d.id for d in found.dialogues] == [f"cpsycoun/{n:05d}" for n in range(400)]  # natural order
    said = [u for d in found.dialogues for u in d.utterances]
    assert sum(u.speaker == "supporter" for u in said) == 3194
    assert not any(u.text.startswith(("来访者", "心理咨询师：")) for u in said)
    counts = [len(rounds(d)) for d in found.dialogues]
    assert (min(counts), max(counts)) == (4, 14) and 7.8 < sum(counts) / 400 < 8.0
    case = found.dialogues[76]
    assert case.extra["speakers"]["4"] == "妈妈" and case.utterances[4].speaker == "seeker"


def test_the_inner_folder_and_one_case(data: Path, outcomes: Any) -> None:
    assert len(outcomes(chinese.load_cpsycoun(data / "cpsycoun" / "CPsyCounD")).dialogues) == 400
    [only] = outcomes(chinese.load_cpsycoun(data / "cpsycoun" / "CPsyCounD" / "case_12.txt")).dialogues
    assert only.id == "cpsycoun/00012"


def test_lines_without_a_speaker(put: Any, outcomes: Any) -> None:
    text = (
        "\ufeff来访者：我睡不着。\r\n\r\n（沉默）\r\n\r\n心理咨询师：可以试试：\r\n\r\n1. 散步：每天。\r\n2. 早睡。"
        "\r\n\r\n来访者（王女士）：好。\r\n\r\n（一段时间后）"
    )
    [only] = outcomes(chinese.load_cpsycoun(put("case_3.txt", text))).dialogues
    assert [u.text for u in only.utterances] == ["我睡不着。", "可以试试：\n1. 散步：每天。\n2. 早睡。", "好。"]
    assert only.extra["narration"] == [{"before": 1, "text": "沉默"}, {"before": 3, "text": "一段时间后"}]
    assert only.extra["speakers"] == {"2": "王女士"}


def test_bad_cases(put: Any, outcomes: Any, tmp_path: Path) -> None:
    put("c/case_1.txt", "来访者：你好\n\n心理咨询师：你好")
    put("c/case_2.txt", "来访者：你好")
    put("c/case_3.txt", "从前有一个人")
    put("c/case_4.txt", "来访者：你好".encode("gbk"))
    put("c/case_5.txt", "来访者：\n\n心理咨询师：你好")
    put("c/case_6.txt", "")
    put("c/notes.txt", "来访者：你好\n\n心理咨询师：你好")
    found = outcomes(chinese.load_cpsycoun(tmp_path / "c"))
    assert [d.id for d in found.dialogues] == ["cpsycoun/00001"]
    expected = [
        "no supporter turn",
        "does not begin with a speaker",
        "not UTF-8",
        "utterance 0: text is empty",
        "no utt",
    ]
    for rejected, reason in zip(found.rejected, expected, strict=True):
        assert reason in rejected.reason
    with pytest.raises(CorpusError, match="no case_N"):
        list(chinese.load_cpsycoun(tmp_path))
