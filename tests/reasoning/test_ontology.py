"""The vocabularies are whole in both languages, and every name that a corpus uses is known."""

import os
from pathlib import Path

import pytest

from compeer.reasoning.ontology import (
    EMOTIONS,
    INTENSITIES,
    INTENSITY_DEFINITIONS,
    LANGUAGES,
    SENTIMENTS,
    STAGES,
    STRATEGIES,
    VOCABULARIES,
    Vocabulary,
    fits,
    fold,
    sentiment_of,
)

ESCONV_STRATEGIES = (
    "Question", "Others", "Providing Suggestions", "Affirmation and Reassurance", "Self-disclosure",
    "Reflection of feelings", "Information", "Restatement or Paraphrasing",
)  # fmt: skip
FAILED_ESCONV_STRATEGIES = (
    "Questions", "Question", "Other", "Providing Suggestions", "Affirmation and Reassurance", "Reflection of feelings",
    "Self-disclosure", "Restatement or Paraphrasing", "Restatement", "Information", "Direct Guidance",
    "Approval and Reassurance",
)  # fmt: skip
ESCOT_STRATEGIES = (
    "Question", "Providing Suggestions", "Affirmation and Reassurance", "Self-disclosure", "Reflection of Feelings",
    "Information", "Restatement or Paraphrasing", "Specify", "Summarize", "Homework Assignments", "Imagery",
    "Immediacy", "Take Responsibility",
)  # fmt: skip
MESC_STRATEGIES = (
    "Interpretation", "Open question", "Self-disclosure", "Restatement", "Approval", "Communication Skills",
    "Advisement", "Guiding the Pace and Depth of the Conversation", "Structuring the therapy", "Others",
)  # fmt: skip
PAPER_STRATEGIES = ("progressive questioning", "emotional mapping")

ESCONV_EMOTIONS = (
    "anxiety", "depression", "sadness", "anger", "fear", "shame", "disgust", "nervousness", "guilt", "jealousy", "pain",
)  # fmt: skip
MESC_EMOTIONS = ("neutral", "depression", "anger", "disgust", "joy", "sadness", "fear")
GOEMOTIONS = (
    "admiration", "amusement", "anger", "annoyance", "approval", "caring", "confusion", "curiosity", "desire",
    "disappointment", "disapproval", "disgust", "embarrassment", "excitement", "fear", "gratitude", "grief", "joy",
    "love", "nervousness", "optimism", "pride", "realization", "relief", "remorse", "sadness", "surprise", "neutral",
)  # fmt: skip
AVAMERG_EMOTIONS = (  # the 32 of EmpatheticDialogues
    "surprised", "excited", "angry", "proud", "sad", "annoyed", "grateful", "lonely", "afraid", "terrified", "guilty",
    "impressed", "disgusted", "hopeful", "confident", "furious", "anxious", "anticipating", "joyful", "nostalgic",
    "disappointed", "prepared", "jealous", "content", "devastated", "embarrassed", "caring", "sentimental", "trusting",
    "ashamed", "apprehensive", "faithful",
)  # fmt: skip

CORPORA = [
    ("ESConv", STRATEGIES, ESCONV_STRATEGIES, 8),
    ("FailedESConv", STRATEGIES, FAILED_ESCONV_STRATEGIES, 12),
    ("ESCoT", STRATEGIES, ESCOT_STRATEGIES, 13),
    ("MESC", STRATEGIES, MESC_STRATEGIES, 10),
    ("the paper", STRATEGIES, PAPER_STRATEGIES, 2),
    ("ESConv", EMOTIONS, ESCONV_EMOTIONS, 11),
    ("MESC", EMOTIONS, MESC_EMOTIONS, 7),
    ("GoEmotions", EMOTIONS, GOEMOTIONS, 28),
    ("AvaMERG", EMOTIONS, AVAMERG_EMOTIONS, 32),
]


@pytest.mark.parametrize(
    ("corpus", "vocabulary", "names", "count"), CORPORA, ids=[f"{c}-{v.label}" for c, v, _, _ in CORPORA]
)
def test_every_name_of_a_corpus_is_known(
    corpus: str, vocabulary: Vocabulary, names: tuple[str, ...], count: int
) -> None:
    assert len(set(names)) == count
    assert [name for name in names if vocabulary.find(name) is None] == []


