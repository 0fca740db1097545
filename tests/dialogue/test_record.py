"""A record is whole in JSON and back, and a wrong one is refused with a word on what is wrong."""

from typing import Any

import msgspec
import pytest

from compeer.dialogue import Dialogue, Utterance
from compeer.reasoning.ontology import VOCABULARIES

GOOD: dict[str, Any] = {
    "id": "a",
    "source": "b",
    "licence": "CC0 1.0",
    "language": "en",
    "utterances": [{"speaker": "seeker", "text": "Hi."}],
}


def spoken(**changes: Any) -> dict[str, Any]:
    """The good record with changes to its only utterance."""
    return GOOD | {"utterances": [GOOD["utterances"][0] | changes]}


def test_everything_comes_back_from_json(full: Dialogue, bare: Dialogue) -> None:
    for dialogue in (full, bare):
        assert msgspec.json.decode(msgspec.json.encode(dialogue), type=Dialogue) == dialogue


def test_what_is_not_set_is_not_written(bare: Dialogue) -> None:
    written = msgspec.json.decode(msgspec.json.encode(bare))
    assert written.keys() == {"id", "source", "licence", "language", "utterances"}
    assert written["utterances"] == [{"speaker": "seeker", "text": "睡不着"}]


def test_a_record_is_not_changed(full: Dialogue) -> None:
    with pytest.raises(AttributeError):
        full.id = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        full.utterances[0].text = "other"  # type: ignore[misc]


def test_extra_is_not_shared(bare: Dialogue) -> None:
    bare.extra["a"] = 1
    other = Dialogue(id="y", source="x", licence="", language="en", utterances=bare.utterances)
    assert other.extra == {}


@pytest.mark.parametrize(
    ("why", "record", "said"),
    [
        ("no id", {k: v for k, v in GOOD.items() if k != "id"}, "missing required field `id`"),
        ("an empty id", GOOD | {"id": ""}, r"\$.id"),
        ("a number for an id", GOOD | {"id": 1}, r"\$.id"),
        ("an empty source", GOOD | {"source": ""}, r"\$.source"),
        ("no licence", {k: v for k, v in GOOD.items() if k != "licence"}, "licence"),
        ("another language", GOOD | {"language": "fr"}, "'fr'.*language"),
        ("no utterances", GOOD | {"utterances": []}, r"\$.utterances"),
        ("a field misspelt", GOOD | {"situaton": "x"}, "situaton"),
        ("an unknown emotion", GOOD | {"emotion": "odd"}, "unknown emotion 'odd'"),
        ("intensity 6", GOOD | {"intensity": 6}, r"<= 5.*\$.intensity"),
        ("another speaker", spoken(speaker="usr"), r"'usr'.*\$.utterances\[0\].speaker"),
        ("no text", spoken(text=" \n"), r"text is empty.*\$.utterances\[0\]"),
        ("a field misspelt in an utterance", spoken(emotions="fear"), "emotions"),
        ("intensity 0 in an utterance", spoken(intensity=0), r">= 1.*utterances\[0\].intensity"),
        ("a fraction", spoken(intensity=2.5), "utterances"),
        ("an unknown stage", spoken(stage="end"), "unknown stage 'end'; known: exploration, comforting, action"),
        ("an unknown sentiment", spoken(sentiment="bad"), "unknown sentiment"),
        ("an alias, with what to write", spoken(strategy="Questions"), "'Questions'; write 'question'"),
        ("a Chinese name, with what to write", spoken(emotion="焦虑"), "write 'anxiety'"),
        ("half a reasoning", spoken(reasoning={"history": "x", "emotion": "y"}), "strategy"),
    ],
)  # fmt: skip
def test_refused(why: str, record: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(msgspec.json.encode(record), type=Dialogue)


def test_the_good_record_is_good() -> None:
    assert msgspec.convert(GOOD, Dialogue).utterances[0].text == "Hi."


def test_labels_are_checked_in_code_too() -> None:
    with pytest.raises(ValueError, match="unknown strategy"):
        Utterance(speaker="supporter", text="Hi.", strategy="Question")
    with pytest.raises(ValueError, match="text is empty"):
        Utterance(speaker="supporter", text="")


def test_every_label_value_is_accepted() -> None:
    for label, vocabulary in VOCABULARIES.items():
        for value in vocabulary.ids:
            assert getattr(Utterance(speaker="seeker", text="Hi.", **{label: value}), label) == value  # type: ignore[arg-type]
