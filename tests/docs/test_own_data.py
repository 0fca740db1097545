"""docs/data.md with conversations of somebody's own: what needs no model is run in the page's order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks, commands_in
from typer.testing import CliRunner

from compeer.cer import gold
from compeer.corpora import load
from compeer.dialogue import Dialogue, write_rows

PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8").partition("\n## Public corpora")[0]
#: people's labels cannot be had in a test, and so nothing that comes after them
AFTER_PEOPLE = ("labelled.jsonl --out dataset", "configs/", "hf:runs")


def own(dialogue: Dialogue) -> dict[str, object]:
    """A conversation in the page's second form."""
    said = [
        {"speaker": one.speaker, "text": one.text, "strategy": one.strategy, "emotion": one.emotion}
        for one in dialogue.utterances
    ]
    return {"id": dialogue.id, "dialog": said, "emotion": dialogue.emotion, "problem": dialogue.problem}


def test_the_page_can_be_followed_up_to_where_people_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compeer.cli import app

    monkeypatch.chdir(tmp_path)
    shown = next(block.text for block in blocks(PAGE) if block.language == "json").splitlines()
    ours = [own(one) for one in load("bundled", Path(), language="en") if isinstance(one, Dialogue)]
    Path("mine.jsonl").write_text("".join(f"{line}\n" for line in [*shown, *map(json.dumps, ours)]), encoding="utf-8")
    write_rows("candidates.jsonl", list(gold.load("en"))[:6])  # `cer reason` needs a server; these stand in for it
    run = []
    for command in commands_in("docs/data.md", PAGE):
        words = command.words[1:]
        if words[0] == "studio" or "openai:" in command.text or any(part in command.text for part in AFTER_PEOPLE):
            continue
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{command}\n{done.output[-2000:]}\n{done.exception!r}"
        run.append(" ".join(words[:3]))
    assert len(run) == 13, run
    assert len(Path("dialogues.jsonl").read_text().splitlines()) == len(ours) + 2
    assert len(Path("kept.jsonl").read_text().splitlines()) > 50
    items = [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]
    assert {item["label_source"] for item in items} == {"silver"}
    assert {item["licence"] for item in items} == {"our own, internal"}
