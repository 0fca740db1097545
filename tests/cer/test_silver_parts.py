"""The parts of the silver labels, and what they do with our own corpus and with corpora too small to trade."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import numpy as np
import pytest

from compeer.cer.item import Item
from compeer.cer.silver.moment import derive_stages, moments
from compeer.cer.silver.replies import reworded
from compeer.cer.silver.steps import family, phrases, quotes, say
from compeer.cer.silver.wrong_steps import exchange
from compeer.corpora import bundled
from compeer.dialogue import Dialogue, Utterance
from compeer.reasoning import parse, render
from compeer.reasoning.ontology import EMOTIONS, LANGUAGES, STAGES, STRATEGIES
from compeer.reasoning.schema import STEPS

pytest.importorskip("sklearn", reason="silver labels need scikit-learn: pip install '.[data]'")

from compeer.cer.silver import build_silver, text_only


@pytest.fixture(scope="module")
def ours() -> list[Dialogue]:
    return list(bundled.load())


@pytest.fixture(scope="module")
def items(ours: list[Dialogue]) -> list[Item]:
    return list(build_silver(ours))


def test_quotes_are_verbatim_in_both_languages() -> None:
    english = "hi. idk, my boss yelled at me again <3 and honestly i just froze. Bye!"
    for quote in quotes(english, "en"):
        assert quote in english and "<" not in quote
    chinese = "在吗？我昨天又跟我妈吵架了，一晚上没睡。"
    assert quotes(chinese, "zh") and all(quote in chinese for quote in quotes(chinese, "zh"))
    assert quotes("My GPA is 3.9 and I want to keep it", "en") == (
        "My GPA is 3.9 and I want to keep it",
    )  # no end at 3.
    assert quotes("yes", "en") == () and quotes("no way", "en", 1) == ("no way",)


def test_patterns_choose_before_they_fill() -> None:
    slots = {"fact": "they [lost|it]"}  # brackets in what someone wrote are only brackets
    assert say(["[So|Well], {fact}."], random.Random(0), slots) in {"So, they [lost|it].", "Well, they [lost|it]."}
    assert say(["{missing}."], random.Random(0), slots) is None


def test_stages_follow_place_and_strategy_and_may_go_back() -> None:
    assert derive_stages(
        [["question"]] * 3 + [["affirmation and reassurance"]] * 3 + [["providing suggestions"]] * 3
    ) == (["exploration"] * 3 + ["comforting"] * 3 + ["action"] * 3)
    assert derive_stages([]) == []
    assert derive_stages([["others"]]) == ["comforting"]  # nothing but its place speaks


def test_every_label_can_be_put_into_words() -> None:
    assert {family(emotion) for emotion in EMOTIONS.ids} == set(phrases("en").families)
    for language in LANGUAGES:
        assert set(phrases(language).plan) == set(STRATEGIES.ids)
        assert set(phrases(language).standing) == set(STAGES.ids) and set(phrases(language).degree) == {1, 2, 3, 4, 5}
    assert family("grief") == family("sadness") != family("shame") != family("anger")


def test_an_exchange_keeps_the_marginals_and_the_rules() -> None:
    values = np.array([0] * 6 + [1] * 4 + [2] * 2)
    allowed = values[:, None] != values[None, :]
    taken, left = exchange(list(range(12)), np.zeros((12, 12)), allowed, seed=1)
    assert not left
    assert Counter(values[list(taken)]) == Counter(values[list(taken.values())])
    assert all(values[to] != values[giver] for to, giver in taken.items())
    one_kind, left = exchange([1, 2, 3], np.zeros((3, 3)), np.zeros((3, 3), dtype=bool), seed=1)
    assert not one_kind and left == [1, 2, 3]


def test_a_reply_reworded_is_another_and_keeps_its_question() -> None:
    said = "I'm so sorry to hear that. Have you tried to talk to your mom about it?"
    other = reworded(said, random.Random(4))
    assert other and other != said and other.endswith("?")


def test_our_own_corpus_in_both_languages(items: list[Item]) -> None:
    assert Counter(item.language for item in items).keys() == {"en", "zh"}
    for item in items:
        assert item.candidate and item.candidate.reasoning
        assert item.candidate.reasoning.language == item.language
        assert parse(render(item.candidate.reasoning, item.candidate.response)).complete
    for step in STEPS:
        assert 0.18 <= sum(not getattr(item.labels, step) for item in items) / len(items) <= 0.26
    assert {item.labels.preference for item in items} == {"reference", "candidate", "both", "neither"}


def test_written_reasoning_is_used_as_it_is(ours: list[Dialogue], items: list[Item]) -> None:
    written = {
        u.reasoning.emotion
        for d in ours
        if d.helpful is not False and not d.crisis
        for u in d.utterances
        if u.reasoning
    }
    true = {item.reference_reasoning.emotion.text for item in items if item.reference_reasoning}
    assert len(written & true) >= 0.9 * len(written)
    for item in items:  # it trades as a whole: half of it behind another conclusion would not be a thought
        wrong = item.trace["silver"].get("emotion", {}).get("wrong")
        if wrong not in (None, "whole") and item.reference_reasoning:
            assert item.reference_reasoning.emotion.text not in written


def test_crisis_dialogues_are_left_out_unless_asked_for(ours: list[Dialogue], items: list[Item]) -> None:
    marked = {d.id for d in ours if d.crisis}
    assert marked and not marked & {item.dialogue for item in items}
    unmarked = msgspec.structs.replace(next(d for d in ours if d.crisis and d.language == "en"), crisis=False)
    assert not list(build_silver([unmarked]))  # found by its words
    assert all(item.crisis for item in build_silver([unmarked], crisis=True))


def test_the_same_seed_gives_the_same_items_and_another_others(ours: list[Dialogue], items: list[Item]) -> None:
    assert list(build_silver(ours)) == items
    other = list(build_silver(ours, seed=1))
    assert [i.id for i in other] != [i.id for i in items] or other != items
    assert sum(a.labels != b.labels for a, b in zip(sorted(other, key=_id), sorted(items, key=_id), strict=True)) > 50


def _id(item: Item) -> str:
    return item.id


def test_fewer_rounds_and_fewer_items(ours: list[Dialogue]) -> None:
    two = list(build_silver(ours, per_dialogue=2))
    assert max(Counter((i.dialogue, i.round) for i in two).values()) <= 2  # failed rounds make two items
    assert max(len({i.round for i in two if i.dialogue == d.id}) for d in ours) <= 2
    assert len(list(build_silver(ours, n_items=100))) == 100
    assert all(all((i.labels.history, i.labels.emotion, i.labels.strategy)) for i in build_silver(ours, false_rate=0.0))


def test_what_cannot_be_built_is_said(ours: list[Dialogue]) -> None:
    with pytest.raises(ValueError, match="is the id of 2 dialogues"):
        list(build_silver([ours[0], ours[0]]))
    with pytest.raises(ValueError, match=r"between 0 and 0\.5"):
        list(build_silver(ours, false_rate=0.9))
    assert list(build_silver([])) == []


def test_alone_there_is_nobody_to_trade_with(ours: list[Dialogue]) -> None:
    alone = list(build_silver([next(d for d in ours if not d.crisis and d.helpful)]))
    assert alone and all(i.labels.history and i.labels.emotion and i.labels.strategy for i in alone)


def test_a_moment_needs_words_labels_and_a_past() -> None:
    def dialogue(*said: tuple[str, str, str | None], emotion: str | None = "sadness") -> Dialogue:
        turns = tuple(
            Utterance(speaker="seeker" if who == "s" else "supporter", text=text, strategy=strategy)
            for who, text, strategy in said
        )
        return Dialogue(
            id="d", source="t", licence="CC0", language="en", utterances=turns, emotion=emotion, intensity=5
        )

    long = "my dad died in march and i still set a plate for him"
    assert not list(moments(dialogue(("r", "Hello, how are you?", "others")), None, 0))
    assert not list(moments(dialogue(("s", "hi", None), ("r", "Hello!", "others")), None, 0))
    assert not list(moments(dialogue(("s", long, None), ("r", "Oh.", None)), None, 0))
    assert not list(moments(dialogue(("s", long, None), ("r", "Oh.", "others"), emotion=None), None, 0))
    (moment,) = moments(dialogue(("s", long, None), ("r", "Still?", "question"), ("r", "I see.", "others")), None, 0)
    assert (moment.strategy, moment.strategies) == ("question", ("question", "others"))
    assert moment.intensity == 5 and moment.derived["intensity"] == "between first and last survey score"


def test_leakage_finds_what_gives_itself_away(items: list[Item]) -> None:
    """The check itself must be able to fail: a word that only wrong steps hold is found."""

    def marked(item: Item) -> Item:
        assert item.candidate and item.candidate.reasoning
        emotion = item.candidate.reasoning.emotion
        text = emotion.text + (" Surely." if item.labels.emotion else " Perhaps.")
        reasoning = msgspec.structs.replace(
            item.candidate.reasoning, emotion=msgspec.structs.replace(emotion, text=text)
        )
        return msgspec.structs.replace(item, candidate=msgspec.structs.replace(item.candidate, reasoning=reasoning))

    english = [item for item in items if item.language == "en"]
    leakage = text_only([marked(item) for item in english])
    assert leakage.emotion > 0.8
    assert 0.3 <= text_only(english).history <= 0.7


def test_every_strategy_can_be_thought(items: list[Item]) -> None:
    assert {i.reference_reasoning.strategy.strategy for i in items if i.reference_reasoning} == set(STRATEGIES.ids)
