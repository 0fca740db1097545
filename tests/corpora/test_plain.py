from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, esconv, plain
from compeer.dialogue import Dialogue, write_rows

CHAT = {"messages": [{"role": "user", "content": "I am low."}, {"role": "assistant", "content": "Tell me."}]}


def test_our_own_records_come_back_unchanged(data: Path, outcomes: Any, tmp_path: Path) -> None:
    records = [d for d in esconv.load(data / "esconv", split="valid") if isinstance(d, Dialogue)]
    write_rows(tmp_path / "own.jsonl.gz", records)
    assert outcomes(plain.load(tmp_path / "own.jsonl.gz")).dialogues == records


def test_a_chat(put: Any, outcomes: Any) -> None:
    system = {"role": "system", "content": "Be kind."}
    rows = [
        CHAT,
        {"id": "mine-1", "messages": [system, *CHAT["messages"]], "topic": "work", "licence": "CC0", "helpful": True},
        {"messages": [{"role": "user", "content": "我很难过"}, {"role": "assistant", "content": "我在"}]},
    ]
    first, second, third = outcomes(plain.load(put("Peer Talks.jsonl", rows), licence="MIT")).dialogues
    assert (first.id, first.licence, first.language) == ("plain/peer-talks/00000", "MIT", "en")
    assert (second.id, second.licence, second.helpful) == ("mine-1", "CC0", True)
    assert second.extra == {"system": "Be kind.", "topic": "work"}
    assert third.language == "zh"


def test_a_dialog_with_labels(put: Any, outcomes: Any) -> None:
    said = [
        {"speaker": "seeker", "text": "I am low.", "emotion": "sad"},
        {"speaker": "supporter", "text": "Tell me.", "strategy": "Questions"},
    ]
    row = {"dialog": said, "emotion": "afraid", "intensity": "4", "problem": "Job  Crisis", "language": "en"}
    [only] = outcomes(plain.load(put("d.json", [row], as_list=True))).dialogues
    assert [u.emotion for u in only.utterances] == ["sadness", None]
    assert only.utterances[1].strategy == "question"
    assert (only.emotion, only.intensity, only.problem) == ("fear", 4, "job crisis")


def test_pictures_in_a_chat(put: Any, outcomes: Any) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "path": "b.png"},
        {"type": "text", "text": "This is me."},
    ]
    rows = [{"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": "I see."}]}]
    [only] = outcomes(plain.load(put("p.jsonl", rows))).dialogues
    assert only.utterances[0].images == ("https://example.org/a.png", "b.png")
    assert only.utterances[0].text == "This is me."


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "hello"}, "none of the keys utterances, messages, dialog"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "message 0: unknown role 'robot'"),
        ({"messages": [{"content": "x"}]}, "message 0: unknown role ''"),
        ({"messages": [{"role": "user", "content": 3}]}, "$.messages[0].content"),
        ({"messages": []}, "there is no utterance"),
        ({"id": "a", "utterances": [{"speaker": "seeker", "text": "x"}]}, "missing required field"),
        (
            {
                "id": "a",
                "source": "s",
                "licence": "l",
                "language": "en",
                "utterances": [{"speaker": "seeker", "text": ""}],
            },
            "text is empty",
        ),
        ({**CHAT, "language": "fr"}, "$.language"),
    ],
)
def test_a_bad_row(put: Any, outcomes: Any, row: dict[str, Any], reason: str) -> None:
    found = outcomes(plain.load(put("x.jsonl", [CHAT, row])))
    assert len(found.dialogues) == 1
    assert reason in found.rejected[0].reason


def test_a_folder_is_all_its_files(put: Any, outcomes: Any, tmp_path: Path) -> None:
    put("a.jsonl", [CHAT])
    put("b.json", [CHAT], as_list=True)
    assert [d.id for d in outcomes(plain.load(tmp_path)).dialogues] == ["plain/a/00000", "plain/b/00000"]


def test_a_language_nobody_knows(put: Any) -> None:
    with pytest.raises(CorpusError, match="Give one of en, zh"):
        list(plain.load(put("x.jsonl", [CHAT]), language="fr"))