def test_goemotions_as_in_its_own_file() -> None:
    default = Path(__file__).parents[3] / "shared" / "data"
    file = Path(os.environ.get("COMPEER_DATA", default)) / "goemotions" / "emotions.txt"
    if not file.exists():
        pytest.skip("the GoEmotions files are not here")
    assert tuple(file.read_text().split()) == GOEMOTIONS


def test_aliases_mean_what_the_corpora_mean() -> None:
    """A few where a wrong mapping would not be noticed otherwise."""
    meant = {
        "Specify": "question", "Summarize": "restatement or paraphrasing", "Approval": "affirmation and reassurance",
        "Direct Guidance": "providing suggestions", "emotional mapping": "reflection of feelings", "Other": "others",
    }  # fmt: skip
    assert {name: STRATEGIES.find(name).id for name in meant} == meant  # type: ignore[union-attr]
    felt = {
        "devastated": "grief",
        "terrified": "fear",
        "optimism": "hope",
        "furious": "anger",
        "apprehensive": "anxiety",
    }
    assert {name: EMOTIONS.find(name).id for name in felt} == felt  # type: ignore[union-attr]


def test_the_counts_of_the_contract() -> None:
    assert STAGES.ids == ("exploration", "comforting", "action")
    assert set(SENTIMENTS.ids) == {"positive", "negative", "neutral"}
    assert INTENSITIES == (1, 2, 3, 4, 5)
    assert len(STRATEGIES) == 8


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_every_value_has_names_and_definitions_in_both_languages(vocabulary: Vocabulary) -> None:
    for value in vocabulary:
        assert value.id == value.id.lower().strip()
        assert value.id.isascii()
        assert value.zh and all("一" <= character <= "鿿" for character in value.zh), value
        assert len(value.definition) > 5 and value.definition.isascii(), value
        assert len(value.definition_zh) > 3 and not value.definition_zh.isascii(), value
        assert "\n" not in value.definition + value.definition_zh


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_names_are_unique(vocabulary: Vocabulary) -> None:
    for language in LANGUAGES:
        names = [fold(value.name(language)) for value in vocabulary]
        assert len(set(names)) == len(names)
    definitions = [value.definition for value in vocabulary] + [value.definition_zh for value in vocabulary]
    assert len(set(definitions)) == len(definitions)


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_named_takes_names_of_its_language_only_and_find_takes_all(vocabulary: Vocabulary) -> None:
    for value in vocabulary:
        assert vocabulary.named(f"  {value.id.upper()} ", "en") is value
        assert vocabulary.named(value.zh, "zh") is value
        assert vocabulary.named(value.zh, "en") is None
        assert vocabulary.named(value.id, "zh") is None
        assert vocabulary.get(value.id) is value
        for alias in value.aliases:
            assert vocabulary.find(alias) is value
            assert vocabulary.named(alias, "en") is None
            assert vocabulary.named(alias, "zh") is None


def test_unknown_names() -> None:
    assert STRATEGIES.find("undefined") is None, "MESC's word for no strategy is no strategy"
    assert EMOTIONS.find("") is None
    with pytest.raises(KeyError):
        EMOTIONS.get("sad")


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_no_spelling_names_two_values(vocabulary: Vocabulary) -> None:
    named: dict[str, str] = {}
    for value in vocabulary:
        for spelling in (value.id, value.zh, *value.aliases):
            assert named.setdefault(fold(spelling), value.id) == value.id, spelling


def test_every_emotion_has_sentiments_and_every_sentiment_emotions() -> None:
    for emotion in EMOTIONS:
        assert emotion.sentiments
        assert len(set(emotion.sentiments)) == len(emotion.sentiments)
        assert set(emotion.sentiments) <= set(SENTIMENTS.ids)
        assert fits(emotion.id, sentiment_of(emotion.id))
    assert {sentiment_of(emotion.id) for emotion in EMOTIONS} == set(SENTIMENTS.ids)
    assert not any(value.sentiments for label in ("stage", "sentiment", "strategy") for value in VOCABULARIES[label])


def test_every_intensity_is_defined_in_both_languages() -> None:
    for language in LANGUAGES:
        assert tuple(INTENSITY_DEFINITIONS[language]) == INTENSITIES
        assert all(INTENSITY_DEFINITIONS[language].values())
