"""A few fixed answers as a tree of tokens, and how likely each is.

    True.  False.                  two branches at the root
    The first …  The second …      "The" is common, the next token tells them apart
    The two …  Neither …

Only where answers part has a model a choice among them: at each branching point its logits are normalised over the
tokens that lead on to some answer, and an answer's probability is the product along its way. This is what decoding
under a grammar would draw, without drawing; the probabilities of all answers add up to one. Whatever lies between the
branching points costs nothing but the encoding of the tokens that lead to a deeper one.

How likely each of a few answers is, asked of a chat model.

llama.cpp (the embedded model, or its server) weighs tokens exactly, so there the tree of answers is walked as in
`trie`: one short question for each branching point, nothing generated. Other homes tell at most the likeliest tokens
at each place of an answer they wrote. What is approximated there:

- tokens are known by their text, and an answer's token is the longest one told that it begins with;
- an answer that is not among the tokens told has no share;
- answers that begin with the same token ("The first", "The second") divide its share as the place after it tells. A
  home that keeps to a grammar is asked to write that token where it did not; of the others they get equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from compeer.models.request import Answer, Model, Place, Request
from compeer.models.weighing import Weigher
from compeer.reasoning import begins_with_thinking
from compeer.reasoning.grammar import Literal, OneOf

Path = tuple[int, ...]
K = TypeVar("K", bound=Hashable)


class Trie(Generic[K]):
    """Answers as paths of tokens. No path may be the beginning of another one.

    >>> trie = Trie({"first": (4, 1, 9), "second": (4, 2, 9), "neither": (5, 9)})
    >>> trie.branches
    {(): (4, 5), (4,): (1, 2)}
    >>> trie.ways
    ((4,),)
    """

    def __init__(self, paths: Mapping[K, Path]) -> None:
        self.paths = dict(paths)
        following: dict[Path, dict[int, None]] = {}
        for path in self.paths.values():
            for at, token in enumerate(path):
                following.setdefault(path[:at], {})[token] = None
        if len(set(self.paths.values())) < len(self.paths) or any(path in following for path in self.paths.values()):
            raise ValueError("an answer that is the beginning of another one, or the same, cannot be told from it")
        #: each branching point (the tokens that lead to it) with the tokens it chooses among
        self.branches: dict[Path, tuple[int, ...]] = {
            point: tuple(tokens) for point, tokens in following.items() if len(tokens) > 1
        }
        #: the ways that pass every branching point: the first one is enough unless the tree has several deep branches
        self.ways: tuple[Path, ...] = tuple(
            point
            for point in self.branches
            if not any(other != point and other[: len(point)] == point for other in self.branches)
        ) or ((),)

    def probabilities(self, logits: Callable[[Path], Sequence[float]]) -> dict[K, float]:
        """The probability of each answer; `logits(point)` are those of the tokens in `branches[point]`.

        >>> trie = Trie({"yes": (1,), "no": (2,)})
        >>> trie.probabilities(lambda point: [math.log(3.0), 0.0])
        {'yes': 0.75, 'no': 0.25}
        """
        shares = {
            point: dict(zip(tokens, _softmax(logits(point)), strict=True)) for point, tokens in self.branches.items()
        }
        return {
            key: round(math.prod(shares[path[:at]][path[at]] for at in range(len(path)) if path[:at] in shares), 12)
            for key, path in self.paths.items()
        }


def likeliest(probabilities: Mapping[K, float]) -> K:
    """The most probable answer; of two equal ones the first.

    >>> likeliest({"True.": 0.5, "False.": 0.5})
    'True.'
    """
    return max(probabilities, key=lambda key: probabilities[key])


def shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning.

    >>> shared([1, 2, 3], [1, 2, 4]), shared([1], [1, 2]), shared([], [1])
    (2, 1, 0)
    """
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _softmax(logits: Sequence[float]) -> list[float]:
    highest = max(logits)
    weights = [math.exp(value - highest) for value in logits]
    whole = sum(weights)
    return [weight / whole for weight in weights]


Messages = Sequence[dict[str, Any]]
_ALTERNATIVES = 20  # as many as OpenAI and vLLM tell


async def option_trie(home: Weigher, options: Mapping[K, str]) -> Trie[K]:
    """The answers as the tokens of a model behind llama.cpp, each with an end, so that none begins another."""
    return Trie({key: (*await home.tokenize(text), -1) for key, text in options.items()})


