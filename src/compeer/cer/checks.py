"""Cheap, deterministic checks before any model is asked: what they catch costs nothing.

The paper leaves all filtering to Qwen2.5-72B. Much of what it removes needs no model to see: keyboard noise
(FailedESConv has some), a reply that changes into German half-way (EmoLLM), a conversation that runs in a
circle (CPsyCounD), a monologue. The limits were set on the corpora of `facts/corpora.md`, so that what they
drop there is such as a reader would drop too.

`check` looks at one dialogue. Duplicates need all of them, so they are found in a pass of their own and kept in
a table (`find_duplicates`), which the filter stage looks things up in: a stage that remembered what it has
seen would decide differently after a restart, and on each worker of a cluster.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from compeer.cer.near_duplicates import find_near_duplicates
from compeer.cer.stage import Reject
from compeer.dialogue import Dialogue
from compeer.errors import UserError
from compeer.reasoning.language import words
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import TAG

#: every reason `check` and the table of duplicates can give, in the order they are looked for
CODES: tuple[str, ...] = (
    "empty", "one-sided", "too-short", "too-long", "garbage", "wrong-language", "repeated",
    "duplicate", "near-duplicate",
)  # fmt: skip

Share = Annotated[float, Meta(ge=0, le=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is too much. A Chinese character counts as a word, as everywhere."""

    min_rounds: int = 2
    max_utterance_words: int = 1_500
    max_dialogue_words: int = 10_000
    max_foreign: Share = 0.25  # of the words, in another script than the declared language's
    min_common: Share = 0.1  # of English words, among the commonest; the corpora lie between 0.27 and 0.6
    max_repeated: Share = 0.3  # of the utterances


