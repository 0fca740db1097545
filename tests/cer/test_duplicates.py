"""MinHash against sets whose overlap is known, and the rules of who stays."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compeer.cer.duplicates import MINIMA, Signatures, bands, signatures
from compeer.reasoning.ontology import words

WORDS = [f"word{n}" for n in range(20_000)]


def jaccard(one: str, other: str) -> float:
    """By definition, on sets of shingles."""
    a, b = (
        {tuple(said[n : n + 3]) for n in range(max(1, len(said) - 2))}
        for said in (words(one.lower()), words(other.lower()))
    )
    return len(a & b) / len(a | b)


def pair(rng: random.Random, length: int, changed: int) -> tuple[str, str]:
    """Two texts of `length` words that differ in `changed` words, no two of them near each other."""
    said = rng.sample(WORDS, length)
    other = list(said)
    for place in rng.sample(range(1, length // 3), changed):
        other[place * 3] = f"new{rng.randrange(10**9)}"
    return " ".join(said), " ".join(other)


def estimate(one: str, other: str) -> float:
    _, minima = signatures([one, other])
    return float((minima[0] == minima[1]).mean())


@pytest.mark.parametrize("changed", [0, 1, 2, 4, 8, 16])
def test_estimates_are_unbiased_and_as_sharp_as_theory_says(changed: int) -> None:
    rng = random.Random(changed)
    errors = []
    for _ in range(150):
        one, other = pair(rng, 90, changed)
        errors.append(estimate(one, other) - jaccard(one, other))
    true = jaccard(one, other)  # the same for every pair made so
    sigma = (true * (1 - true) / MINIMA) ** 0.5
    assert abs(np.mean(errors)) <= 4 * sigma / 150**0.5
    assert np.std(errors) <= 1.25 * sigma + 1e-9


def test_disjoint_texts_share_nothing() -> None:
    assert estimate(" ".join(WORDS[:200]), " ".join(WORDS[200:400])) < 0.02


@given(st.text(max_size=80), st.text(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_text_at_all(one: str, other: str) -> None:
    some, minima = signatures([one, other, one])
    assert minima.shape == (len(some), MINIMA)
    assert (0 in some) == (2 in some)
    if 0 in some:
        assert (minima[some.index(0)] == minima[some.index(2)]).all()


def test_a_text_does_not_leak_into_its_neighbours() -> None:
    texts = ["one two three four five", "", "a b", "我很累", "...", "six", "seven eight nine ten"]
    some, together = signatures(texts)
    assert some == [0, 2, 3, 5, 6]
    for row, number in zip(together, some, strict=True):
        assert (signatures([texts[number]])[1][0] == row).all()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("I can't sleep at night", "i CAN'T   sleep, at night!", True),
        ("ＡＢＣ ｄｅｆ ghi", "abc def GHI", True),
        ("我最近总是睡不着觉", "我最近，总是睡不着觉。", True),
        ("我最近总是睡不着觉", "我最近总是睡得很好", False),
        ("a b c d e f", "f e d c b a", False),
        ("ab c", "a bc", False),
        ("no", "yes", False),
    ],
)
def test_what_counts_as_the_same_words(one: str, other: str, same: bool) -> None:
    assert (estimate(one, other) == 1.0) is same


def test_recall_and_precision_on_known_overlap() -> None:
    rng = random.Random(5)
    corpus: list[tuple[str, str]] = []
    similar: set[str] = set()
    different: set[str] = set()
    for n in range(1_500):
        one, other = pair(rng, 90, rng.choice([1, 2, 8, 12]))
        corpus += [(f"{n}a", one), (f"{n}b", other)]
        (similar if jaccard(one, other) >= 0.85 else different).add(f"{n}b")
    found = {one.id: one for one in Signatures(corpus).near_duplicates()}
    assert len(similar & found.keys()) >= 0.99 * len(similar)
    assert not different & found.keys()
    assert all(one.kept == one.id[:-1] + "a" and 0.8 <= one.similarity <= 1 for one in found.values())


def test_chinese() -> None:
    rng = random.Random(6)
    signs = [chr(code) for code in range(0x4E00, 0x5E00)]
    text = "".join(rng.choices(signs, k=200))
    corpus = [("a", text), ("b", "".join(rng.choices(signs, k=200))), ("c", text[:100] + "，" + text[100:-2] + "了啊")]
    assert [(one.id, one.kept) for one in Signatures(corpus).near_duplicates()] == [("c", "a")]


@pytest.mark.parametrize("threshold", [0.6, 0.7, 0.8, 0.9, 1.0])
def test_bands_find_a_pair_at_the_threshold(threshold: float) -> None:
    n = bands(threshold)
    assert 1 - (1 - threshold ** (MINIMA // n)) ** n >= 0.99


def test_a_threshold_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match=r"0\.5"):
        Signatures([]).near_duplicates(0.1)


def test_nothing_and_texts_without_words() -> None:
    assert Signatures([]).near_duplicates() == []
    assert Signatures([("a", ""), ("b", "..."), ("c", ""), ("d", "word")]).near_duplicates() == []


def drifting(rng: random.Random, steps: int) -> list[tuple[str, str]]:
    """A chain: each text is close to the one before, the ends have nothing in common."""
    said = rng.sample(WORDS, 90)
    chain = []
    for n in range(steps):
        chain.append((str(n), " ".join(said)))
        said = [*said[4:], *(f"new{rng.randrange(10**9)}" for _ in range(4))]
    return chain


def test_who_goes_is_like_the_one_who_stays_and_who_stays_is_like_no_one() -> None:
    rng = random.Random(7)
    corpus = [(f"{n}/{name}", text) for n in range(40) for name, text in drifting(rng, 25)]
    rng.shuffle(corpus)
    found = Signatures(corpus).near_duplicates()
    gone = {one.id for one in found}
    order = {name: n for n, (name, _) in enumerate(corpus)}
    assert gone and not gone & {one.kept for one in found}
    assert all(order[one.kept] < order[one.id] for one in found), "the first stays"
    texts = dict(corpus)
    for one in found:
        assert one.similarity >= 0.8
        assert abs(jaccard(texts[one.id], texts[one.kept]) - one.similarity) < 0.12
    staying = [name for name in texts if name not in gone]
    _, minima = signatures([texts[name] for name in staying])
    for n in range(len(staying)):
        alike = (minima[n] == minima[n + 1 :]).mean(axis=1)
        assert not (alike >= 0.86).any(), "beyond doubt of the bands, nobody who stays has a twin"
    assert Signatures(corpus).near_duplicates() == found


def test_a_corpus_from_one_template_does_not_take_for_ever() -> None:
    """Texts that share bands with thousands of others and are no duplicates: comparing all pairs would be quadratic."""
    rng = random.Random(8)
    frame = rng.sample(WORDS, 60)
    corpus = []
    for n in range(8_000):
        said = list(frame)
        for place in range(0, 60, 12):
            said[place] = f"new{rng.randrange(10**9)}"
        corpus.append((str(n), " ".join(said)))
    started = time.process_time()
    found = Signatures(corpus).near_duplicates()
    assert time.process_time() - started < 30
    assert len(found) < 800
