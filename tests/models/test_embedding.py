"""The packaged embedders behind one name, and their memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compeer.errors import UserError
from compeer.models.embedding import Embedder
from compeer.policy.diversity import distinct, self_similarity


def cosine(rows: np.ndarray) -> float:
    return float(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))


def test_alike_sentences_are_near_in_both_languages() -> None:
    embedder = Embedder()
    english, chinese = embedder("en"), embedder("zh")
    assert (
        cosine(english(["I lost my job", "I was fired"])) > cosine(english(["I lost my job", "The soup is hot"])) + 0.2
    )
    assert cosine(chinese(["我丢了工作", "我失业了"])) > cosine(chinese(["我丢了工作", "汤很烫"])) + 0.2
    before = embedder.computed
    english(["I was fired", "The soup is hot"])
    assert embedder.computed == before


def test_the_memory_is_bounded_and_keeps_what_was_used_last() -> None:
    class Counting(Embedder):
        def _function(self, place):  # type: ignore[no-untyped-def]
            return lambda texts: np.ones((len(texts), 2))

    embedder = Counting(memory=3)
    embed = embedder("en")
    embed(["a", "b", "c"])
    embed(["a", "d"])
    embed(["a"])
    assert embedder.computed == 4
    embed(["b"])
    assert embedder.computed == 5


def test_the_memory_can_be_written_down_and_is_the_same_to_the_bit(tmp_path: Path) -> None:
    class Counting(Embedder):
        def _function(self, place):  # type: ignore[no-untyped-def]
            return lambda texts: np.random.default_rng(len(texts)).random((len(texts), 2 if place == "en" else 3))

    first, second = Counting(memory=3), Counting(memory=3)
    first("en")(["a", "b"])
    first("zh")(["我"])
    first("en")(["a"])
    first.save(tmp_path / "vectors.npz")
    second.load(tmp_path / "vectors.npz")
    assert (second("en")(["a", "b"]) == first("en")(["a", "b"])).all() and second.computed == 0
    second("en")(["c"])
    assert second("zh")(["我"]).shape == (1, 3) and second.computed == 2, "what was used last longest ago went first"


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(UserError, match="no-such-folder cannot be loaded"):
        Embedder("./no-such-folder")("en")(["x"])


def test_diversity_of_a_set() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    pairs = (0 + 2 * np.sqrt(0.5)) / 3
    assert self_similarity(["a", "b", "c", " "], lambda texts: [vectors[text] for text in texts]) == pytest.approx(
        pairs
    )
    assert self_similarity(["a"], lambda texts: []) == 0.0
    assert distinct(["我很难过", "我很好"], 2) == pytest.approx(4 / 5)
    assert distinct([], 1) == 0.0