class Duplicate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dialogue that goes, and the one that stays in its place."""

    id: str
    kept: str
    similarity: float = 1.0
    exact: bool = False


# One of these is enough: the text was never said, it is the envelope of some model's output.
_ENVELOPE = re.compile(r"<\|[a-z_]+\|>|<</?SYS>>|\[/?INST\]|</?s>|\{\{[^{}]*\}\}|\ufffd", re.IGNORECASE)
# These may slip into a real conversation now and then. Italics do so in MESC's subtitles, and are not counted.
_MARKUP = re.compile(
    r"</?(?!i\b|b\b|em\b|strong\b|u\b)[a-zA-Z][^<>]{0,80}>|&(?:nbsp|lt|gt|amp|quot|#\d{2,5});|```"
    r"|\\u[0-9a-f]{4}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|â€.|Ã[\x80-\xbf]"
)
_LETTER = re.compile(r"\w")
_WORD = re.compile(r"\w+")
_HAN = re.compile(r"[㐀-鿿]")
_OTHER = re.compile(r"[^\W\d_A-Za-zªºÀ-ɏ㐀-鿿]")  # a letter that is neither Latin nor Chinese
_COMMON = frozenset(
    words(
        "the i you to and of is it that was my me for have with are be not so what your but do this just on can if "
        "how at we they he she about i'm it's don't i've that's"
    )
)
_SAID_OFTEN = 4  # an utterance of fewer words ("yes", "I know") may come back


def check(dialogue: Dialogue, limits: Limits = Limits()) -> Reject | None:
    """Why this dialogue should go no further, or None."""
    for reason, detail in _faults(dialogue, limits):
        return Reject(dialogue.id, reason, detail, dialogue)
    return None


def text_of(dialogue: Dialogue) -> str:
    """Everything that was said, a line an utterance."""
    return "\n".join(utterance.text for utterance in dialogue.utterances)


def fingerprint(dialogue: Dialogue) -> bytes:
    """Sixteen bytes that are the same for dialogues of the same words, whatever their case and punctuation."""
    return hashlib.blake2b(_plain(text_of(dialogue)).encode("utf-8", "replace"), digest_size=16).digest()


def find_duplicates(dialogues: Iterable[Dialogue], near: bool = True, threshold: float = 0.8) -> list[Duplicate]:
    """Exact duplicates and, unless told otherwise, near ones; the first of each set stays.

    Memory for a million dialogues: about 200 MB for the exact ones, about 1 GB with the near ones.
    """
    known: dict[bytes, str] = {}  # fingerprint -> id of the first dialogue that has it
    ids: set[str] = set()
    exact: list[tuple[str, str]] = []

    def different() -> Iterator[tuple[str, str]]:
        for dialogue in dialogues:
            if dialogue.id in ids:
                raise UserError(f"Two dialogues have the id {dialogue.id!r}; give each its own and start again.")
            ids.add(dialogue.id)
            first = known.setdefault(fingerprint(dialogue), dialogue.id)
            if first is dialogue.id:
                yield dialogue.id, text_of(dialogue)
            else:
                exact.append((dialogue.id, first))

    similar = {}
    if near:
        similar = {one.id: one for one in find_near_duplicates(different(), threshold)}
    else:
        for _ in different():
            pass
    found = [Duplicate(one.id, one.kept, one.similarity) for one in similar.values()]
    # the first of some identical dialogues may itself be near another one; then that one stays for all of them
    found += [Duplicate(gone, similar[kept].kept if kept in similar else kept, exact=True) for gone, kept in exact]
    return found


def _faults(dialogue: Dialogue, limits: Limits) -> Iterator[tuple[str, str]]:
    """(reason, detail) of everything that is wrong, the plainest first; computed only as far as it is read."""
    text = text_of(dialogue)
    if not _LETTER.search(text):
        yield "empty", "there is not a single letter in it"
    speakers = [utterance.speaker for utterance in dialogue.utterances]
    for speaker in ("seeker", "supporter"):
        if speaker not in speakers:
            yield "one-sided", f"the {speaker} never speaks"
    rounds = sum(one == "supporter" and before != one for one, before in zip(speakers, ["", *speakers], strict=False))
    if rounds < limits.min_rounds:
        yield "too-short", f"{rounds} rounds; at least {limits.min_rounds} are asked for"
    said = [words(utterance.text.lower().replace("’", "'")) for utterance in dialogue.utterances]
    longest = max(range(len(said)), key=lambda number: len(said[number]))
    if len(said[longest]) > limits.max_utterance_words:
        yield "too-long", f"utterance {longest + 1} has {len(said[longest])} words"
    every = [word for utterance in said for word in utterance]
    if len(every) > limits.max_dialogue_words:
        yield "too-long", f"{len(every)} words in all"
    other = len(_OTHER.findall(text))
    yield from _garbage(text, every, other, len(said))
    yield from _foreign(dialogue.language, text, every, other, limits)
    often = Counter(" ".join(utterance) for utterance in said if len(utterance) >= _SAID_OFTEN)
    again = often.total() - len(often)
    if again > limits.max_repeated * len(said):
        yield "repeated", f"{again} of {len(said)} utterances were said before, word for word"


def _garbage(text: str, every: list[str], other: int, utterances: int) -> Iterator[tuple[str, str]]:
    envelope = _ENVELOPE.search(text) or TAG.search(text)
    if envelope:
        yield "garbage", f"it contains {envelope.group()!r}"
    markup = _MARKUP.findall(text)
    if len(markup) > utterances / 5:
        yield "garbage", f"{len(markup)} pieces of markup, such as {markup[0]!r}"
    if 2 * (sum(map(len, every)) + other) < sum(map(len, text.split())):
        yield "garbage", "less than half of it is letters"
    held = sum(len(set(word)) < 3 for word in every if len(word) > 5)
    if held > 0.3 * len(every):
        yield "garbage", f"{held} of {len(every)} words are a key or two held down"


def _foreign(language: Language, text: str, every: list[str], other: int, limits: Limits) -> Iterator[tuple[str, str]]:
    chinese = len(_HAN.findall(text))
    latin = len(every) - chinese
    own, foreign = (chinese, latin + other) if language == "zh" else (latin, chinese + other)
    if foreign > limits.max_foreign * (own + foreign):
        script = {"zh": "Chinese", "en": "Latin"}[language]
        yield "wrong-language", f"declared {language}, but {foreign} of {own + foreign} words are not {script}"
    if language == "en" and len(every) >= 12:  # a few words prove nothing
        common = sum(map(_COMMON.__contains__, every))
        if common < limits.min_common * len(every):
            yield "wrong-language", f"declared en, but only {common} of {len(every)} words are common English ones"


def _plain(text: str) -> str:
    """Words alone: case, width and punctuation do not count."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
