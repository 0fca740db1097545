"""All figures of language for one set of replies, each language apart, as a Result.

Figures are called LANGUAGE/NAME, e.g. `en/distinct-2`; `figure_meanings.json` says what each is. Means over replies
and BLEU resample dialogues; distinct-n and likeness across dialogues use the jackknife (`metrics`). Every dialogue also
keeps its own means, so that two runs on the same cases can be compared case by case.

Stated strategies are compared with people's by total variation: half the sum of the differences of shares, 0 for the
same mixture and 1 for two that have nothing in common. With few replies it is never 0, even for people against
themselves: compare it with that of a second set of people's replies of the same size, not with 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.corpora import CORPORA, Rejected, load
from compeer.dialogue import Dialogue, read, rounds
from compeer.errors import UserError
from compeer.evals.language import metrics
from compeer.evals.language.outputs import Output, Outputs
from compeer.evals.result import Result, Transcript, cases_digest, meanings
from compeer.policy.diversity import self_similarity
from compeer.policy.redundancy import Embed, similarities
from compeer.reasoning.ontology import LANGUAGES, STRATEGIES, Language, words
from compeer.statistics import Figure, Floats, Resamples, estimate, mean_figure, share_figure

Embedders = Callable[[Language], Embed]


class MeasuredLanguage(msgspec.Struct, frozen=True):
    """The result, and the dialogues with their own means."""

    result: Result
    transcripts: tuple[Transcript, ...]


def measure(
    source: Outputs,
    model: str,
    embed: Embedders | None,
    *,
    embedder: str = "",
    people: Mapping[str, Mapping[str, int]] | None = None,
    people_source: str = "",
    seed: int = 0,
) -> MeasuredLanguage:
    """Measure a set of replies. `people` holds people's strategies by language; without `embed` no cosines."""
    figures: list[Figure] = []
    # who judged a dialogue changes nothing about its words
    comparable = {name: value for name, value in source.comparable.items() if name not in ("judge", "parser")}
    # by language: stated strategies, people's, and where people's are from
    found: dict[str, dict[str, Any]] = {}
    signatures: dict[str, str] = {}  # what sacreBLEU did, per language
    notes = ["Distinct-n falls and self-BLEU rises as a set grows: compare sets of about the same size."]
    scores: dict[str, dict[str, float | None]] = defaultdict(dict)
    for language in LANGUAGES:
        outputs = [one for one in source.outputs if one.language == language and one.reply.strip()]
        if not outputs:
            continue
        own = _LanguageReplies(outputs, embed(language) if embed else None, seed)
        theirs = (people or {}).get(language) or count_strategies(one.reference_strategies for one in outputs)
        stated = count_strategies(one.strategies for one in outputs)
        if stated and theirs:
            found[language] = {"model": stated, "people": dict(theirs), "source": people_source or "the references"}
        figures += [
            msgspec.structs.replace(figure, name=f"{language}/{figure.name}")
            for figure in own.figures(theirs)
            if figure.value is not None
        ]
        if own.signature:
            signatures[language] = own.signature
        for case, values in own.by_case().items():
            scores[case] |= values
    if not embed:
        notes.append("Measured without an embedder: no cosines.")
    empty = sum(not one.reply.strip() for one in source.outputs)
    if empty:
        notes.append(f"{empty} replies were empty and are left out.")
    setup = {
        "seed": seed,
        "replies": len(source.outputs),
        "dialogues": len({one.dialogue for one in source.outputs}),
        "input": source.kind,
        "sacrebleu": signatures,
        "strategies": found,
    }
    comparable["cases"] = cases_digest(sorted(one.id for one in source.transcripts))
    if embed:
        comparable["embedder"] = embedder
    if found:
        comparable["people"] = people_source or "the references"
    result = Result("diversity", model, comparable, tuple(figures), setup, tuple(notes))
    kept = [
        msgspec.structs.replace(one, scores=scores.get(one.id, {}), curve=(), end=None) for one in source.transcripts
    ]
    return MeasuredLanguage(result, tuple(kept))


