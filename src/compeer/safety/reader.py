"""A small BERT read with numpy alone: pieces of words, a few layers, a sum for each kind of message.

Two networks are shipped, English (from all-MiniLM-L6-v2) and Chinese (from m3e-small), each tuned on the examples
(`tuning`). Their weights are whole numbers from -31 to 31 with a scale a row, so that they can be compressed to some
five bits each. Words are cut as BERT cuts them; the vocabulary holds what the language needs.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

KINDS = ("none", "indirect", "explicit", "method", "third", "past", "danger")
LONGEST = 128  # pieces that are read of a text
_LONGEST_WORD = 60
_SLOPE = math.sqrt(2 / math.pi)


class Reader:
    """The network of one language. `reader(text)` is one sum for each of `KINDS`."""

    def __init__(self, stored: Any) -> None:
        vocabulary = bytes(stored["vocabulary"]).decode().split("\n")
        self.vocabulary = {piece: place for place, piece in enumerate(vocabulary)}
        self.heads = int(stored["heads"])
        self.weights = {
            name: (whole(stored[name], stored[f"{name}#"]) if f"{name}#" in stored else stored[name].astype(np.float32))
            for name in stored.files
            if name not in ("vocabulary", "heads") and not name.endswith("#")
        }
        for name, value in self.weights.items():
            if name.endswith("_w") and value.ndim == 2:
                self.weights[name] = np.ascontiguousarray(value.T)
        self.depth = max(int(name.split("_")[0]) for name in self.weights if name[0].isdigit()) + 1

    def __call__(self, text: str) -> Any:
        pieces = cut(text, self.vocabulary)
        weights, width = self.weights, self.weights["words"].shape[1]
        values = self._norm(weights["words"][pieces] + weights["places"][: len(pieces)], "norm")
        for layer in range(self.depth):
            parts = self._linear(values, f"{layer}_qkv").reshape(len(pieces), 3, self.heads, width // self.heads)
            query, key, value = parts.transpose(1, 2, 0, 3)
            close = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(width // self.heads))
            close = np.exp(close - close.max(axis=-1, keepdims=True))
            seen = (close / close.sum(axis=-1, keepdims=True)) @ value
            seen = self._linear(seen.transpose(1, 0, 2).reshape(len(pieces), width), f"{layer}_out")
            values = self._norm(values + seen, f"{layer}_norm1")
            inner = _gelu(self._linear(values, f"{layer}_up"))
            values = self._norm(values + self._linear(inner, f"{layer}_down"), f"{layer}_norm2")
        return self._linear(values.mean(axis=0), "head")

    def _linear(self, values: Any, name: str) -> Any:
        return values @ self.weights[f"{name}_w"] + self.weights[f"{name}_b"]

    def _norm(self, values: Any, name: str) -> Any:
        values = values - values.mean(axis=-1, keepdims=True)
        values /= np.sqrt((values * values).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return values * self.weights[f"{name}_w"] + self.weights[f"{name}_b"]


def risk(sums: Any) -> float:
    """What the risky kinds together have over "none"."""
    return float(np.logaddexp.reduce(sums[1:]) - sums[0])


@cache
def reader(language: str) -> Reader | None:
    """The shipped network of a language; None where its file is not there."""
    file = resources.files("compeer.safety") / "words" / f"meaning_{language}.npz"
    if not file.is_file():
        return None
    with file.open("rb") as opened, np.load(opened) as stored:
        return Reader(stored)


def cut(text: str, vocabulary: dict[str, int]) -> list[int]:
    """A text as places in a vocabulary, with BERT's marks around it.

    >>> cut("unheard of", {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "un": 3, "##heard": 4, "of": 5})
    [0, 3, 4, 5, 1]
    """
    found = [vocabulary["[CLS]"]]
    for word in words(text):
        found += _pieces(word, vocabulary)
        if len(found) >= LONGEST - 1:
            break
    return [*found[: LONGEST - 1], vocabulary["[SEP]"]]


def words(text: str) -> Iterator[str]:
    """Words, signs and Chinese characters, in small letters and without accents.

    >>> list(words("Café, 我累"))
    ['cafe', ',', '我', '累']
    """
    word = ""
    for sign in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(sign)
        if kind == "Mn" or (kind in ("Cc", "Cf") and not sign.isspace()):
            continue
        alone = kind[0] == "P" or "\u3400" <= sign <= "\u9fff" or (sign.isascii() and kind[0] == "S")
        if (alone or sign.isspace()) and word:
            yield word
            word = ""
        if alone:
            yield sign
        elif not sign.isspace():
            word += sign
    if word:
        yield word


def _pieces(word: str, vocabulary: dict[str, int]) -> Sequence[int]:
    """The longest pieces of the vocabulary that make up a word; unknown as a whole where they do not."""
    found: list[int] = []
    start = 0
    while start < len(word):
        for end in range(len(word) if len(word) <= _LONGEST_WORD else start, start, -1):
            place = vocabulary.get(word[start:end] if start == 0 else f"##{word[start:end]}")
            if place is not None:
                found.append(place)
                start = end
                break
        else:
            return (vocabulary["[UNK]"],)
    return found


def whole(numbers: Any, scales: Any) -> Any:
    """Weights from whole numbers and a scale a row."""
    return numbers.astype(np.float32) * scales.astype(np.float32)


def _gelu(values: Any) -> Any:
    return 0.5 * values * (1 + np.tanh(np.float32(_SLOPE) * (values + np.float32(0.044715) * values * values * values)))
