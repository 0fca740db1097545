"""All figures of language for one set of replies, each language apart, as a Result.

Figures are called LANGUAGE/NAME, e.g. `en/distinct-2`; NAMES says what each is. Means over replies and the BLEU of
the corpus resample dialogues; distinct-n and likeness across dialogues use the jackknife (`variety`). Every dialogue
also keeps its own means, so that two runs on the same cases can be compared case by case.

A result of language for a reader: a table of figures with what they mean, and strategies beside people's.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from compeer.evals.language import metrics as bleu
from compeer.evals.language import metrics as repetition
from compeer.evals.language import strategies
from compeer.evals.language.metrics import Floats, across_figure, distinct_figure, rouge_l
from compeer.evals.language.outputs import Output, Outputs
from compeer.evals.language.strategies import shares, total_variation
from compeer.evals.result import Result, Transcript
from compeer.policy.diversity import self_similarity
from compeer.policy.redundancy import Embed, similarities
from compeer.reasoning.ontology import LANGUAGES, Language, words
from compeer.statistics import Figure, Resamples, interval

#: figure -> what it is, in the order of the tables
NAMES: dict[str, str] = {
    "length": "words a reply (Chinese: characters)",
    "length-p10": "a tenth of the replies is shorter",
    "length-p90": "a tenth of the replies is longer",
    "distinct-1": "different words over all words",
    "distinct-2": "different pairs of words over all pairs",
    "distinct-3": "different triples of words over all triples",
    "self-bleu": "BLEU of each reply against all others; lower is more varied",
    "identical": "share of replies that occur more than once, word for word",
    "similarity-within": "mean cosine of two replies of one dialogue",
    "similarity-across": "mean cosine of two replies of different dialogues",
    "repetition": "share of a reply's triples that the supporter has said before in the dialogue",
    "echo": "share of a reply's triples that the seeker has said before",
    "similarity-history": "mean cosine to the utterances before (s_hi of equation 6)",
    "bleu-2": "BLEU up to pairs against the reference, whole corpus",
    "bleu-4": "BLEU up to fours against the reference, whole corpus",
    "rouge-l": "longest common subsequence with the reference, F1",
    "similarity-reference": "cosine to the reference",
    "strategy-distance": "total variation between stated strategies and people's; 0 is the same mixture",
}
Embedders = Callable[[Language], Embed]


class Measured(msgspec.Struct, frozen=True):
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
) -> Measured:
    """Measure a set of replies. `people` holds people's strategies by language; without `embed` no cosines."""
    figures: list[Figure] = []
    found: dict[str, strategies.Strategies] = {}
    notes = ["Distinct-n falls and self-BLEU rises as a set grows: compare sets of about the same size."]
    scores: dict[str, dict[str, float | None]] = defaultdict(dict)
    for language in LANGUAGES:
        outputs = [one for one in source.outputs if one.language == language and one.reply.strip()]
        if not outputs:
            continue
        own = _Language(outputs, embed(language) if embed else None, seed)
        theirs = (people or {}).get(language) or strategies.count(one.reference_strategies for one in outputs)
        stated = strategies.count(one.strategies for one in outputs)
        if stated and theirs:
            found[language] = strategies.Strategies(stated, dict(theirs), people_source or "the references")
        figures += [
            msgspec.structs.replace(figure, name=f"{language}/{figure.name}")
            for figure in (*own.figures(), *own.distance(theirs))
            if figure.value is not None
        ]
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
        "strategies": {language: msgspec.to_builtins(each) for language, each in found.items()},
    }
    # who judged a dialogue changes nothing about its words
    comparable = {name: value for name, value in source.comparable.items() if name not in ("judge", "parser")}
    comparable["cases"] = cases_hash(one.id for one in source.transcripts)
    if embed:
        comparable["embedder"] = embedder
    if found:
        comparable["people"] = people_source or "the references"
    result = Result("diversity", model, comparable, tuple(figures), setup, tuple(notes))
    kept = [
        msgspec.structs.replace(one, scores=scores.get(one.id, {}), curve=(), end=None) for one in source.transcripts
    ]
    return Measured(result, tuple(kept))


def cases_hash(names: Iterable[str]) -> str:
    """Which cases a set is made of, in one short word.

    >>> cases_hash(["b", "a"]) == cases_hash(["a", "b"])
    True
    """
    return hashlib.sha256("\x1f".join(sorted(names)).encode()).hexdigest()[:12]


