"""The silver set of ESConv train: as large, as balanced, as varied and as hard to guess as it has to be."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from compeer.cer.item import Item
from compeer.cer.silver import build_silver, text_only
from compeer.cer.silver.steps import family
from compeer.corpora import load
from compeer.dialogue import Dialogue
from compeer.reasoning import parse, render
from compeer.reasoning.schema import LABELS, STEPS

pytest.importorskip("sklearn", reason="silver labels need scikit-learn: pip install '.[data]'")
FOLDER = Path(os.environ.get("COMPEER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "esconv"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"ESConv is not at {FOLDER}; set COMPEER_DATA to the folder of corpora"
)


def corpus(name: str, **options: str) -> list[Dialogue]:
    return [d for d in load(name, FOLDER, **options) if isinstance(d, Dialogue)]


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """Nine rounds a dialogue; with all of them there would be 10,701 items, and the test would take longer."""
    return list(build_silver(corpus("esconv", split="train"), corpus("failed_esconv"), per_dialogue=9))


@pytest.fixture(scope="module")
def esconv(items: list[Item]) -> list[Item]:
    return [item for item in items if item.source == "esconv"]


def steps(items: list[Item]) -> Iterator[tuple[Item, str, str]]:
    """Item, step, and the text of the candidate's step."""
    for item in items:
        assert item.candidate and item.candidate.reasoning
        for step in STEPS:
            yield item, step, item.candidate.reasoning.text(step)


def test_at_least_seven_thousand_items_each_with_its_own_id(items: list[Item], esconv: list[Item]) -> None:
    assert len(esconv) >= 7000
    assert len({item.id for item in items}) == len(items)
    assert {item.label_source for item in items} == {"silver"}


@pytest.mark.parametrize("step", STEPS)
def test_between_20_and_26_percent_of_each_step_are_false(step: str, items: list[Item], esconv: list[Item]) -> None:
    for some in (items, esconv):
        assert 0.20 <= sum(getattr(item.labels, step) is False for item in some) / len(some) <= 0.26


def test_all_four_preferences_occur_and_candidates_win_only_against_failed_references(items: list[Item]) -> None:
    share = {name: count / len(items) for name, count in Counter(item.labels.preference for item in items).items()}
    assert set(share) == {"reference", "candidate", "both", "neither"}
    assert min(share.values()) >= 0.05
    assert {i.source for i in items if i.labels.preference in ("candidate", "neither")} == {"failed_esconv"}
    assert {i.source for i in items if i.labels.preference in ("reference", "both")} == {"esconv"}


def test_text_alone_tells_nothing(items: list[Item]) -> None:
    leakage = text_only(items)
    assert max(leakage.history, leakage.emotion, leakage.strategy) <= 0.55
    assert leakage.reply <= 0.65


def test_every_candidate_and_every_reference_is_complete(items: list[Item]) -> None:
    for item in items:
        assert item.candidate and item.candidate.reasoning
        parsed = parse(render(item.candidate.reasoning, item.candidate.response))
        assert parsed.complete and parsed.reasoning == item.candidate.reasoning
        if item.reference_reasoning:  # what a policy can learn from
            assert parse(render(item.reference_reasoning, item.reference)).complete
    assert all((item.reference_reasoning is None) == (item.source == "failed_esconv") for item in items)


def test_a_true_step_is_the_reference_step_and_a_false_one_is_not(esconv: list[Item]) -> None:
    for item, step, text in steps(esconv):
        assert item.candidate and item.candidate.reasoning and item.reference_reasoning
        same = text == item.reference_reasoning.text(step) and all(
            item.candidate.reasoning.label(label) == item.reference_reasoning.label(label) for label in LABELS[step]
        )
        assert same is getattr(item.labels, step), (item.id, step)


def test_what_is_wrong_is_wrong_by_the_labels(esconv: list[Item]) -> None:
    for item in esconv:
        assert item.candidate and item.candidate.reasoning and item.reference_reasoning
        said, true, trace = item.candidate.reasoning, item.reference_reasoning, item.trace["silver"]
        if not item.labels.strategy:
            assert said.strategy.strategy not in item.reference_strategies
        if not item.labels.emotion:
            assert family(said.emotion.emotion) != family(true.emotion.emotion)
        if not item.labels.history and trace["history"]["wrong"] == "stage":
            assert said.history.stage != true.history.stage


def test_labels_are_as_frequent_among_the_false_as_among_the_true(esconv: list[Item]) -> None:
    for step in STEPS:
        for label in LABELS[step]:
            counts: dict[bool, Counter[str | int]] = {True: Counter(), False: Counter()}
            for item in esconv:
                assert item.candidate and item.candidate.reasoning
                counts[bool(getattr(item.labels, step))][item.candidate.reasoning.label(label)] += 1
            shares = {right: {v: n / count.total() for v, n in count.items()} for right, count in counts.items()}
            apart = sum(abs(shares[True].get(v, 0) - shares[False].get(v, 0)) for v in counts[True] | counts[False])
            assert apart / 2 <= 0.05, (label, shares)


def test_thinking_does_not_repeat_itself(items: list[Item]) -> None:
    for step in STEPS:
        texts = [text for _, one, text in steps(items) if one == step]
        openings = Counter(" ".join(text.lower().split()[:3]) for text in texts)
        opening, count = openings.most_common(1)[0]
        assert count / len(texts) <= 0.02, opening
        assert len(set(texts)) >= 0.98 * len(texts)
        sample = [text.lower().split() for text in texts[:: len(texts) // 500]]
        pairs = Counter(pair for words in sample for pair in pairwise(words))
        assert len(pairs) / pairs.total() >= 0.33, step  # ESConv's own replies reach 0.6 at that length


def test_a_step_is_one_paragraph_of_one_to_four_sentences(items: list[Item]) -> None:
    for item, step, text in steps(items):
        unquoted = re.sub(r'"[^"]*"', "…", text)
        assert 1 <= len(re.findall(r"[.!?](?=\s|$)", unquoted)) <= 4, (item.id, step, text)
        assert not re.search(r"[<>\n]", text)


def test_nothing_is_quoted_that_had_not_been_said(esconv: list[Item]) -> None:
    quoted = 0
    for item in esconv:
        assert item.reference_reasoning
        said = " ".join(" ".join(turn.text for turn in item.history if turn.speaker == "seeker").split()).lower()
        for step in STEPS:
            for quote in re.findall(r'"([^"]+)"', item.reference_reasoning.text(step)):
                quoted += 1
                assert quote.lower() in said, (item.id, quote)
    assert quoted > len(esconv)


def test_licence_and_origin_are_kept(items: list[Item]) -> None:
    assert {(item.source, item.licence) for item in items} == {
        ("esconv", "CC BY-NC 4.0"),
        ("failed_esconv", "academic research use"),
    }
    kinds: dict[str, Counter[str]] = {step: Counter() for step in STEPS}
    for item in items:
        trace = item.trace["silver"]
        assert {"stage", "emotion", "intensity"} <= set(trace["labels_from"])
        assert trace["reply"]["kind"]
        assert item.candidate and item.candidate.response != item.reference
        for step in STEPS:
            assert (step in trace) == (getattr(item.labels, step) is False)
            if step in trace:
                kinds[step][trace[step]["wrong"]] += 1
                assert trace[step]["from"].split("#")[0] != item.dialogue
    # some can be seen from what was never said here, some only by reading
    for counts in kinds.values():
        assert min(counts.values()) >= 0.05 * counts.total() and len(counts) >= 2
        assert 0.25 <= counts["whole"] / counts.total() <= 0.5
