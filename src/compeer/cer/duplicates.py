"""Exact and near-duplicates among dialogues: MinHash and locality-sensitive hashing, a million dialogues in a gigabyte.

The paper does not mention them. Corpora written by models, and corpora that were grown out of one another
(SoulChat and SMILE both out of PsyQA), are full of them; they make a test set leak and a judge overfit.

A text is the set of its shingles: three words in a row, where each Chinese character is a word. Two texts are
near-duplicates when their sets overlap (Jaccard) by `threshold` or more. The overlap is estimated from 256
hash minima, of which 16 bits each are kept (b-bit MinHash: a chance agreement is one in 65,536): standard error
0.025 at 0.8. Candidates are texts that agree in a whole band of minima; `bands` chooses how many minima that is,
so that a pair at the threshold is found with at least 99 % probability.

Minima are by far the most of the work. `DialogueIndex` computes them once, and filter and split both search in it.

Everything is numpy arrays: 512 bytes a text, no dictionary of sets. (datasketch 2.0, same minima and bands, on 20,000
texts of 60 words: 14 times the processor time, 17 times the memory.) Of each set of near-duplicates the first text
stays; every text that goes is similar to the very text that stays, not only to some chain of others.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from compeer.dialogue import Dialogue
from compeer.errors import UserError

MINIMA = 256
_BATCH = 1_000  # texts hashed at a time: the arrays stay in the processor's cache
_COMPARED = 50_000  # pairs compared at a time
# In a group of texts that share a band but are no duplicates of one another, each is compared with this many
# others. Only a corpus made from one template reaches the limit, and it would cost quadratic time without.
_LEADERS = 64

_WORD = re.compile(r"\w+")
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
Index = NDArray[np.int64]


class Duplicate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text or a dialogue that goes, the one that stays in its place, and how similar the two are, estimated."""

    id: str
    kept: str
    similarity: float = 1.0
    exact: bool = False


class Signatures:
    """The minima of many texts, computed once, however often and with whatever threshold they are searched."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """Of (id, text) pairs. A text without words has no signature: it is nobody's duplicate."""
        self.ids: list[str] = []
        packed = bytearray()  # grows in place; joining arrays would need the memory twice
        stream = iter(texts)
        while batch := list(islice(stream, _BATCH)):
            some, hashes = signatures([text for _, text in batch])
            self.ids += [batch[number][0] for number in some]
            packed += hashes.tobytes()
        self.hashes: U16 = np.frombuffer(packed, np.uint16).reshape(len(self.ids), MINIMA)

    def near_duplicates(self, threshold: float = 0.8, among: Container[str] | None = None) -> list[Duplicate]:
        """Near-duplicates in the order they came, of all texts or `among` these ids."""
        if not 0.5 <= threshold <= 1:
            raise ValueError(f"the threshold is a Jaccard similarity between 0.5 and 1; got {threshold}")
        places = [place for place, name in enumerate(self.ids) if among is None or name in among]
        kept, similarity = _search(self.hashes if among is None else self.hashes[places], threshold)
        return [
            Duplicate(self.ids[places[number]], self.ids[places[kept[number]]], round(float(similarity[number]), 3))
            for number in np.flatnonzero(kept >= 0)
        ]


