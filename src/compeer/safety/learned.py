"""A small linear model beside the lexicon: it has read thousands of written examples, and weighs every turn of phrase.

Hints rarely use the words that a lexicon knows ("I've sorted out who gets the cat"). The model sees a message as its
words and their neighbours, and as short runs of letters or Chinese characters; each has a weight, learnt from the
sentences in `examples/` together with what the lexicon found in them (`learning` does that). The sum says how much the
message sounds like the risky examples. A long message is read in pieces, and the worst one counts.

Only numpy is needed to read; a message costs about a millisecond.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from compeer.safety.fold import fold

BUCKETS = 1 << 18
PIECE = {"en": 320, "zh": 120}  # characters that are weighed together
FOUND = 0.5  # how much a finding of the lexicon weighs beside the words, whose squares sum to one
WEIGHTS = "learned.npz"
_WORD = re.compile(r"[a-z0-9]+")
_HAN = re.compile("[\u3400-\u9fff]")
_SENTENCE = re.compile(r"[^.!?。！？;；\n]*[.!?。！？;；\n]*")


class Weighed(msgspec.Struct, frozen=True):
    """The model of one language: its weights, and from which sum on a message is watched."""

    weights: Any  # BUCKETS signed bytes
    scale: float
    bias: float
    watch: float


def grams(text: str, language: str) -> Iterator[str]:
    """What a message is made of, for the model.

    >>> list(grams("我累", "zh"))
    ['我', '累', '我累']
    """
    if language == "zh":
        signs = re.sub(r"\s+", "", text)
        for length in range(1, 5):
            yield from (signs[at : at + length] for at in range(len(signs) - length + 1))
        return
    words = _WORD.findall(text)
    for length in range(1, 4):
        yield from ("w " + " ".join(words[at : at + length]) for at in range(len(words) - length + 1))
    for word in words:
        padded = f" {word} "
        for length in range(3, 6):
            yield from (padded[at : at + length] for at in range(len(padded) - length + 1))


def vector(text: str, language: str, found: Iterable[str] = ()) -> dict[int, float]:
    """Bucket to value: the words' squares sum to one; `found` names what the lexicon saw."""
    counted = Counter(_bucket(gram) for gram in grams(text, language))
    values = {bucket: 1.0 + math.log(count) for bucket, count in counted.items()}
    norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
    values = {bucket: value / norm for bucket, value in values.items()}
    for name in set(found):
        bucket = _bucket(f"lexicon {name}")
        values[bucket] = values.get(bucket, 0.0) + FOUND
    return values


def sounds(text: str, found: Iterable[str] = (), language: str | None = None) -> tuple[float, Weighed] | None:
    """How much a message sounds like risk, and the model that says so; None when there is nothing to read."""
    plain = fold(text).text
    if not (_WORD.search(plain) or _HAN.search(plain)):
        return None
    spoken = "zh" if _HAN.search(plain) else "en"
    if language in ("en", "zh") and spoken != language:
        return None
    model, seen = weighed(spoken), tuple(found)
    return max(_sum(piece, spoken, seen, model) for piece in pieces(plain, PIECE[spoken])), model


def pieces(text: str, size: int) -> list[str]:
    """Whole sentences, as many together as fit into `size`; a longer sentence is a piece of its own.

    >>> pieces("One. Two. Three.", 10)
    ['One. Two.', ' Three.']
    """
    made = [""]
    for sentence in _SENTENCE.findall(text):
        if made[-1] and len(made[-1]) + len(sentence) > size:
            made.append("")
        made[-1] += sentence
    return [piece for piece in made if piece.strip()] or [text]


@cache
def weighed(language: str) -> Weighed:
    """The shipped model of a language."""
    with (resources.files("compeer.safety") / "words" / WEIGHTS).open("rb") as file, np.load(file) as stored:
        scale, bias, watch = (float(value) for value in stored[f"{language}_numbers"])
        return Weighed(stored[f"{language}_weights"], scale, bias, watch)


def _sum(text: str, language: str, found: Iterable[str], model: Weighed) -> float:
    values = vector(text, language, found)
    buckets = np.fromiter(values, dtype=np.int64, count=len(values))
    amounts = np.fromiter(values.values(), dtype=np.float64, count=len(values))
    return float(amounts @ model.weights[buckets].astype(np.float64)) * model.scale + model.bias


def _bucket(gram: str) -> int:
    return zlib.crc32(gram.encode()) % BUCKETS
