from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, chinese

SAID = [{"role": "client", "content": "睡不着"}, {"role": "counselor", "content": "多久了？"}]


def test_the_real_file(data: Path, outcomes: Any) -> None:
    found = outcomes(chinese.load_smile(data / "smile"))
    assert len(found.dialogues) == 796
    assert {r.reason for r in found.rejected} == {"there is no counsellor turn"}
    assert len(found.rejected) == 4
    assert found.rejected[0].line == 90 and found.rejected[0].record.startswith("smile/")
    first = found.dialogues[0]
    assert (first.id, first.extra["file"], first.language) == ("smile/00002", "2.json", "zh")
    assert [u.speaker for u in first.utterances[:2]] == ["seeker", "supporter"]
    assert first.utterances[0].text.startswith("高三后的迷茫")


def test_the_original_folder_of_numbered_files(put: Any, outcomes: Any, tmp_path: Path) -> None:
    put("data/10.json", SAID, as_list=True)
    put("data/9.json", SAID, as_list=True)
    put("data/11.json", '[{"role": "client"')
    put("data/12.json", b"\xff")
    found = outcomes(chinese.load_smile(tmp_path / "data"))
    assert [d.id for d in found.dialogues] == ["smile/00009", "smile/00010"]  # by number
    assert [r.record for r in found.rejected] == ["11", "12"]


def test_one_id_twice(put: Any, outcomes: Any, tmp_path: Path) -> None:
    put("a.jsonl", [{"file": "1.json", "dialog": SAID}])
    put("b.jsonl", [{"file": "1.json", "dialog": SAID}, {"dialog": SAID}])
    found = outcomes(chinese.load_smile(tmp_path))
    assert [d.id for d in found.dialogues] == ["smile/00001", "smile/row-00001"]
    assert found.rejected[0].reason == "an earlier record has the same id"


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="none of these files"):
        list(chinese.load_smile(tmp_path))