class _Language:
    """The replies of one language."""

    def __init__(self, outputs: Sequence[Output], embed: Embed | None, seed: int) -> None:
        self.outputs, self.embed = outputs, embed
        self.replies = [one.reply for one in outputs]
        self.dialogues = [one.dialogue for one in outputs]
        self.resamples = Resamples(self.dialogues, seed=seed)
        self.referred = np.array([bool(one.reference) for one in outputs])
        self.values = self._values()

    def _values(self) -> dict[str, Floats]:
        """One value a reply; NaN where it has none."""
        values = {
            "length": [len(words(reply)) for reply in self.replies],
            "self-bleu": bleu.self_bleu(self.replies),
            "identical": repetition.said_elsewhere(self.replies),
            "repetition": [repetition.said_before(one.reply, _by("supporter", one)) for one in self.outputs],
            "echo": [repetition.said_before(one.reply, _by("seeker", one)) for one in self.outputs],
            "rouge-l": [rouge_l(one.reply, one.reference) if one.reference else None for one in self.outputs],
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

    def figures(self) -> list[Figure]:
        made = {name: self._mean(name, values) for name, values in self.values.items()}
        for name, share in (("length-p10", 10), ("length-p90", 90)):
            value = float(np.percentile(self.values["length"], share))
            made[name] = Figure(name, value, n=len(self.replies))
        for n in (1, 2, 3):
            made[f"distinct-{n}"] = distinct_figure(f"distinct-{n}", self.replies, self.dialogues, n)
        if self.embed:
            made["similarity-across"] = across_figure("similarity-across", self.vectors, self.dialogues)
            within = np.array(list(self.within().values()))
            draws = Resamples([str(at) for at in range(len(within))]).mean(within)
            made["similarity-within"] = _figure("similarity-within", within, draws)
        if self.referred.any():
            table = np.array([bleu.counts(o.reply, [o.reference]) for o in self.outputs if o.reference])
            for order in (2, 4):
                draws = bleu.bleu(self.resamples.sums(table, self.referred), order)
                value = float(bleu.bleu(table.sum(axis=0), order))
                low, high = (interval(draws) if self.resamples.groups > 1 else None) or (None, None)
                made[f"bleu-{order}"] = Figure(f"bleu-{order}", value, low, high, len(table))
        return [made[name] for name in NAMES if name in made]

    def distance(self, people: Mapping[str, int]) -> list[Figure]:
        stated = [one.strategies for one in self.outputs]
        if not people or not any(stated):
            return []
        return [strategies.distance_figure("strategy-distance", stated, people, self.resamples)]

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
        if np.isnan(values).all():
            return Figure(name)
        return _figure(name, values, self.resamples.mean(values) if self.resamples.groups > 1 else None)


def _texts(output: Output) -> list[str]:
    texts = [output.reply, output.reference or "", *(turn.text for turn in output.history)]
    return [text for text in texts if text.strip()]


def _by(speaker: str, output: Output) -> list[str]:
    return [turn.text for turn in output.history if turn.speaker == speaker]


def _figure(name: str, values: Floats, draws: Floats | None) -> Figure:
    known = values[~np.isnan(values)]
    if not len(known):
        return Figure(name)
    low, high = (interval(draws) if draws is not None else None) or (None, None)
    return Figure(name, float(known.mean()), low, high, len(known))


_LANGUAGES = {"en": "English", "zh": "Chinese"}


def markdown(result: Result) -> str:
    """The figures of each language side by side, then the strategies."""
    languages = [one for one in _LANGUAGES if any(figure.name.startswith(f"{one}/") for figure in result.figures)]
    lines = [
        f"{result.model}: {result.setup.get('replies', 0)} replies of {result.setup.get('dialogues', 0)} dialogues",
        "",
        "| figure | " + " | ".join(_LANGUAGES[one] for one in languages) + " | what it is |",
        "|---|" + "---:|" * len(languages) + "---|",
    ]
    for name, meaning in NAMES.items():
        cells = [result.figure(f"{language}/{name}") for language in languages]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(shown(cell) for cell in cells) + f" | {meaning} |")
    for language, entry in result.setup.get("strategies", {}).items():
        lines += ["", *strategy_table(entry, _LANGUAGES[language])]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)])


def strategy_table(entry: Mapping[str, Any], title: str) -> list[str]:
    """Shares of the eight strategies, model and people, in lines of Markdown."""
    model, people = shares(entry["model"]), shares(entry["people"])
    distance = total_variation(entry["model"], entry["people"])
    rows = [f"| {name} | {model[name]:.1%} | {people[name]:.1%} |" for name in model]
    return [
        f"{title}: stated strategies against {entry['source']}, total variation {distance:.3f}",
        "",
        "| strategy | model | people |",
        "|---|---:|---:|",
        *rows,
    ]


def shown(figure: Figure | None) -> str:
    """A figure with its interval, with as many digits as it deserves.

    >>> shown(Figure("x", 0.51234, 0.4, 0.6)), shown(Figure("x", 23.4)), shown(None)
    ('0.512 [0.400, 0.600]', '23.4', '')
    """
    if figure is None or figure.value is None:
        return ""
    digits = 3 if abs(figure.value) < 2 else 1
    if figure.low is None or figure.high is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]"