class DialogueIndex:
    """All dialogues, read once: those of the very same words, and the signatures of the others.

    Memory for a million dialogues: about 200 MB for the exact duplicates, about 1 GB with the signatures.
    """

    def __init__(self, dialogues: Iterable[Dialogue]) -> None:
        known: dict[bytes, str] = {}  # fingerprint -> id of the first dialogue that has it
        ids: set[str] = set()
        self._same: list[tuple[str, str]] = []

        def different() -> Iterator[tuple[str, str]]:
            for dialogue in dialogues:
                if dialogue.id in ids:
                    raise UserError(f"Two dialogues have the id {dialogue.id!r}; give each its own and start again.")
                ids.add(dialogue.id)
                first = known.setdefault(fingerprint(dialogue), dialogue.id)
                if first is dialogue.id:
                    yield dialogue.id, text_of(dialogue)
                else:
                    self._same.append((dialogue.id, first))

        self.signatures = Signatures(different())

    def duplicates(self, threshold: float = 0.8) -> list[Duplicate]:
        """The dialogues that go, near ones and exact ones; the first of each set stays."""
        near = self.signatures.near_duplicates(threshold)
        similar = {one.id: one for one in near}
        # the first of some identical dialogues may itself be near another one; then that one stays for all of them
        return near + [
            Duplicate(gone, similar[kept].kept if kept in similar else kept, exact=True) for gone, kept in self._same
        ]


def text_of(dialogue: Dialogue) -> str:
    """Everything that was said, a line an utterance."""
    return "\n".join(utterance.text for utterance in dialogue.utterances)


