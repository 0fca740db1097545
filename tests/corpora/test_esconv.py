from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, esconv
from compeer.dialogue import rounds


def test_train_has_what_the_facts_say(data: Path, outcomes: Any) -> None:
    found = outcomes(esconv.load(data / "esconv" / "train.txt"))
    assert (len(found.dialogues), found.rejected) == (910, [])
    strategies = Counter(u.strategy for d in found.dialogues for u in d.utterances if u.speaker == "supporter")
    assert strategies == {
        "question": 2622,
        "others": 2354,
        "affirmation and reassurance": 1988,
        "providing suggestions": 1987,
        "self-disclosure": 1185,
        "reflection of feelings": 990,
        "information": 835,
        "restatement or paraphrasing": 798,
    }
    assert not any(u.strategy for d in found.dialogues for u in d.utterances if u.speaker == "seeker")
    assert not any("unmapped_strategies" in d.extra or "unmapped_emotions" in d.extra for d in found.dialogues)
    assert Counter(d.emotion for d in found.dialogues)["anxiety"] == 251
    assert all(d.problem and d.problem == d.problem.lower() for d in found.dialogues)
    assert Counter(d.intensity for d in found.dialogues) == {4: 401, 5: 303, 3: 173, 2: 31, 1: 2}
    counts = [len(rounds(d)) for d in found.dialogues]
    assert (min(counts), max(counts)) == (4, 44)
    assert {d.licence for d in found.dialogues} == {"CC BY-NC 4.0"}


def test_the_first_record_in_full(data: Path) -> None:
    first = next(iter(esconv.load(data / "esconv" / "train.txt")))
    assert first.id == "esconv/train/00000"  # type: ignore[union-attr]
    assert first.problem == "job crisis" and first.emotion == "anxiety" and first.intensity == 3  # type: ignore[union-attr]
    assert first.extra["final_intensity"] == 2  # type: ignore[union-attr]
    assert first.extra["survey"]["seeker"]["empathy"] == 5  # type: ignore[union-attr]
    said = first.utterances  # type: ignore[union-attr]
    assert (said[0].speaker, said[1].speaker, said[1].strategy) == ("seeker", "supporter", "question")
    assert (said[8].speaker, said[9].speaker) == ("seeker", "seeker")  # not merged


@pytest.mark.parametrize("split", ["valid", "validation", "val", "dev"])
def test_a_folder_and_a_split(data: Path, outcomes: Any, split: str) -> None:
    found = outcomes(esconv.load(data / "esconv", split=split))
    assert len(found.dialogues) == 195
    assert found.dialogues[12].id == "esconv/valid/00012"


def test_a_folder_without_a_split_is_everything_in_it(data: Path, outcomes: Any) -> None:
    assert len(outcomes(esconv.load(data / "esconv")).dialogues) == 1105


def test_the_original_form(put: Any, outcomes: Any) -> None:
    row = {
        "emotion_type": "sadness",
        "survey_score": {"seeker": {"initial_emotion_intensity": "5"}, "supporter": {}},
        "dialog": [
            {"speaker": "seeker", "annotation": {}, "content": "Hello\n"},
            {"speaker": "supporter", "annotation": {"strategy": "Question"}, "content": "What is it?"},
            {"speaker": "seeker", "annotation": {"feedback": "4"}, "content": "A loss."},
        ],
    }
    [only] = outcomes(esconv.load(put("ESConv.json", [row], as_list=True))).dialogues
    assert [u.speaker for u in only.utterances] == ["seeker", "supporter", "seeker"]
    assert (only.utterances[0].text, only.utterances[1].strategy, only.intensity) == ("Hello", "question", 5)
    assert only.extra["feedback"] == {"2": 4}


def test_unknown_names_are_kept_and_counted_not_forced(put: Any, outcomes: Any) -> None:
    said = [{"speaker": "usr", "text": "Hi"}] + [{"speaker": "sys", "text": "Yo", "strategy": "Juggling"}] * 2
    [only] = outcomes(esconv.load(put("x.txt", [{"dialog": said, "emotion_type": "zest"}]))).dialogues
    assert only.extra["unmapped_strategies"] == {"Juggling": 2}
    assert only.extra["unmapped_emotions"] == {"zest": 1}
    assert (only.emotion, only.utterances[1].strategy) == (None, None)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"dialog": [{"speaker": "bot", "text": "Hi"}]}, "utterance 0: unknown speaker 'bot'"),
        ({"dialog": [{"speaker": "usr", "text": "Hi"}]}, "there is no supporter turn"),
        ({"dialog": [{"speaker": "sys", "text": "Hi"}]}, "there is no seeker turn"),
        ({"dialog": []}, "there is no utterance"),
        ({"dialog": [{"speaker": "usr", "text": " \t"}]}, "utterance 0: text is empty"),
        ({"dialog": [{"speaker": "usr"}]}, "utterance 0: text is empty"),
        ({"dialog": [{"speaker": "usr", "text": 7}]}, "$.dialog[0].text"),
        ({"dialog": "Hi"}, "Expected `array`, got `str` - at `$.dialog`"),
        ({"conversation": []}, "missing required field `dialog`"),
        ([1, 2], "Expected `object`"),
    ],
)
def test_a_bad_record_is_turned_away_alone(put: Any, outcomes: Any, row: Any, reason: str) -> None:
    good = {"dialog": [{"speaker": "usr", "text": "Hi"}, {"speaker": "sys", "text": "Hello", "strategy": "Others"}]}
    found = outcomes(esconv.load(put("train.txt", [good, row, good])))
    assert [d.id for d in found.dialogues] == ["esconv/train/00000", "esconv/train/00002"]  # ids do not shift
    [rejected] = found.rejected
    assert reason in rejected.reason
    assert rejected.line == 2 and rejected.source == "esconv" and rejected.file.endswith("train.txt")


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file or folder"):
        list(esconv.load(tmp_path / "absent"))
    with pytest.raises(CorpusError, match=r"none of these files is here: train\.txt"):
        list(esconv.load(tmp_path))
    with pytest.raises(CorpusError, match="no split 'exam'"):
        list(esconv.load(tmp_path, split="exam"))
