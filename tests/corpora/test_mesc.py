from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import CorpusError, mesc

HEADER = "Utterance,Speaker,Emotion,Strategy,Dialogue_ID,Utterance_ID,Season,Episode,StartTime,EndTime\n"


def line(dialogue: int, number: int, text: str, speaker: str = "Client", strategy: str = "undefined") -> str:
    return f'"{text}",{speaker},sadness,{strategy},{dialogue},{number},1,2,"00:00:01,000","00:00:02,000"\n'


def pair(dialogue: int) -> str:
    return line(dialogue, 0, "I am low.") + line(dialogue, 1, "How so?", "Therapist", "open question")


def test_the_csv(data: Path, outcomes: Any) -> None:
    found = outcomes(mesc.load(data / "mesc"))
    assert (len(found.dialogues), found.rejected) == (1019, [])
    said = [u for d in found.dialogues for u in d.utterances]
    assert Counter(u.speaker for u in said) == {"seeker": 18436, "supporter": 10326}
    assert all(u.strategy for u in said if u.speaker == "supporter")
    assert not any(u.strategy for u in said if u.speaker == "seeker")
    strategies = Counter(u.strategy for u in said)
    assert strategies["question"] == 2403  # Open question 2,400 and open question 3
    assert strategies["reflection of feelings"] == 2709  # Interpretation
    assert all(u.emotion for u in said if u.speaker == "seeker")
    # what the therapist feels is not what the seeker feels
    assert not any(u.emotion for u in said if u.speaker == "supporter")
    assert not any("unmapped_strategies" in d.extra or "unmapped_emotions" in d.extra for d in found.dialogues)
    first = found.dialogues[0]
    assert first.id == "mesc/00000"
    assert (first.extra["season"], first.extra["episode"], first.extra["start"]) == ("1", "1", "00:00:54,097")
    assert first.extra["raw_strategies"]["3"] == "Communication Skills"


def test_the_json_joined_with_the_csv(data: Path, outcomes: Any) -> None:
    found = outcomes(mesc.load(data / "mesc" / "val.json"))
    assert (len(found.dialogues), found.rejected) == (102, [])
    clean = {d.id: d for d in outcomes(mesc.load(data / "mesc" / "MESC.csv")).dialogues}
    raw = json.loads((data / "mesc" / "val.json").read_text())
    for one, row in zip(found.dialogues, raw, strict=True):
        assert [u.text for u in one.utterances] == [u.text for u in clean[one.id].utterances]
        for said, glued in zip(one.utterances, row["dialog"], strict=True):
            assert said.seen and glued["text"].startswith(said.text) and glued["text"].endswith(said.seen)
        assert one.situation and one.problem == one.problem.lower().strip()
        assert one.extra["split"] == "val"
    first = found.dialogues[0]
    assert first.utterances[1].text == "Start what?"
    assert first.utterances[1].seen.startswith("The speaker appears to be in a state of contemplation")


def test_the_json_needs_the_csv(data: Path, tmp_path: Path, outcomes: Any) -> None:
    (tmp_path / "val.json").write_bytes((data / "mesc" / "val.json").read_bytes())
    with pytest.raises(CorpusError, match=r"MESC\.csv.*csv=PATH"):
        list(mesc.load(tmp_path / "val.json"))
    found = outcomes(mesc.load(tmp_path / "val.json", csv=data / "mesc" / "MESC.csv"))
    assert len(found.dialogues) == 102


def test_a_json_dialogue_without_its_csv_is_turned_away(put: Any, outcomes: Any) -> None:
    put("MESC.csv", HEADER + pair(3))
    said = [{"text": "I am low. She looks down.", "speaker": "user"}, {"text": "How so? He nods.", "speaker": "sys"}]
    other = [{"text": "I am fine.", "speaker": "user"}, {"text": "How so?", "speaker": "sys"}]
    path = put("val.json", [{"dialog": said}, {"dialog": other}, {"dialog": said}], as_list=True)
    found = outcomes(mesc.load(path))
    assert [(d.id, d.utterances[0].seen) for d in found.dialogues] == [("mesc/00003", "She looks down.")]
    assert [r.record for r in found.rejected] == ["1", "2"]  # unknown; the same again
    assert "no dialogue of MESC.csv has these 2 utterances" in found.rejected[0].reason


def test_damage_costs_the_dialogue_it_is_in(put: Any, outcomes: Any) -> None:
    text = HEADER
    text += pair(0)
    text += pair(1) + "no id,Client,joy,undefined,,2,1,2,a,b\n"  # damaged
    text += line(2, 0, "I am low.") + line(2, 2, "How so?", "Therapist", "Approval")  # one is missing
    text += pair(3) + pair(4) + line(3, 2, "And again")  # goes on too late
    text += line(5, 0, "Hi", "Narrator") + line(5, 1, "How?", "Therapist", "Approval")
    text += pair(6) + "a, b,Client,joy,undefined,6,2,1,2,x,y\n" + pair(7)  # unquoted comma
    found = outcomes(mesc.load(put("MESC.csv", text)))
    assert [d.id for d in found.dialogues] == ["mesc/00000", "mesc/00003", "mesc/00004", "mesc/00007"]
    reasons = " | ".join(r.reason for r in found.rejected)
    for part in ("no Dialogue_ID", "is damaged", "missing or out of order", "goes on after", "'Narrator'", "comma"):
        assert part in reasons
    assert found.rejected[0].line == 6


def test_bom_crlf_and_bytes_that_are_no_utf8(put: Any, outcomes: Any) -> None:
    good = (HEADER + pair(0) + pair(1)).replace("\n", "\r\n").encode("utf-8-sig")
    assert len(outcomes(mesc.load(put("MESC.csv", good))).dialogues) == 2
    bad = (HEADER + pair(0) + pair(1)).encode().replace(b"I am low.", b"I am \xff.", 1)
    found = outcomes(mesc.load(put("MESC.csv", bad)))
    assert [d.id for d in found.dialogues] == ["mesc/00001"] and "not UTF-8" in found.rejected[0].reason


def test_a_csv_without_its_columns(put: Any) -> None:
    with pytest.raises(CorpusError, match="no column Dialogue_ID"):
        list(mesc.load(put("MESC.csv", "Utterance,Speaker,Emotion,Strategy,Utterance_ID\n")))


def test_pictures_by_name(put: Any, outcomes: Any, tmp_path: Path) -> None:
    path = put("MESC.csv", HEADER + pair(12))
    for name in ("f/dia12utt0_10.jpg", "f/dia12utt0_9.jpg", "f/dia12utt1.mp4", "f/dia1utt0.jpg", "f/._dia12utt0.jpg"):
        put(name, b"")
    [only] = outcomes(mesc.load(path, media=tmp_path / "f")).dialogues
    folder = (tmp_path / "f").resolve()
    assert only.utterances[0].images == (str(folder / "dia12utt0_9.jpg"), str(folder / "dia12utt0_10.jpg"))
    assert only.utterances[1].images == ()
    assert only.extra["media"] == {"1": {"video": [str(folder / "dia12utt1.mp4")]}}
