from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import chinese


def row(number: int = 0, **changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "我很难过。"}, {"role": "assistant", "content": "愿意多说一点吗？"}]
    return {"id": number, "topic": "婚恋", "messages": messages} | changes


@pytest.mark.parametrize("as_list", [True, False])
def test_both_forms(put: Any, outcomes: Any, as_list: bool) -> None:
    name = "SoulChatCorpus-sft-multi-Turn.json"
    found = outcomes(chinese.load_soulchat(put(name, [row(7), row(7)], as_list=as_list)))
    first, second = found.dialogues
    assert (first.id, second.id) == ("soulchat/multi/000000", "soulchat/multi/000001")  # its own ids repeat
    assert [u.speaker for u in first.utterances] == ["seeker", "supporter"]
    assert (first.language, first.problem, first.extra) == ("zh", "婚恋", {"original_id": 7})


def test_a_folder(put: Any, outcomes: Any, tmp_path: Path) -> None:
    put("SoulChatCorpus-sft-multi-Turn.jsonl", [row()])
    assert len(outcomes(chinese.load_soulchat(tmp_path)).dialogues) == 1


def test_roles(put: Any, outcomes: Any) -> None:
    system = {"role": "system", "content": "你是心理咨询师"}
    rows = [row(messages=[system, *row()["messages"]]), row(messages=[{"role": "tool", "content": "x"}])]
    found = outcomes(chinese.load_soulchat(put("s.jsonl", rows)))
    assert found.dialogues[0].extra["system"] == "你是心理咨询师"
    assert found.rejected[0].reason == "message 0: unknown role 'tool'; known: system, user, assistant"


@pytest.mark.parametrize("as_list", [True, False])
def test_memory_does_not_grow_with_the_file(put: Any, as_list: bool) -> None:
    filler = [{"role": "user", "content": "难" * 600}, {"role": "assistant", "content": "嗯" * 600}]
    path = put("big.json", [row(n, messages=filler) for n in range(5000)], as_list=as_list)
    assert path.stat().st_size > 15_000_000
    tracemalloc.start()
    count = sum(1 for _ in chinese.load_soulchat(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 5000
    assert peak < 8_000_000  # a few chunks of a megabyte, however long the file
