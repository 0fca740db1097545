from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from compeer.corpora import esconv


def test_the_real_file(data: Path, outcomes: Any) -> None:
    found = outcomes(esconv.load_failed(data / "esconv"))
    assert (len(found.dialogues), found.rejected) == (196, [])
    assert all(d.helpful is False for d in found.dialogues)
    assert {d.licence for d in found.dialogues} == {"academic research use"}
    supporters = [u for d in found.dialogues for u in d.utterances if u.speaker == "supporter"]
    assert len(supporters) == 2377 and all(u.strategy for u in supporters)
    by_strategy = Counter(u.strategy for u in supporters)
    assert by_strategy["question"] == 528  # Questions 520 and Question 8
    assert by_strategy["providing suggestions"] == 403  # with Direct Guidance 11
    assert not any("unmapped_strategies" in d.extra for d in found.dialogues)
    assert sum(len(d.extra.get("feedback", {})) for d in found.dialogues) == 987


def test_the_speaker_is_the_seeker(data: Path) -> None:
    first = next(iter(esconv.load_failed(data / "esconv" / "FailedESConv.json")))
    said = {u.text: u for u in first.utterances}  # type: ignore[union-attr]
    assert said["I am depressed about the Covid-19 pandemic"].speaker == "seeker"
    assert said["I AM FINE, AND YOU"].speaker == "supporter"
    assert said["I AM FINE, AND YOU"].strategy == "question"
    assert first.extra["feedback"]["4"] == 4  # type: ignore[union-attr]
    assert first.id == "failed_esconv/00000"  # type: ignore[union-attr]
