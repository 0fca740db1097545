from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compeer.corpora import avamerg
from compeer.reasoning.ontology import EMOTIONS

# EmpatheticDialogues' emotions
THIRTY_TWO = (
    "afraid",
    "angry",
    "annoyed",
    "anticipating",
    "anxious",
    "apprehensive",
    "ashamed",
    "caring",
    "confident",
    "content",
    "devastated",
    "disappointed",
    "disgusted",
    "embarrassed",
    "excited",
    "faithful",
    "furious",
    "grateful",
    "guilty",
    "hopeful",
    "impressed",
    "jealous",
    "joyful",
    "lonely",
    "nostalgic",
    "prepared",
    "proud",
    "sad",
    "sentimental",
    "surprised",
    "terrified",
    "trusting",
)


def conversation(**changes: Any) -> dict[str, Any]:
    first = {"index": 0, "role": "speaker", "utterance": "My exam is tomorrow."}
    rest = [
        {"index": 1, "role": "listener", "utterance": "What worries you?"},
        {"index": 2, "role": "speaker", "utterance": "Everything."},
    ]
    chain = {"speaker_emotion": "anxious", "event_scenario": "An exam.", "emotion_cause": "It looms."}
    return {
        "conversation_id": "01118",
        "topic": "Study ",
        "speaker_profile": {"age": "young", "gender": "male", "timbre": "high", "ID": 28},
        "listener_profile": {"age": "old", "gender": "female", "timbre": "low", "ID": 3},
        "turns": [
            {
                "turn_id": "0",
                "context": "An exam tomorrow.",
                "dialogue_history": [first],
                "response": "What worries you?",
                "chain_of_empathy": chain | {"goal_to_response": "To find out."},
            },
            {
                "turn_id": "1",
                "dialogue_history": [first, *rest],
                "response": "That is a lot.",
                "chain_of_empathy": {"speaker_emotion": "terrified"},
            },
        ],
    } | changes


def test_a_conversation_is_put_together_from_its_turns(put: Any, outcomes: Any) -> None:
    [only] = outcomes(avamerg.load(put("train.json", [conversation()], as_list=True))).dialogues
    assert only.id == "avamerg/train/01118"
    assert [(u.speaker, u.text) for u in only.utterances] == [
        ("seeker", "My exam is tomorrow."),
        ("supporter", "What worries you?"),
        ("seeker", "Everything."),
        ("supporter", "That is a lot."),
    ]
    assert [u.emotion for u in only.utterances] == ["anxiety", "anxiety", "fear", "fear"]
    assert only.utterances[1].reasoning is not None and only.utterances[1].reasoning.strategy == "To find out."
    assert only.utterances[3].reasoning is None
    assert (only.emotion, only.problem, only.situation) == ("anxiety", "study", "An exam tomorrow.")
    assert only.extra["speaker_profile"] == {"age": "young", "gender": "male", "timbre": "high", "ID": 28}


def test_media_by_name(put: Any, outcomes: Any, tmp_path: Path) -> None:
    path = put("train.json", [conversation()], as_list=True)
    for name in ("dia01118utt0_28.wav", "dia01118utt0_28.mp4", "dia01118utt0_28_1.jpg", "dia01118utt3_3.wav"):
        put(f"media/{name}", b"")
    [only] = outcomes(avamerg.load(path, media=tmp_path / "media")).dialogues
    assert [Path(p).name for p in only.utterances[0].images] == ["dia01118utt0_28_1.jpg"]
    assert set(only.extra["media"]) == {"0", "3"}
    assert set(only.extra["media"]["0"]) == {"audio", "video"}


@pytest.mark.parametrize("emotion", THIRTY_TWO)
def test_each_of_the_32_emotions_has_a_place(emotion: str) -> None:
    assert EMOTIONS.find(emotion) is not None


def test_what_does_not_fit_is_turned_away(put: Any, outcomes: Any) -> None:
    at_odds = conversation(conversation_id="2")
    at_odds["turns"][1]["dialogue_history"][0] = {"index": 0, "role": "speaker", "utterance": "Something else."}
    gap = conversation(conversation_id="3")
    gap["turns"] = gap["turns"][1:]
    del gap["turns"][0]["dialogue_history"][1]
    stranger = conversation(conversation_id="4")
    stranger["turns"][0]["dialogue_history"][0] = {"index": 0, "role": "narrator", "utterance": "x"}
    rows = [conversation(), at_odds, gap, stranger, conversation(), conversation(conversation_id="6", turns=[])]
    found = outcomes(avamerg.load(put("train.json", rows)))
    assert [d.id for d in found.dialogues] == ["avamerg/train/01118"]
    expected = ["disagree", "missing", "unknown role 'narrator'", "same id", "no utterance"]
    for rejected, reason in zip(found.rejected, expected, strict=True):
        assert reason in rejected.reason