async def weighed(home: Weigher, messages: Messages, trie: Trie[K]) -> dict[K, float]:
    """The exact probability of each answer."""
    found: dict[Path, list[float]] = {}
    for point, tokens in trie.branches.items():
        shares = await home.odds(messages, point, tokens)
        found[point] = [math.log(max(share, 1e-45)) for share in shares]
    return trie.probabilities(lambda point: found[point])


async def told(
    model: Model, messages: Messages, options: Mapping[K, str], *, grammar: bool, max_tokens: int
) -> tuple[dict[K, float], Answer]:
    """The probabilities as far as the model tells them (none: empty), and its answer.

    `grammar`: whether the model keeps to the options given.
    """
    request = Request(
        messages=messages,
        max_tokens=max_tokens,
        temperature=0.0,
        plan=(OneOf(tuple(options.values())),),
        logprobs=_ALTERNATIVES,
    )
    answer = await model.ask(request)
    if begins_with_thinking(answer.text):
        return {}, answer  # the first tokens are thoughts
    rests = {key: text.encode() for key, text in options.items()}
    shares, alike = _divided(rests, _places(answer))
    if grammar and alike:
        # the answers that go on together: have the model write what they have in common
        beginning = _common([options[key] for key in alike])
        parts = (Literal(beginning), OneOf(tuple(options[key][len(beginning) :] for key in alike)))
        again = await model.ask(msgspec.structs.replace(request, plan=parts))
        # a home that tells its first token alone has been given the beginning; the others wrote it
        places = _after(again.places, beginning.encode()) if again.places else _places(again)
        inner, _ = _divided({key: rests[key][len(beginning.encode()) :] for key in alike}, places)
        whole = sum(shares[key] for key in alike)
        if sum(inner.values()) > 0:
            shares |= {key: whole * inner[key] for key in alike}
    return (shares if sum(shares.values()) > 0 else {}), answer


def _divided(rests: Mapping[K, bytes], places: Sequence[Place]) -> tuple[dict[K, float], list[K]]:
    """The share of each answer, and those whose shares are equal parts of one for want of a later place."""
    if not places:
        return dict.fromkeys(rests, 0.0), []
    meant: dict[bytes, list[K]] = {}
    likely: dict[bytes, float] = {}
    left: dict[K, bytes] = {}
    for key, rest in rests.items():
        if found := _begins(rest, places[0].alternatives):
            token, value, left[key] = found
            meant.setdefault(token, []).append(key)
            likely[token] = math.exp(value)
    whole = sum(likely.values())
    shares, alike = dict.fromkeys(rests, 0.0), list[K]()
    for token, keys in meant.items():
        inner = {key: 1.0 / len(keys) for key in keys}
        if len(keys) > 1:
            written = places[0].token == token and len(places) > 1
            deeper, still = _divided({key: left[key] for key in keys}, places[1:]) if written else (inner, keys)
            if sum(deeper.values()) > 0:
                inner, alike = deeper, [*alike, *still]
        shares |= {key: likely[token] / whole * inner[key] for key in keys}
    return shares, alike


def _begins(rest: bytes, alternatives: Sequence[tuple[bytes, float]]) -> tuple[bytes, float, bytes] | None:
    """The longest token that this text begins with, its value, and what is left; some write a space before a word."""
    fitting = [(token, value, rest[len(token) :]) for token, value in alternatives if token and rest.startswith(token)]
    if not fitting:
        bare = [(token, value, token.lstrip(b" ")) for token, value in alternatives]
        fitting = [(token, value, rest[len(word) :]) for token, value, word in bare if word and rest.startswith(word)]
    return min(fitting, key=lambda found: len(found[2]), default=None)


def _places(answer: Answer) -> tuple[Place, ...]:
    """The places of an answer; of some homes the first one alone is known."""
    if answer.places or not answer.first:
        return answer.places
    first = tuple((token.encode(), value) for token, value in answer.first)
    written = next((token for token, _ in first if answer.text.encode().startswith(token)), b"")
    return (Place(written, first),)


def _after(places: Sequence[Place], beginning: bytes) -> Sequence[Place]:
    """The places after this beginning; none when it is not what was written."""
    written = b""
    for number, place in enumerate(places):
        if written.lstrip(b" ") == beginning:
            return places[number:]
        written += place.token
    return ()


def _common(texts: Sequence[str]) -> str:
    """What all begin with, without a space at its end, which belongs to the next token."""
    length = next(
        (at for at, signs in enumerate(zip(*texts, strict=False)) if len(set(signs)) > 1), min(map(len, texts))
    )
    return texts[0][:length].rstrip()
