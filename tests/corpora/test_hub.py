"""The hub, without a network: real `datasets` objects stand in for what it would stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from compeer.corpora import CorpusError, chinese, esconv
from compeer.corpora import reading as hub

DIALOG = [{"speaker": "usr", "text": "Hi"}, {"speaker": "sys", "text": "Hello", "strategy": "Others"}]


def stream(rows: list[dict[str, Any]]) -> Any:
    return datasets.Dataset.from_list(rows).to_iterable_dataset()


@pytest.mark.parametrize(
    ("text", "is_name"),
    [
        ("thu-coai/esconv", True),
        ("esconv", False),
        ("data/esconv/train", False),
        ("data/train.txt", False),
        ("/data/esconv", False),
        ("../data", False),
        ("src/esconv", False),  # the folder src is here: a mistyped path
    ],
)
def test_what_a_hub_name_looks_like(text: str, is_name: bool, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    assert hub.is_name(Path(text)) is is_name


def test_a_text_corpus_comes_as_one_column(monkeypatch: Any, outcomes: Any) -> None:
    rows = [{"text": json.dumps({"dialog": DIALOG})}, {"text": "{"}]
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split, streaming: {"train": stream(rows)})
    found = outcomes(esconv.load(Path("thu-coai/esconv")))
    assert [d.id for d in found.dialogues] == ["esconv/train/00000"]
    assert (found.rejected[0].file, found.rejected[0].line) == ("thu-coai/esconv", 2)


def test_absent_keys_come_as_none(monkeypatch: Any, outcomes: Any) -> None:
    rows = [{"dialog": DIALOG, "situation": None}]  # Arrow gives the seeker a strategy, None
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split, streaming: stream(rows))
    [only] = outcomes(esconv.load(Path("thu-coai/esconv"), split="test")).dialogues
    assert only.id == "esconv/test/00000" and only.utterances[1].strategy == "others"


def test_without_a_network(monkeypatch: Any) -> None:
    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(CorpusError, match=r"scutcyr/SoulChatCorpus: .*Couldn't reach the Hub.*download soulchat"):
        list(chinese.load_soulchat(Path("scutcyr/SoulChatCorpus")))


def test_without_the_package(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'compeer-esc\[data\]'"):
        list(chinese.load_soulchat(Path("scutcyr/SoulChatCorpus")))
