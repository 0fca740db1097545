"""render is the way back from parse, and refuses what would not come back the same."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compeer.reasoning import LABELS, STEPS, Reasoning, parse, render, render_step
from compeer.reasoning.ontology import EMOTIONS, LANGUAGES, SENTIMENTS, STAGES, STRATEGIES, Language

TEXTS = {"history": "Lost the job.", "emotion": "Ashamed of it.", "strategy": "Ask first."}
LABELLED: dict[str, str | int] = {
    "stage": "action",
    "sentiment": "negative",
    "emotion": "shame",
    "intensity": 4,
    "strategy": "question",
}
REASONING = Reasoning.of(TEXTS, LABELLED)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_rendered_parses_to_the_same(
    data: st.DataObject, reasonings: st.SearchStrategy[Reasoning], replies: st.SearchStrategy[str]
) -> None:
    reasoning, reply = data.draw(reasonings), data.draw(replies)
    parsed = parse(render(reasoning, reply))
    assert parsed.complete
    assert parsed.reasoning == reasoning
    assert parsed.response == reply
    assert parsed.language == reasoning.language


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_value_comes_back(language: Language) -> None:
    for label, vocabulary in {
        "stage": STAGES,
        "sentiment": SENTIMENTS,
        "emotion": EMOTIONS,
        "strategy": STRATEGIES,
    }.items():
        for value in vocabulary.ids:
            reasoning = Reasoning.of(TEXTS, LABELLED | {label: value}, language)
            assert parse(render(reasoning, "Well.")).reasoning == reasoning


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("nothing", ""),
        ("white space", " \n"),
        ("no words", "…"),
        ("an opening tag", "a <think> b"),
        ("a closing tag", "a </EMOTION> b"),
        ("white space before", " a"),
        ("white space after", "a\n"),
        ("ideographic space after", "a　"),
    ],
)
def test_refuses_a_step(step: str, why: str, text: str) -> None:
    with pytest.raises(ValueError, match="cannot be rendered"):
        render(Reasoning.of(TEXTS | {step: text}, LABELLED), "Well.")


@pytest.mark.parametrize("step", STEPS)
def test_refuses_a_labelled_line_of_the_step_in_either_language(step: str) -> None:
    lines = {
        "history": ("Stage: odd", "阶段：怪"),
        "emotion": ("emotion: odd", "强度: 9"),
        "strategy": ("Strategy:", "策略："),
    }
    for line in lines[step]:
        with pytest.raises(ValueError, match="cannot be rendered"):
            render(Reasoning.of(TEXTS | {step: f"First.\n{line}\nThen."}, LABELLED), "Well.")


@pytest.mark.parametrize(
    ("why", "reply"),
    [
        ("nothing", ""),
        ("no words", "..."),
        ("a reasoning tag", "Well. <history>"),
        ("markup", "Well. <i>"),
        ("white space after", "Well.\n"),
        ("white space before", "\tWell."),
    ],
)
def test_refuses_a_reply(why: str, reply: str) -> None:
    with pytest.raises(ValueError, match="cannot be rendered"):
        render(REASONING, reply)


def test_the_refusal_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="<emotion> has no free text"):
        render(Reasoning.of(TEXTS | {"emotion": "?"}, LABELLED), "Well.")


def test_a_step_alone_is_its_text_and_its_lines() -> None:
    assert render_step(REASONING, "emotion") == "Ashamed of it.\nSentiment: negative\nEmotion: shame\nIntensity: 4"
    chinese = Reasoning.of(dict.fromkeys(STEPS, "难。"), LABELLED, "zh")
    assert render_step(chinese, "history") == "难。\n阶段：行动"
    assert sum(len(labels) for labels in LABELS.values()) == 5
