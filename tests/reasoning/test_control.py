"""Pins in any spelling, given texts, edits, and the check that an output kept them."""

import pytest

from compeer.errors import UserError
from compeer.reasoning import Control, ControlError, Pins, Reasoning, edit, parse, violations
from compeer.reasoning.grammar import Literal, plan
from compeer.reasoning.ontology import EMOTIONS, VOCABULARIES

REASONING = Reasoning.of(
    {"history": "Lost the job.", "emotion": "Ashamed of it.", "strategy": "Ask first."},
    {"stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question"},
)


@pytest.mark.parametrize(
    ("why", "pair", "label", "value"),
    [
        ("English", "strategy=question", "strategy", "question"),
        ("letter case", "Strategy=Reflection of Feelings", "strategy", "reflection of feelings"),
        ("white space", " strategy = self-disclosure ", "strategy", "self-disclosure"),
        ("Chinese key and value", "策略=情感反映", "strategy", "reflection of feelings"),
        ("Chinese value under an English key", "emotion=焦虑", "emotion", "anxiety"),
        ("the alias of a corpus", "strategy=Questions", "strategy", "question"),
        ("the paper's name", "strategy=emotional mapping", "strategy", "reflection of feelings"),
        ("an adjective", "emotion=sad", "emotion", "sadness"),
        ("a Chinese alias", "stage=探索阶段", "stage", "exploration"),
        ("a number", "intensity=4", "intensity", 4),
        ("a number in Chinese", "强度=5", "intensity", 5),
        ("an equals sign in the value is not a second pair", "sentiment=neg", "sentiment", "negative"),
    ],
)
def test_pins_in_any_spelling(why: str, pair: str, label: str, value: str | int) -> None:
    assert Pins.parse([pair]).items() == [(label, value)]


def test_every_value_can_be_pinned_in_both_languages() -> None:
    for label, vocabulary in VOCABULARIES.items():
        for value in vocabulary:
            for spelling in (value.id, value.zh, *value.aliases):
                assert Pins.of({label: spelling}).items() == [(label, value.id)]


def test_pins_come_in_the_order_of_the_contract() -> None:
    pins = Pins.parse(["strategy=question", "intensity=2", "stage=action", "emotion=fear", "sentiment=negative"])
    assert [label for label, _ in pins.items()] == ["stage", "sentiment", "emotion", "intensity", "strategy"]


@pytest.mark.parametrize(
    ("why", "pairs", "said"),
    [
        ("a misspelt key", ["stratgy=question"], "Did you mean strategy"),
        ("an unknown key", ["zzz=1"], "What can be pinned: stage, sentiment, emotion, intensity, strategy"),
        ("a misspelt value", ["emotion=anxeity"], "Did you mean 'anxiety'"),
        ("an unknown value", ["stage=xyz"], "Known: exploration, comforting, action"),
        ("no equals sign", ["strategy"], "key=value"),
        ("no value", ["strategy="], "key=value"),
        ("no key", ["=question"], "key=value"),
        ("twice", ["stage=action", "阶段=行动"], "pinned twice"),
        ("intensity 0", ["intensity=0"], "1 to 5"),
        ("intensity 6", ["intensity=6"], "1 to 5"),
        ("a fraction", ["intensity=3.5"], "1 to 5"),
        ("a full-width digit", ["intensity=４"], "1 to 5"),
        ("a contradiction", ["sentiment=positive", "emotion=sadness"], "sadness is negative"),
        ("a contradiction with two ways out", ["sentiment=positive", "emotion=confusion"], "negative or neutral"),
    ],
)
def test_refused_pins_say_what_is_known(why: str, pairs: list[str], said: str) -> None:
    with pytest.raises(ControlError, match=said):
        Pins.parse(pairs)


def test_pinned_twice_by_mapping() -> None:
    with pytest.raises(ControlError, match="pinned twice"):
        Pins.of({"stage": "action", "阶段": "探索"})


def test_a_refusal_is_for_people() -> None:
    assert issubclass(ControlError, UserError)


def test_every_emotion_can_be_pinned_with_each_of_its_sentiments() -> None:
    for emotion in EMOTIONS:
        for sentiment in emotion.sentiments:
            assert Pins.of({"emotion": emotion.id, "sentiment": sentiment}).sentiment == sentiment


def test_control_is_true_when_there_is_any() -> None:
    assert not Control()
    assert Control(Pins(intensity=1))
    assert Control(given={"history": "She lost her job."})


