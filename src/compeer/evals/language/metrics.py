"""Measures of a set of replies: BLEU, self-BLEU, ROUGE-L, repetition, distinct-n, likeness across dialogues.

**BLEU** is sacreBLEU's (Post 2018), with its tokenizers (13a, zh) and its signature in the result, so that figures
compare with those of others. The counts of each reply add up, so resampling dialogues means summing counts again.

**Self-BLEU** (Zhu et al. 2018) takes all other replies as the references of each, over our own words (Latin words in
lower case, Chinese characters, no punctuation). Written plainly that is quadratic; here the two largest counts of each
n-gram and their owner are kept, which is all that "the largest count in any *other* reply" needs.

**ROUGE-L** (Lin 2004) is the F1 of the longest common subsequence, over the same words. By hand, because rouge-score
drops Chinese characters and needs NLTK; the subsequence is counted on the bits of one integer (Hyyrö 2004).

**Repetition** is the share of a reply's triples that the supporter has used before in the dialogue; echo, those that
the seeker has. Restating is a strategy, so the two are kept apart.

**Variety.** Distinct-n and likeness across dialogues are figures of the whole set, and drawing dialogues with
replacement would spoil them: a dialogue drawn twice repeats itself word for word. So their interval is the jackknife's:
the figure again without each dialogue in turn.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from compeer.errors import UserError
from compeer.policy.diversity import distinct, ngrams
from compeer.reasoning.ontology import Language, words
from compeer.statistics import Figure, Floats, Resamples, estimate

ORDER = 4
_FEWEST = 5  # dialogues; with fewer, leaving one out shows nothing


def sacrebleu(language: Language = "en", order: int = ORDER) -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserError('BLEU needs sacrebleu: pip install "compeer-esc[eval]".') from None
    return BLEU(tokenize={"en": "13a", "zh": "zh"}[language], max_ngram_order=order)


def bleu_figure(
    name: str, replies: Sequence[str], references: Sequence[str | None], language: Language, resamples: Resamples
) -> tuple[Figure, str]:
    """BLEU of the replies that have a reference, as one corpus, 0 to 100; and sacreBLEU's signature."""
    order = int(name.rpartition("-")[2])
    metric = sacrebleu(language, order)
    chosen = np.array([bool(reference) for reference in references])
    rows = []
    for reply, reference in zip(replies, references, strict=True):
        if reference:
            score = metric.corpus_score([reply], [[reference]])
            rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])

    def corpus(sums: Any) -> float:
        matched, total = (np.rint(part).astype(int).tolist() for part in (sums[:order], sums[order : 2 * order]))
        whole = metric.compute_bleu(matched, total, int(sums[-2]), int(sums[-1]), "exp", max_ngram_order=order)
        return float(whole.score)

    table = np.array(rows, dtype=np.float64)
    draws = np.array([corpus(sums) for sums in resamples.sums(table, chosen)]) if resamples.groups > 1 else np.zeros(0)
    return estimate(name, corpus(table.sum(axis=0)), draws, len(rows)), str(metric.get_signature())


def self_bleu(texts: Sequence[str]) -> list[float]:
    """For each text its smoothed BLEU with all the others as references; 1 means that it was said before.

    >>> self_bleu(["how are you today", "how are you today"]), self_bleu(["alone"])
    ([1.0, 1.0], [0.0])
    """
    if len(texts) < 2:
        return [0.0] * len(texts)
    own = [[Counter(ngrams(text, n)) for n in range(1, ORDER + 1)] for text in texts]
    tops: list[dict[tuple[str, ...], tuple[int, int, int]]] = [{} for _ in range(ORDER)]
    for number, grams in enumerate(own):
        for top, counted in zip(tops, grams, strict=True):
            for gram, times in counted.items():
                best, owner, second = top.get(gram, (0, -1, 0))
                top[gram] = (times, number, best) if times > best else (best, owner, max(second, times))
    lengths = [len(words(text)) for text in texts]
    ordered, metric, values = sorted(lengths), sacrebleu(), []
    for number, grams in enumerate(own):
        matched = [0] * ORDER
        for n, (top, counted) in enumerate(zip(tops, grams, strict=True)):
            for gram, times in counted.items():
                best, owner, second = top[gram]
                matched[n] += min(times, second if owner == number else best)
        total = [counted.total() for counted in grams]
        nearest = _nearest_other(ordered, lengths[number])
        score = metric.compute_bleu(matched, total, lengths[number], nearest, "exp", effective_order=True)
        values.append(min(1.0, score.score / 100))
    return values


