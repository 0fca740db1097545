"""The network in numpy: words are cut as BERT cuts them, and it says what torch says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compeer.safety.reader import KINDS, Reader, cut, reader, risk, words

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "i", "我", "累", ",")


def drawn(depth: int = 4, width: int = 8, heads: int = 2) -> dict[str, Any]:
    """A network as `tuning` starts from, of random weights."""
    chance = np.random.default_rng(0)
    named = {"words": (len(VOCABULARY), width), "places": (128, width), "norm.w": (width,), "norm.b": (width,)}
    for layer in range(depth):
        for part, (out, into) in {
            "qkv": (3 * width, width),
            "out": (width, width),
            "up": (4 * width, width),
            "down": (width, 4 * width),
        }.items():
            named |= {f"{layer}.{part}.w": (out, into), f"{layer}.{part}.b": (out,)}
        named |= {f"{layer}.norm{one}.{part}": (width,) for one in (1, 2) for part in "wb"}
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in named.items()}


def test_words_are_cut_into_the_longest_known_pieces() -> None:
    places = {piece: place for place, piece in enumerate(VOCABULARY)}
    assert cut("The CATS, the dog", places) == [2, 4, 5, 6, 10, 4, 1, 3]
    assert cut("我 累", places) == [2, 8, 9, 3]
    assert cut("", places) == [2, 3]
    assert len(cut("the " * 1000, places)) == 128
    assert list(words("naïve\u200b e-mail 好")) == ["naive", "e", "-", "mail", "好"]


def test_numpy_says_what_torch_says(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from compeer.safety import tuning

    network = tuning.Network(drawn(), heads=2, kinds=len(KINDS)).eval()
    arrays = {name: value.detach().numpy() for name, value in network.weights.items()}
    vocabulary = np.frombuffer("\n".join(VOCABULARY).encode(), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", vocabulary=vocabulary, heads=np.array(2), **arrays)
    with np.load(tmp_path / "x.npz") as stored:
        numpy = Reader(stored)("the cats, i")
    pieces = torch.tensor([[2, 4, 5, 6, 10, 7, 3, 0, 0]])
    there = torch.tensor([[1.0] * 7 + [0.0] * 2])  # a longer message stood beside it
    with torch.no_grad():
        sums = network(network.below(pieces, there), there)
    assert np.allclose(numpy, sums[0].numpy(), atol=1e-4)
    assert risk(numpy) == pytest.approx(float(tuning.risk(sums)[0]), abs=1e-4)


def test_a_network_is_tuned_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from compeer.safety import tuning

    kinds = np.array([0, 1] * 20)
    pieces = np.concatenate([[2, 4 if kind else 7, 5, 3] for kind in kinds])
    np.savez(
        tmp_path / "en.npz",
        pieces=pieces.astype(np.int32),
        starts=np.arange(0, 4 * len(kinds) + 1, 4),
        kinds=kinds,
        writers=np.array(["one"] * 20 + ["two"] * 10 + ["three"] * 6 + ["four"] * 4),
        heads=np.array(2),
        vocabulary=np.frombuffer("\n".join(VOCABULARY).encode(), dtype=np.uint8),
        **{f"start {name}": value for name, value in drawn().items()},
    )
    tuning.run(tmp_path, "en", "two", "three,four")
    with np.load(tmp_path / "en.first.npz") as stored:
        assert list(stored["rows"]) == list(range(20, 30)) and stored["heard"].shape == (10, 2)
    with np.load(tmp_path / "en.tuned.npz") as stored:
        before = Reader(stored)("the cat")
    tuning.further(tmp_path, "en", "three,four")
    with np.load(tmp_path / "en.heard.npz") as stored:
        assert list(stored["rows"]) == list(range(30, 40)) and stored["heard"].shape == (10, 2)
        assert np.isfinite(stored["heard"]).all() and len(np.unique(stored["heard"][:, 0])) > 1
    with np.load(tmp_path / "en.further.npz") as stored:
        after = Reader(stored)("the cat")
    assert before.shape == after.shape == (2,) and not np.allclose(before, after)


def test_whole_numbers_hardly_change_a_weight() -> None:
    pytest.importorskip("torch")
    from compeer.safety import tuning

    weights = np.random.default_rng(0).normal(size=(200, 64))
    numbers, scales = tuning.in_steps(weights)
    assert numbers.dtype == np.int8 and np.abs(numbers).max() == tuning.STEPS
    assert np.abs(numbers * scales - weights).max() <= scales.max() / 2 + 1e-6


@pytest.mark.parametrize(
    ("language", "risky", "harmless"),
    [
        (
            "en",
            "i have written the letters and put the cat up for adoption, i wont need anything after friday",
            "my phone died on the train",
        ),
        ("zh", "信都写好了,猫也送人了,周五之后我什么都不需要了", "手机没电了,在地铁上好无聊"),
    ],
)
def test_the_shipped_networks_tell_a_hint_from_small_talk(language: str, risky: str, harmless: str) -> None:
    network = reader(language)
    assert network is not None
    assert risk(network(risky)) > 0 > risk(network(harmless))