@pytest.mark.parametrize(
    ("why", "step", "text", "said"),
    [
        ("no such step", "mood", "Words.", "the steps are history, emotion, strategy"),
        ("nothing", "history", "", "is empty"),
        ("no words", "history", " … ", "is empty"),
        ("a tag", "history", "She <think> so.", "reasoning tag"),
        ("a tag in odd writing", "emotion", "Sad.< / EMOTION >", "reasoning tag"),
        ("a labelled line", "history", "Lost.\nStage: action", "labelled line"),
        ("a labelled line in Chinese", "emotion", "难过。\n　强度：4", "labelled line"),
        ("one that only stripping brings out", "history", "\u2003Stage: action", "labelled line"),
    ],
)
def test_refused_given_texts(why: str, step: str, text: str, said: str) -> None:
    with pytest.raises(ControlError, match=said):
        Control(given={step: text})


def test_a_given_text_may_name_another_steps_key() -> None:
    assert Control(given={"history": "Emotion: later.\nStage fright: that is it."})


def test_edit_keeps_what_came_before_and_opens_what_comes_after() -> None:
    control = edit(REASONING, "emotion", "More afraid than ashamed.", emotion="fear")
    assert control.given == {"history": "Lost the job.", "emotion": "More afraid than ashamed."}
    assert control.pins.items() == [("stage", "exploration"), ("emotion", "fear")]


def test_edit_of_the_first_step() -> None:
    control = edit(REASONING, "history", stage="行动")
    assert control.given == {"history": "Lost the job."}
    assert control.pins.items() == [("stage", "action")]


def test_edit_of_the_last_step_keeps_everything_else() -> None:
    control = edit(REASONING, "strategy", "Say it back.")
    assert control.given == {"history": "Lost the job.", "emotion": "Ashamed of it.", "strategy": "Say it back."}
    assert dict(control.pins.items()) == {
        "stage": "exploration",
        "sentiment": "negative",
        "emotion": "shame",
        "intensity": 4,
    }


@pytest.mark.parametrize(
    ("why", "step", "text", "labels", "said"),
    [
        ("no such step", "mood", "Words.", {}, "the steps are"),
        ("another step's label", "history", None, {"emotion": "fear"}, "does not belong to the step history"),
        ("an unknown value", "emotion", None, {"emotion": "odd"}, "unknown emotion"),
        ("a tag", "history", "<think>", {}, "is empty|reasoning tag"),
    ],
)
def test_refused_edits(why: str, step: str, text: str | None, labels: dict[str, str], said: str) -> None:
    with pytest.raises(ControlError, match=said):
        edit(REASONING, step, text, **labels)


def test_no_violations_when_all_is_kept(english: str) -> None:
    parsed = parse(english)
    pins = Pins.of(
        {"stage": "探索", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "情感反映"}
    )
    control = Control(pins, {"emotion": f"  {parsed.texts['emotion']}\n"})
    assert violations(parsed, control) == ()
    assert violations(parsed, Control()) == ()


def test_every_broken_pin_and_text_is_named(english: str) -> None:
    pins = Pins.of({"stage": "action", "sentiment": "positive", "emotion": "joy", "intensity": 1, "strategy": "others"})
    found = violations(parse(english), Control(pins, {"history": "Something else."}))
    assert [problem.code for problem in found] == ["pin", "pin", "pin", "pin", "pin", "given"]
    assert "stage was pinned to 'action'; the output says 'exploration'" in found[0]
    assert found[-1].step == "history"


def test_a_plain_reply_keeps_no_pin() -> None:
    control = Control(Pins(strategy="question"), {"history": "Lost."})
    assert [problem.code for problem in violations(parse("Hello."), control)] == ["pin", "given"]


def test_editing_a_later_step_keeps_an_emotion_that_does_not_fit_its_sentiment() -> None:
    """A model may conclude a contradiction; a person who edits the strategy must not be stopped by it."""
    odd = Reasoning.of(
        {"history": "He lost it.", "emotion": "He laughs.", "strategy": "Ask."},
        {"stage": "action", "sentiment": "positive", "emotion": "shame", "intensity": 2, "strategy": "question"},
    )
    control = edit(odd, "strategy", "Stay with it.", strategy="others")
    text = "".join(part.text for part in plan("en", control)[:-1] if isinstance(part, Literal))
    assert "Sentiment: positive\nEmotion: shame\nIntensity: 2" in text
