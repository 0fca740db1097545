"""Equation 1: the formula, a million draws against it, and what holds for every dialogue."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compeer.cer.item import Item, items_at
from compeer.cer.sample import STAGE, round_probabilities, sample, sample_rounds
from compeer.dialogue import Dialogue, Speaker, Utterance
from compeer.pipeline.stage import Reject, Tools


def dialogue(speakers: str, name: str = "d") -> Dialogue:
    """`speakers`: s for the seeker, r for who responds."""
    sides: dict[str, Speaker] = {"s": "seeker", "r": "supporter"}
    said = tuple(Utterance(speaker=sides[one], text=f"utterance {n}") for n, one in enumerate(speakers))
    return Dialogue(id=name, source="test", licence="CC0 1.0", language="en", utterances=said)


def chi_square(observed: Counter[int], expected: list[float]) -> float:
    """The p-value."""
    from scipy.stats import chisquare

    total = observed.total()
    counts = [observed[i] for i in range(1, len(expected) + 1)]
    return float(chisquare(counts, [p * total for p in expected]).pvalue)


def test_formula_as_printed() -> None:
    n, mu, sigma = 9, 4.5, 2.25
    weights = [math.exp(-((i - mu) ** 2) / (2 * sigma**2)) for i in range(1, n + 1)]
    assert round_probabilities(n) == pytest.approx([w / sum(weights) for w in weights], rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 44, 1_000, 100_000])
def test_probabilities_of_any_length(n: int) -> None:
    p = round_probabilities(n)
    assert len(p) == n
    assert math.fsum(p) == pytest.approx(1.0, abs=1e-12)
    assert all(math.isfinite(one) and one > 0 for one in p)
    # no round is ever less than e^-2 as likely as the likeliest: the first and last are rare, not lost
    assert min(p) / max(p) >= math.exp(-2) - 1e-12
    assert p.index(max(p)) + 1 in {n // 2, (n + 1) // 2, 1}


def test_nothing_to_draw_from() -> None:
    assert round_probabilities(0) == []
    assert sample_rounds(0, 3, Random(0)) == []
    assert sample_rounds(1, 1, Random(0)) == [1]
    assert sample_rounds(5, 0, Random(0)) == []
    with pytest.raises(ValueError):
        round_probabilities(-1)
    for n_rounds, n_samples in ((-1, 1), (3, -1)):
        with pytest.raises(ValueError):
            sample_rounds(n_rounds, n_samples, Random(0))


def test_a_million_single_draws() -> None:
    rng, n = Random(20240607), 12
    drawn = Counter(sample_rounds(n, 1, rng)[0] for _ in range(1_000_000))
    assert set(drawn) == set(range(1, n + 1))
    assert chi_square(drawn, round_probabilities(n)) > 0.001


@pytest.mark.parametrize("n", [2, 5, 30])
def test_single_draws_of_other_lengths(n: int) -> None:
    rng = Random(n)
    drawn = Counter(sample_rounds(n, 1, rng)[0] for _ in range(100_000))
    assert chi_square(drawn, round_probabilities(n)) > 0.001


def test_a_wrong_formula_would_be_noticed() -> None:
    """The test has teeth: the symmetric centre (N + 1) / 2 is told from the printed N / 2."""
    rng, n = Random(1), 12
    drawn = Counter(sample_rounds(n, 1, rng)[0] for _ in range(100_000))
    symmetric = [math.exp(-((i - 6.5) ** 2) / 18) for i in range(1, n + 1)]
    assert chi_square(drawn, [w / sum(symmetric) for w in symmetric]) < 1e-6


def test_pairs_follow_successive_draws() -> None:
    """P({i, j}) = p_i p_j / (1 - p_i) + p_j p_i / (1 - p_j): without replacement, renormalised."""
    rng, n = Random(3), 6
    p = round_probabilities(n)
    pairs = [(i, j) for i in range(1, n + 1) for j in range(i + 1, n + 1)]
    expected = [p[i - 1] * p[j - 1] / (1 - p[i - 1]) + p[j - 1] * p[i - 1] / (1 - p[j - 1]) for i, j in pairs]
    drawn = Counter(pairs.index((i, j)) + 1 for i, j in (sample_rounds(n, 2, rng) for _ in range(150_000)))
    assert chi_square(drawn, expected) > 0.001


def test_rounds_before_the_first_have_no_chance_and_the_rest_keep_their_proportions() -> None:
    rng, n, first = Random(4), 8, 3
    drawn = Counter(sample_rounds(n, 1, rng, first)[0] - first + 1 for _ in range(100_000))
    p = round_probabilities(n)[first - 1 :]
    assert chi_square(drawn, [one / sum(p) for one in p]) > 0.001


@given(n=st.integers(0, 60), k=st.integers(0, 70), seed=st.integers())
def test_different_ascending_and_within_bounds(n: int, k: int, seed: int) -> None:
    drawn = sample_rounds(n, k, Random(seed))
    assert len(drawn) == min(n, k)
    assert drawn == sorted(set(drawn))
    assert all(1 <= i <= n for i in drawn)
    assert drawn == sample_rounds(n, k, Random(seed))
    if k >= n:
        assert drawn == list(range(1, n + 1))


class AlmostOne(Random):
    """The largest value `random` can give: a sum that rounds up must not lead past the last round."""

    def random(self) -> float:
        return 1 - 2**-53


def test_the_largest_random_number() -> None:
    for n in range(2, 200):
        assert sample_rounds(n, n - 1, AlmostOne()) == list(range(2, n + 1))


def run_sample(one: Dialogue, seed: int = 0, **options: int) -> list[Item] | Reject:
    return asyncio.run(sample(one, Tools(seed=seed, options=options)))


def test_stage_makes_items() -> None:
    items = run_sample(dialogue("srsrsrsrsrsr"), n_samples=2)
    assert isinstance(items, list) and len(items) == 2
    assert items == run_sample(dialogue("srsrsrsrsrsr"), n_samples=2)
    for item in items:
        assert item.id == f"d#{item.round}" and len(item.history) == 2 * item.round - 1
        assert item.history[-1].speaker == "seeker"
        assert item.reference == f"utterance {2 * item.round - 1}"
    assert STAGE.reads is Dialogue and STAGE.writes is Item


def test_a_supporter_who_opens_is_not_asked_of_a_model() -> None:
    for seed in range(30):
        items = run_sample(dialogue("rsrsr"), seed=seed, n_samples=2)
        assert isinstance(items, list)
        assert [item.round for item in items] == [2, 3]
    only = run_sample(dialogue("r"))
    assert isinstance(only, Reject) and only.reason == "no-round"
    everything = run_sample(dialogue("rsrsr"), min_history=0)
    assert isinstance(everything, list) and [item.round for item in everything] == [1, 2, 3]
    late = run_sample(dialogue("srsrsr"), min_history=4)
    assert isinstance(late, list) and [item.round for item in late] == [3]


@pytest.mark.parametrize("index", [0, 3, -1])
def test_there_is_no_such_round(index: int) -> None:
    with pytest.raises(IndexError, match=f"d has 2 rounds; there is no round {index}"):
        items_at(dialogue("rsr"), [index])


def test_draws_depend_on_seed_and_dialogue_alone() -> None:
    rounds = {
        (seed, name): tuple(item.round for item in items)
        for seed in range(6)
        for name in ("a", "b", "c")
        if isinstance(items := run_sample(dialogue("sr" * 20, name), seed=seed), list)
    }
    assert len(set(rounds.values())) > 10


def test_unknown_options_are_named() -> None:
    with pytest.raises(msgspec.ValidationError, match="n_sample"):
        run_sample(dialogue("srsr"), n_sample=2)


def test_pictures_beside_the_dialogues_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.command import compeer

    (tmp_path / "corpus/frames").mkdir(parents=True)
    (tmp_path / "corpus/frames/a.png").write_bytes(b"")
    said = [{"speaker": "seeker", "text": "Look.", "images": ["frames/a.png", "https://x.org/b.png"]},
            {"speaker": "supporter", "text": "I see."}]  # fmt: skip
    row = {"id": "d", "source": "s", "licence": "CC0", "language": "en", "utterances": said}
    (tmp_path / "corpus/own.jsonl").write_text(json.dumps(row) + "\n")
    whole = [str(tmp_path / "corpus/frames/a.png"), "https://x.org/b.png"]
    monkeypatch.chdir(tmp_path)
    for source, words in (("corpus/own.jsonl", ["cer", "sample"]), ("corpus/own.jsonl", ["corpus", "import", "plain"])):
        out = tmp_path / f"{words[0]}.jsonl"
        done = compeer(*words, source, "--out", str(out))
        assert done.returncode == 0, done.stderr
        row = json.loads(out.read_text().splitlines()[0])
        assert (row.get("history") or row["utterances"])[0]["images"] == whole