def fingerprint(dialogue: Dialogue) -> bytes:
    """Sixteen bytes that are the same for dialogues of the same words, whatever their case and punctuation."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text_of(dialogue)).casefold())
    return hashlib.blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=16).digest()


def bands(threshold: float) -> int:
    """How many bands the minima are cut into: the fewest that find a pair at the threshold 99 times in 100."""
    return next(n for n in (16, 32, 64) if n == 64 or 1 - (1 - threshold ** (MINIMA // n)) ** n >= 0.99)


def signatures(texts: list[str]) -> tuple[list[int], U16]:
    """The numbers of the texts that have words, and their minima, one row per text."""
    hashes, starts, some = _shingles(texts)
    found = np.empty((MINIMA, len(some)), np.uint16)
    mixed, shifted = np.empty_like(hashes), np.empty_like(hashes)
    for number, (mask, factor) in enumerate(_permutations()) if some else ():
        np.bitwise_xor(hashes, mask, out=mixed)
        mixed *= factor
        np.right_shift(mixed, 15, out=shifted)
        mixed ^= shifted
        mixed *= np.uint32(0x2C1B3C6D)
        found[number] = np.minimum.reduceat(mixed, starts).astype(np.uint16)  # the low half
    return some, np.ascontiguousarray(found.T)


def _shingles(texts: list[str]) -> tuple[U32, Index, list[int]]:
    """Hashes of all shingles of all texts, where each text with words begins among them, and which texts those are."""
    texts = [unicodedata.normalize("NFKC", text).casefold() for text in texts]
    codes = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    ends = np.cumsum([len(text) + 1 for text in texts])
    kinds = _kinds()[np.minimum(codes, 0xFFFF)]
    alone = (kinds == 2) | ((codes >= 0x20000) & (codes < 0x40000))
    running = kinds == 1
    begins = running.copy()
    begins[1:] &= ~running[:-1]
    at = np.flatnonzero(alone | begins)
    if not at.size:
        return np.empty(0, np.uint32), np.empty(0, np.int64), []
    # a word's hash: its letters, each weighed by where it stands in the word; what follows the word weighs nothing
    length = np.diff(at, append=codes.size)
    place = np.arange(at[0], codes.size) - np.repeat(at, length)
    weighed = _mix(codes[at[0] :].astype(np.uint64)) * _weights()[np.minimum(place, 63)]
    weighed[~(alone | running)[at[0] :]] = 0
    words = _mix(np.add.reduceat(weighed, at - at[0]))
    text_of = np.searchsorted(ends, at, side="right")
    # a shingle begins at each word that has two more after it in its text; a shorter text is one shingle
    padded, owner = np.append(words, np.zeros(2, np.uint64)), np.append(text_of, (-1, -1))
    second, third = owner[1:-1] == text_of, owner[2:] == text_of
    one, two = _weights()[64:]
    whole = words + np.where(second, padded[1:-1], 0) * one + np.where(third, padded[2:], 0) * two
    first = np.append(True, text_of[1:] != text_of[:-1])
    is_shingle = third | first
    text_of = text_of[is_shingle]
    some, starts = np.unique(text_of, return_index=True)
    return (_mix(whole[is_shingle]) >> np.uint64(32)).astype(np.uint32), starts, some.tolist()


def _search(hashes: U16, threshold: float) -> tuple[Index, NDArray[np.float32]]:
    """For each text the one that is kept instead (-1: it is kept), and their similarity."""
    kept = np.full(len(hashes), -1, np.int64)
    similarity = np.zeros(len(hashes), np.float32)
    while True:
        for band in np.array_split(np.arange(MINIMA), bands(threshold)):
            living = np.flatnonzero(kept < 0)
            members, group = _groups(hashes[living, band[0] : band[-1] + 1], living)
            for _ in range(_LEADERS):
                if not members.size:
                    break
                # every member against the first of its group; who is similar goes, the others form the next group
                _, begin, inverse = np.unique(group, return_index=True, return_inverse=True)
                leaders = members[begin][inverse]
                alike = _alike(hashes, members, leaders)
                gone = (alike >= threshold) & (members != leaders)
                kept[members[gone]], similarity[members[gone]] = leaders[gone], alike[gone]
                rest = ~gone & (members != leaders)
                members, group = _without_singles(members[rest], group[rest])
        # a text may have gone for one that went later itself: then for that one's reason too, or it comes back
        orphans = np.flatnonzero((kept >= 0) & (kept[kept] >= 0))
        if not orphans.size:
            return kept, similarity
        while (stale := kept[kept[orphans]] >= 0).any():
            kept[orphans[stale]] = kept[kept[orphans[stale]]]
        similarity[orphans] = _alike(hashes, orphans, kept[orphans])
        back = orphans[similarity[orphans] < threshold]
        kept[back], similarity[back] = -1, 0
        if not back.size:
            return kept, similarity


def _groups(band: U16, numbers: Index) -> tuple[Index, Index]:
    """The texts that agree with another in the whole band, and the group each is in; ascending within a group."""
    parts = np.ascontiguousarray(band).view(np.uint64)
    keys = parts[:, 0].copy()
    for column in parts.T[1:]:
        keys = _mix(keys) + column
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    group = np.cumsum(np.append(False, ordered[1:] != ordered[:-1])) if len(order) else order
    return _without_singles(numbers[order], group)


def _without_singles(members: Index, group: Index) -> tuple[Index, Index]:
    if not members.size:
        return members, group
    differs = np.append(group[1:] != group[:-1], True)
    single = differs & np.append(True, differs[:-1])
    return members[~single], group[~single]


def _alike(hashes: U16, one: Index, other: Index) -> NDArray[np.float32]:
    """The share of minima in which two texts agree, for many pairs."""
    found = np.empty(len(one), np.float32)
    for start in range(0, len(one), _COMPARED):
        part = slice(start, start + _COMPARED)
        found[part] = (hashes[one[part]] == hashes[other[part]]).mean(axis=1, dtype=np.float32)
    return found


def _mix(values: U64) -> U64:
    """Spread every bit over all 64 (the finaliser of splitmix64); wraps around, as it should."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@cache
def _kinds() -> NDArray[np.uint8]:
    """0: nothing, 1: a letter or digit of a word, 2: a word by itself (Chinese), for the first 65,536 code points."""
    kinds = np.fromiter((chr(code).isalnum() for code in range(0x10000)), np.uint8, 0x10000)
    kinds[0x3400:0xA000] *= 2
    return kinds


@cache
def _weights() -> U64:
    return np.random.default_rng(1).integers(0, 2**63, 66, np.uint64) * np.uint64(2) + np.uint64(1)


@cache
def _permutations() -> list[tuple[np.uint32, np.uint32]]:
    drawn = np.random.default_rng(2).integers(0, 2**32, (MINIMA, 2), np.uint32)
    return [(mask, factor | np.uint32(1)) for mask, factor in drawn]
