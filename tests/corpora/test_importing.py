from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, Rejected, importing, load
from compeer.dialogue import Dialogue, read
from compeer.dialogue.jsonl import rejects_path


def chat(text: str = "I am low.") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Tell me."}]}


def test_dialogues_here_rejections_there(put: Any, tmp_path: Path) -> None:
    path = put("in.jsonl", [chat(), chat(""), {"messages": []}, chat(" "), chat("Me too.")])
    seen: list[int] = []

    def watch(summary: importing.ImportSummary) -> None:
        seen.append(summary.imported + summary.rejected)

    summary = importing.run(load("plain", path), tmp_path / "out.jsonl", watch=watch)
    assert [d.id for d in read(tmp_path / "out.jsonl")] == ["plain/in/00000", "plain/in/00004"]
    assert (summary.imported, summary.rejected) == (2, 3)
    assert summary.reasons == {"utterance N: text is empty": 2, "there is no utterance": 1}
    assert summary.examples["utterance N: text is empty"].endswith("in.jsonl, line 2")
    lines = [json.loads(line) for line in (tmp_path / "out.rejects.jsonl").read_text().splitlines()]
    assert [(one["line"], one["source"]) for one in lines] == [(2, "plain"), (3, "plain"), (4, "plain")]
    assert seen == [1, 2, 3, 4, 5]


def test_unmapped_strategies_are_named(put: Any, tmp_path: Path) -> None:
    said = [{"speaker": "seeker", "text": "Hi"}, {"speaker": "supporter", "text": "Yo", "strategy": "Juggling"}]
    said.append({"speaker": "supporter", "text": "How?", "strategy": "Question"})
    summary = importing.run(load("plain", put("in.jsonl", [{"dialog": said}])), tmp_path / "out.jsonl")
    assert (summary.strategies_mapped, summary.strategies_unmapped) == (1, {"Juggling": 1})


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    def endless() -> Any:
        number = 0
        while True:
            one = next(iter(load("plain", tmp_path / "in.jsonl")))
            assert isinstance(one, Dialogue)
            number += 1
            assert number <= 3
            yield one

    (tmp_path / "in.jsonl").write_text(json.dumps(chat()))
    assert importing.run(endless(), tmp_path / "out.jsonl", limit=3).imported == 3


def test_nothing_imported_keeps_the_old_corpus_and_says_why(put: Any, tmp_path: Path) -> None:
    out = put("out.jsonl", "old\n")
    with pytest.raises(CorpusError, match=r"nothing was imported \(there is no utterance\)"):
        importing.run(load("plain", put("in.jsonl", [{"messages": []}])), out)
    assert out.read_text() == "old\n"
    assert "there is no utterance" in (tmp_path / "out.rejects.jsonl").read_text()


def test_an_interrupted_import_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> Any:
        yield Rejected(source="s", file="f", record="0", line=1, reason="bad")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        importing.run(interrupted(), tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "rejects"),
    [
        ("a/b.jsonl", "a/b.rejects.jsonl"),
        ("b.jsonl.zst", "b.rejects.jsonl"),
        ("b", "b.rejects.jsonl"),
        ("v1.2.jsonl", "v1.2.rejects.jsonl"),
        ("-", None),
    ],
)
def test_where_rejections_go(out: str, rejects: str | None) -> None:
    assert rejects_path(out) == (Path(rejects) if rejects else None)