def _nearest_other(ordered: Sequence[int], length: int) -> int:
    """The nearest length in the sorted list besides one entry of this length itself.

    >>> _nearest_other([3, 5, 9], 5), _nearest_other([5, 5], 5)
    (3, 5)
    """
    at = bisect_left(ordered, length)
    around = [ordered[place] for place in (at - 1, at + 1) if 0 <= place < len(ordered)]
    return min(around, key=lambda other: (abs(other - length), other))


def rouge_l(text: str, reference: str) -> float:
    """F1 of the longest common subsequence of words.

    >>> rouge_l("police kill the gunman", "police killed the gunman"), rouge_l("", "hello")
    (0.75, 0.0)
    """
    said, wanted = words(text.lower()), words(reference.lower())
    common = common_length(said, wanted)
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    >>> common_length("ABCBDAB", "BDCABA")
    4
    """
    places: dict[str, int] = {}
    for at, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(first)) - 1
    open_bits = whole  # a zero for each row in which the length of the subsequence grows
    for word in second:
        hits = open_bits & places.get(word, 0)
        open_bits = ((open_bits + hits) | (open_bits - hits)) & whole
    return len(first) - open_bits.bit_count()


def said_before(reply: str, earlier: Iterable[str]) -> float | None:
    """The share of the reply's triples that occur in the earlier texts; None for a reply shorter than three words.

    >>> said_before("I hear you, that is hard", ["I hear you."]), said_before("Oh no", ["Oh no"])
    (0.25, None)
    """
    own = ngrams(reply, 3)
    known = {gram for text in earlier for gram in ngrams(text, 3)}
    return sum(gram in known for gram in own) / len(own) if own else None


def said_elsewhere(replies: Sequence[str]) -> list[bool]:
    """For each reply whether another one has exactly its words.

    >>> said_elsewhere(["I hear you.", "i hear you", "Go on."])
    [True, True, False]
    """
    keys = [tuple(words(reply.lower())) for reply in replies]
    times = Counter(keys)
    return [bool(key) and times[key] > 1 for key in keys]


def distinct_figure(name: str, texts: Sequence[str], dialogues: Sequence[str], n: int) -> Figure:
    """Distinct-n of all texts together (`policy.diversity.distinct`), with its interval over dialogues."""
    value = distinct(texts, n)
    within: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for text, dialogue in zip(texts, dialogues, strict=True):
        within[dialogue].update(ngrams(text, n))
    homes = Counter(gram for counted in within.values() for gram in counted)
    whole = sum(counted.total() for counted in within.values())
    without = []
    for counted in within.values():
        rest = whole - counted.total()
        alone = sum(homes[gram] == 1 for gram in counted)
        without.append((len(homes) - alone) / rest if rest else math.nan)
    return jackknife_figure(name, value, np.array(without), len(texts), top=1.0)


def across_figure(name: str, vectors: Any, dialogues: Sequence[str]) -> Figure:
    """The mean cosine of every two replies of *different* dialogues; `vectors` are rows of any length."""
    rows: Floats = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    names, places = np.unique(np.asarray(dialogues, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return Figure(name)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, places, rows)
    sizes = np.bincount(places).astype(np.float64)
    own = np.square(sums).sum(axis=1)
    total = sums.sum(axis=0)
    between = float(np.square(total).sum() - own.sum())  # ordered pairs of different dialogues
    pairs = float(sizes.sum() ** 2 - np.square(sizes).sum())
    # without dialogue d its pairs with all the others are gone, twice over
    lost = 2 * (sums @ total - own)
    fewer = 2 * sizes * (sizes.sum() - sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (between - lost) / (pairs - fewer)
    return jackknife_figure(name, between / pairs, without, len(rows), bottom=-1.0, top=1.0)


def jackknife_figure(
    name: str, value: float, without: Floats, n: int, bottom: float = 0.0, top: float = math.inf
) -> Figure:
    """A figure whose interval comes from its values without each dialogue in turn.

    >>> jackknife_figure("x", 0.5, np.full(5, 0.5), 7)
    Figure(name='x', value=0.5, low=None, high=None, n=7)
    """
    known = without[np.isfinite(without)]
    if len(known) < _FEWEST or float(np.ptp(known)) == 0.0:
        return Figure(name, value, n=n)
    error = math.sqrt((len(known) - 1) / len(known) * float(np.square(known - known.mean()).sum()))
    return Figure(name, value, max(bottom, value - 1.96 * error), min(top, value + 1.96 * error), n)
