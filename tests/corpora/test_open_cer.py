"""Open CER: schema, labels, lengths, openings, variety, likeness, nothing private; crisis apart."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from runs.open_cer.grid import plan
from tests.cli.command import compeer

from compeer.cer.item import Item, items_at
from compeer.corpora import load, open_cer
from compeer.corpora.reading import Rejected
from compeer.dialogue import Dialogue, Utterance
from compeer.dialogue import turns as merged_turns
from compeer.reasoning.ontology import STRATEGIES, fits, words

DIALOGUES = list(open_cer.load())
PRIVATE = re.compile(r"\S+@\S+\.\w+|https?://|(?<!\d)\d{3}[- ]\d{3,4}[- ]?\d{3,4}(?!\d)|(?<!\d)1[3-9]\d{9}(?!\d)")
LONGEST = {"en": 60, "zh": 80}


def turns(language: str) -> list[Utterance]:
    return [
        one
        for dialogue in DIALOGUES
        if dialogue.language == language
        for one in dialogue.utterances
        if one.reasoning is not None
    ]


def distinct_2(texts: Sequence[str]) -> float:
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        said = [word.lower() for word in words(text)]
        pairs.update(pairwise(said))
    return len(pairs) / pairs.total()


def test_counts_and_names() -> None:
    assert len({one.id for one in DIALOGUES}) == len(DIALOGUES) >= 900
    assert len(turns("en")) >= 1690 and len(turns("zh")) >= 900
    assert {(one.licence, one.crisis) for one in DIALOGUES} == {("CC BY 4.0", False)}
    assert [one.id for one in load("open-cer", "")] == [one.id for one in DIALOGUES]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_turn_is_complete_and_short(language: str) -> None:
    for one in turns(language):
        assert one.stage and one.emotion and one.sentiment and one.intensity and one.strategy
        assert fits(one.emotion, one.sentiment), one.text
        assert 0 < len(words(one.text)) <= LONGEST[language], one.text
        assert one.reasoning is not None
        thinking = len(words(" ".join((one.reasoning.history, one.reasoning.emotion, one.reasoning.strategy))))
        assert 25 <= thinking <= 150, one.text
        assert len(re.findall("[?？]", one.text)) <= 2, one.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_all_strategies_and_stages_are_there_and_no_opening_is_a_habit(language: str) -> None:
    found = turns(language)
    strategies, stages = Counter(one.strategy for one in found), Counter(one.stage for one in found)
    assert len(strategies) == 8 and min(strategies.values()) >= 0.04 * len(found)
    assert len(stages) == 3 and min(stages.values()) >= 0.2 * len(found)
    openings = Counter(" ".join(words(one.text)[:3]).lower() for one in found)
    assert openings.most_common(1)[0][1] <= 0.02 * len(found)
    assert len({one.text for one in found}) == len(found), "the same reply twice"


def test_nothing_private_and_no_invented_life() -> None:
    for dialogue in DIALOGUES:
        for one in dialogue.utterances:
            assert not PRIVATE.search(one.text), one.text
            if one.speaker == "supporter":
                assert not re.search(r"\bmy own (?:wife|husband|brother|sister|mother|father|dog|cat)\b", one.text), (
                    one.text
                )
                assert "As an AI" not in one.text


def test_contrasts_answer_a_moment_under_other_strategies() -> None:
    """At least 1,000 moments have three answers under strategies that are not the moment's own, none of them twice."""
    moments = {item.id.removeprefix("open-cer/"): item for dialogue in DIALOGUES for item in _moments(dialogue)}
    others: Counter[str] = Counter()
    seen: set[str] = set()
    for one in open_cer.contrasts():
        item = moments[one.of]
        assert item.reference_reasoning is not None and STRATEGIES.named(one.strategy, "en"), one.of
        assert 0 < len(words(one.reply)) <= LONGEST[item.language], one.reply
        assert one.reply not in seen and one.reply != item.reference, one.reply
        seen.add(one.reply)
        others[one.of] += one.strategy != item.reference_reasoning.label("strategy")
    assert sum(count >= 3 for count in others.values()) >= 1000
    openings = Counter(" ".join(words(reply)[:3]).lower() for reply in seen)
    assert openings.most_common(1)[0][1] <= 0.02 * len(seen)


def _moments(dialogue: Dialogue) -> list[Item]:
    supporter = [turn for turn in merged_turns(dialogue) if turn.speaker == "supporter"]
    return items_at(dialogue, [at for at, turn in enumerate(supporter, start=1) if turn.utterances[-1].reasoning])


def test_the_grid_is_written_cell_by_cell() -> None:
    """Every cell of the plan is one conversation with as many replies as planned, and the counts are those of the plan."""
    written = {one.id.removeprefix("open-cer/"): one for one in DIALOGUES}
    for row in plan():
        replies = sum(one.reasoning is not None for one in written[row[0]].utterances)
        assert replies == int(row[6]), row[0]


def test_crisis_is_apart_and_marked() -> None:
    apart = list(open_cer.load(crisis=True))
    assert apart and all(one.crisis for one in apart)
    assert not {one.id for one in apart} & {one.id for one in DIALOGUES}


def test_readings_cover_every_file() -> None:
    files = {
        path.stem for path in open_cer.FOLDER.glob("*.jsonl") if not path.stem.startswith(("crisis-", "contrast-"))
    }
    readings = {
        path.stem: json.loads(path.read_text("utf-8")) for path in (open_cer.FOLDER / "readings").glob("*.json")
    }
    assert files <= set(readings)
    assert all(one["turns"] == one["kept"] + one["edited"] + one["dropped"] for one in readings.values())


def test_more_varied_than_esconv_and_none_of_it_taken_from_there() -> None:
    data = os.environ.get("COMPEER_DATA")
    if not data or not (Path(data) / "esconv").is_dir():
        pytest.skip(f"ESConv is not at {data}; set COMPEER_DATA to the folder of corpora")
    theirs = [
        one.text
        for dialogue in load("esconv", Path(data) / "esconv", split="train")
        if isinstance(dialogue, Dialogue) and not isinstance(dialogue, Rejected)
        for one in dialogue.utterances
        if one.speaker == "supporter"
    ]
    ours = [one.text for one in turns("en")]
    random.Random(0).shuffle(theirs)
    assert distinct_2(ours) >= distinct_2(theirs[: len(ours)])
    long = {text for text in theirs if len(words(text)) >= 6}
    assert not long & set(ours)


def test_the_command_needs_no_path(tmp_path: Path) -> None:
    done = compeer("corpus", "import", "open-cer", "--out", str(tmp_path / "own.jsonl"))
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "own.jsonl").read_text("utf-8").splitlines()) == len(DIALOGUES)
