"""The prompt names everything the parser asks for, and every pin and given step."""

import re

import pytest

from compeer.reasoning import LABELS, STEPS, Control, Pins, parse, system_prompt
from compeer.reasoning.ontology import INTENSITIES, INTENSITY_DEFINITIONS, LANGUAGES, VOCABULARIES, Language
from compeer.reasoning.schema import KEYS, TAG_SEQUENCE


@pytest.mark.parametrize("language", LANGUAGES)
def test_full_names_every_tag_key_and_value(language: Language) -> None:
    prompt = system_prompt(language)
    for tag in TAG_SEQUENCE:
        assert f"<{tag}>" in prompt
    for keys in KEYS.values():
        assert re.search(rf"^{keys[language]}[:：]", prompt, re.MULTILINE), keys
    for vocabulary in VOCABULARIES.values():
        for value in vocabulary:
            assert value.name(language) in prompt
    for intensity in INTENSITIES:
        assert f"{intensity} {INTENSITY_DEFINITIONS[language][intensity]}" in prompt


@pytest.mark.parametrize("language", LANGUAGES)
def test_full_defines_stages_and_strategies(language: Language) -> None:
    prompt = system_prompt(language)
    for label in ("stage", "strategy"):
        for value in VOCABULARIES[label]:
            assert (value.definition if language == "en" else value.definition_zh) in prompt


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_form_shown_differs_from_a_complete_output_only_in_its_placeholders(language: Language) -> None:
    prompt = system_prompt(language)
    form = prompt[prompt.index("<think>") :]
    assert [problem.code for problem in parse(form).problems] == 5 * ["invalid-label"]
    assert set(parse(form).texts) == set(STEPS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_brief_is_much_shorter_and_names_the_contract(language: Language) -> None:
    brief = system_prompt(language, length="brief")
    assert 0 < len(brief) < len(system_prompt(language)) / 3
    assert all(step in brief for step in STEPS) or "<think>" in brief


def test_each_prompt_is_in_its_language() -> None:
    assert not re.search("[一-鿿]", system_prompt("en") + system_prompt("en", length="brief"))
    chinese = re.sub(r"</?[a-z]+>", "", system_prompt("zh") + system_prompt("zh", length="brief"))
    assert len(re.findall("[A-Za-z]+", chinese)) < 5


@pytest.mark.parametrize("length", ["full", "brief"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_pins_are_said_as_labelled_lines(language: Language, length: str) -> None:
    pins = Pins.of(
        {"stage": "action", "sentiment": "negative", "emotion": "fear", "intensity": 2, "strategy": "others"}
    )
    free, pinned = system_prompt(language, length=length), system_prompt(language, Control(pins), length)  # type: ignore[arg-type]
    assert pinned.startswith(free)
    lines = {
        "en": ["Stage: action", "Sentiment: negative", "Emotion: fear", "Intensity: 2", "Strategy: others"],
        "zh": ["阶段：行动", "情感倾向：消极", "情绪：恐惧", "强度：2", "策略：其他"],
    }
    assert pinned[len(free) :].split("\n")[-5:] == lines[language]
    assert len(lines[language]) == sum(len(labels) for labels in LABELS.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pin_that_is_not_set_is_not_said(language: Language) -> None:
    free = system_prompt(language)
    said = system_prompt(language, Control(Pins(intensity=2)))[len(free) :]
    assert KEYS["intensity"][language] in said
    assert KEYS["strategy"][language] not in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_given_steps_stand_in_their_tags_in_order(language: Language) -> None:
    control = Control(given={"emotion": " Ashamed.\n", "history": "Lost the job."})
    said = system_prompt(language, control)[len(system_prompt(language)) :]
    assert "<history>\nLost the job.\n</history>" in said
    assert "<emotion>\nAshamed.\n</emotion>" in said
    assert said.index("<history>") < said.index("<emotion>")
    assert "<strategy>" not in said