class _LanguageReplies:
    def __init__(self, outputs: Sequence[Output], embed: Embed | None, seed: int) -> None:
        self.outputs, self.embed = outputs, embed
        self.replies = [one.reply for one in outputs]
        self.dialogues = [one.dialogue for one in outputs]
        self.resamples = Resamples(self.dialogues, seed=seed)
        self.language, self.signature = outputs[0].language, ""
        self.values = self._values()

    def _values(self) -> dict[str, Floats]:
        """One value per reply; NaN where it has none."""
        values = {
            "length": [len(words(reply)) for reply in self.replies],
            "self-bleu": metrics.self_bleu(self.replies),
            "identical": metrics.said_elsewhere(self.replies),
            "repetition": [metrics.said_before(one.reply, _by("supporter", one)) for one in self.outputs],
            "echo": [metrics.said_before(one.reply, _by("seeker", one)) for one in self.outputs],
            "rouge-l": [metrics.rouge_l(one.reply, one.reference) if one.reference else None for one in self.outputs],
        }
        if self.embed:
            embed = self.embed
            # all texts in one call: the embedder remembers them, and many small batches take several times as long
            embed(list(dict.fromkeys(text for one in self.outputs for text in _texts(one))))
            self.vectors = np.asarray(embed(self.replies), dtype=np.float64)
            values["similarity-history"] = [
                similarities([one.reply], [turn.text for turn in one.history], embed)[1][0] if one.history else None
                for one in self.outputs
            ]
            values["similarity-reference"] = [
                similarities([one.reply], [one.reference], embed)[1][0] if one.reference else None
                for one in self.outputs
            ]
        return {name: np.array(column, dtype=np.float64) for name, column in values.items()}

    def figures(self, people: Mapping[str, int]) -> list[Figure]:
        """All figures, in the order of their meanings; the distance to people's strategies where both state some."""
        made = {name: self._mean(name, values) for name, values in self.values.items()}
        for name, share in (("length-p10", 10), ("length-p90", 90)):
            value = float(np.percentile(self.values["length"], share))
            made[name] = Figure(name, value, n=len(self.replies))
        for n in (1, 2, 3):
            made[f"distinct-{n}"] = metrics.distinct_figure(f"distinct-{n}", self.replies, self.dialogues, n)
        if self.embed:
            made["similarity-across"] = metrics.across_figure("similarity-across", self.vectors, self.dialogues)
            made["similarity-within"] = mean_figure("similarity-within", list(self.within().values()))
        if any(one.reference for one in self.outputs):
            references = [one.reference for one in self.outputs]
            for name in ("bleu-2", "bleu-4"):
                made[name], self.signature = metrics.bleu_figure(
                    name, self.replies, references, self.language, self.resamples
                )
        stated = [one.strategies for one in self.outputs]
        if people and any(stated):
            made["strategy-distance"] = distance_figure("strategy-distance", stated, people, self.resamples)
        return [made[name] for name in meanings()["diversity"] if name in made]

    def within(self) -> dict[str, float]:
        """For each dialogue with two replies or more, their mean cosine."""
        together: dict[str, list[str]] = defaultdict(list)
        for output in self.outputs:
            together[output.dialogue].append(output.reply)
        assert self.embed is not None
        return {name: self_similarity(texts, self.embed) for name, texts in together.items() if len(texts) > 1}

    def by_case(self) -> dict[str, dict[str, float | None]]:
        """The means of each case, for comparisons of two runs; likeness within where a case is a dialogue."""
        columns: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for name, values in self.values.items():
            for output, value in zip(self.outputs, values.tolist(), strict=True):
                if not math.isnan(value):
                    columns[output.case][name].append(value)
        means: dict[str, dict[str, float | None]] = {
            case: {name: sum(values) / len(values) for name, values in each.items()} for case, each in columns.items()
        }
        for dialogue, value in (self.within() if self.embed else {}).items():
            if dialogue in means:
                means[dialogue]["similarity-within"] = value
        return means

    def _mean(self, name: str, values: Floats) -> Figure:
        if name == "identical":
            return share_figure(name, values.tolist(), self.dialogues)
        return self.resamples.figure(name, values)


def _texts(output: Output) -> list[str]:
    texts = [output.reply, output.reference or "", *(turn.text for turn in output.history)]
    return [text for text in texts if text.strip()]


def _by(speaker: str, output: Output) -> list[str]:
    return [turn.text for turn in output.history if turn.speaker == speaker]


def shares(counted: Mapping[str, int]) -> dict[str, float]:
    """Counts as shares of all eight strategies.

    >>> shares({"question": 3, "others": 1})["question"]
    0.75
    """
    whole = sum(counted.values())
    return {name: counted.get(name, 0) / whole if whole else 0.0 for name in STRATEGIES.ids}


def total_variation(first: Mapping[str, int], second: Mapping[str, int]) -> float:
    """Half the sum of the differences of shares.

    >>> total_variation({"question": 1}, {"question": 2}), total_variation({"question": 1}, {"others": 1})
    (0.0, 1.0)
    """
    one, two = shares(first), shares(second)
    return sum(abs(one[name] - two[name]) for name in STRATEGIES.ids) / 2


def distance_figure(
    name: str, stated: Sequence[Sequence[str]], people: Mapping[str, int], resamples: Resamples
) -> Figure:
    """Total variation between what the replies state and people's counts; the interval resamples our dialogues."""
    table = np.zeros((len(stated), len(STRATEGIES)))
    for row, strategies in zip(table, stated, strict=True):
        for strategy in strategies:
            row[STRATEGIES.ids.index(strategy)] += 1
    everyone = np.ones(len(stated), dtype=bool)
    with np.errstate(invalid="ignore"):
        sums = resamples.sums(table, everyone)
        draws = np.abs(sums / sums.sum(axis=1, keepdims=True) - np.array(list(shares(people).values()))).sum(axis=1) / 2
    value = total_variation(dict(zip(STRATEGIES.ids, table.sum(axis=0).astype(int).tolist(), strict=True)), people)
    return estimate(name, value, draws if resamples.groups > 1 else np.zeros(0), int(table.any(axis=1).sum()))


def count_strategies(strategies: Iterable[Sequence[str]]) -> dict[str, int]:
    return dict(Counter(one for each in strategies for one in each))


def people_of(name: str) -> list[Dialogue]:
    """Dialogues of people who noted their strategies: a file of dialogues, or CORPUS:PATH, or `bundled`."""
    corpus, colon, path = name.partition(":")
    if corpus in CORPORA and (colon or corpus == "bundled"):
        outcomes = load(corpus, Path(path))
        dialogues = [outcome for outcome in outcomes if not isinstance(outcome, Rejected)]
    else:
        dialogues = list(read(Path(name)))
    if not any(said.strategy for dialogue in dialogues for said in dialogue.utterances):
        raise UserError(f"{name}: no utterance of these dialogues carries a strategy. ESConv's do: esconv:FOLDER.")
    return dialogues


def strategies_of(dialogues: Iterable[Dialogue]) -> dict[str, dict[str, int]]:
    """People's strategies by language, one count a supporter turn and strategy, as stated ones are counted."""
    found: dict[str, Counter[str]] = {}
    for dialogue in dialogues:
        counted = found.setdefault(dialogue.language, Counter())
        for one in rounds(dialogue):
            counted.update(one.supporter.strategies)
    return {language: dict(counted) for language, counted in found.items() if counted}
