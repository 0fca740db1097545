"""A small model beside the lexicon: it has read thousands of written examples, and weighs every turn of phrase.

Hints rarely use the words that a lexicon knows ("I've sorted out who gets the cat"). The model hears a message twice.

    words    its words and their neighbours, short runs of letters or Chinese characters; each has a weight
    meaning  the whole message, read by a small BERT of its language that was tuned for this (`reader`)

Both were learnt from the sentences in `examples/`, the words together with what the lexicon found in them (`learning`
does that). The sum says how much the message sounds like the risky examples; it is the logarithm of the odds, as far as
messages of writers whom the model had not read can tell. A long message is read in pieces, and the worst one counts.
Only numpy is needed; a message costs a millisecond for its words and some ten to thirty for its meaning. Where the file
of a network is missing the words are weighed alone, against a threshold of their own.
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
from compeer.safety.reader import reader, risk

BUCKETS = 1 << 18
PIECE = {"en": 320, "zh": 120}  # characters that are weighed together
# below this sum of its words a message without findings need not be read for its meaning
CLEAR = {"en": -3.5, "zh": -2.5}
SHORTEST = {"en": 2, "zh": 3}  # words or characters: what is shorter ("Hello", "在吗") and has no findings says nothing
FOUND = 0.5  # how much a finding of the lexicon weighs beside the words, whose squares sum to one
WEIGHTS = "learned.npz"
_WORD = re.compile(r"[a-z0-9]+")
_HAN = re.compile("[\u3400-\u9fff]")
_SENTENCE = re.compile(r"[^.!?。！？;；\n]*[.!?。！？;；\n]*")


class Weighed(msgspec.Struct, frozen=True):
    """The model of one language: weights of the words, and which sums mean what, with and without the meaning."""

    weights: Any  # BUCKETS signed bytes
    scale: float
    bias: float
    word_share: float  # of the words' sum
    meaning_share: float
    shift: float
    watch: float  # from here on a message is watched
    plain: float  # below this a message is harmless, where the lexicon found something to watch
    calm: float  # and below this even where it found an emergency
    words_watch: float  # the same, where only the words can be weighed
    words_plain: float
    words_calm: float


class Sounds(msgspec.Struct, frozen=True):
    """How much a message sounds like risk: by its words, by its meaning where that was read, and both together."""

    words: float
    meaning: float | None
    sum: float
    watch: float
    plain: float
    calm: float

    @property
    def risky(self) -> bool:
        return self.sum >= self.watch

    def harmless(self, found: str) -> bool:
        """Plainly so, although the lexicon `found` a level: the higher it is, the plainer the message has to be."""
        return self.sum < (self.calm if found == "high" else self.plain)


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
    """Bucket to value: the words' squares sum to one; `found` names what the lexicon saw (`clues`)."""
    counted = Counter(_bucket(gram) for gram in grams(text, language))
    values = {bucket: 1.0 + math.log(count) for bucket, count in counted.items()}
    norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
    values = {bucket: value / norm for bucket, value in values.items()}
    for name in set(found):
        bucket = _bucket(f"lexicon {name}")
        values[bucket] = values.get(bucket, 0.0) + FOUND
    return values


def sounds(text: str, found: Iterable[str] = (), language: str | None = None) -> Sounds | None:
    """How much a message sounds like risk; None when there is too little to read."""
    plain = fold(text).text
    if not (_WORD.search(plain) or _HAN.search(plain)):
        return None
    spoken = "zh" if _HAN.search(plain) else "en"
    if language in ("en", "zh") and spoken != language:
        return None
    model, seen, network = weighed(spoken), set(found), reader(spoken)
    if not seen and len((_HAN if spoken == "zh" else _WORD).findall(plain)) < SHORTEST[spoken]:
        return None
    given = (model.watch, model.plain, model.calm)
    heard: list[Sounds] = []
    for piece in dict.fromkeys(pieces(plain, PIECE[spoken])):
        words = _sum(piece, spoken, seen, model)
        if network is None:
            bars = (model.words_watch, model.words_plain, model.words_calm)
            heard.append(Sounds(words, None, words, *bars))
        elif not seen - {"idiom"} and words < CLEAR[spoken]:  # what it means has hardly ever outweighed that
            heard.append(Sounds(words, None, -math.inf, *given))
        else:
            meaning = risk(network(piece))
            together = model.word_share * words + model.meaning_share * meaning + model.shift
            heard.append(Sounds(words, meaning, together, *given))
    return max(heard, key=lambda one: (one.sum, one.words))


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


def _sum(text: str, language: str, found: Iterable[str], model: Weighed) -> float:
    values = vector(text, language, found)
    buckets = np.fromiter(values, dtype=np.int64, count=len(values))
    amounts = np.fromiter(values.values(), dtype=np.float64, count=len(values))
    return float(amounts @ model.weights[buckets].astype(np.float64)) * model.scale + model.bias


def _bucket(gram: str) -> int:
    return zlib.crc32(gram.encode()) % BUCKETS
