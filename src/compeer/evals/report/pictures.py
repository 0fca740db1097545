"""Which figures a report shows: those of comparable evaluations, of studies of judges, and of training runs.

A group of evaluations gets the paired differences with their intervals (the forest plot), every case before and after,
the distribution of its scores, the results themselves by scale, and strategies by stage as the supporter states them;
SAGE also its emotion curves. A study of judges gets Table 1 as dots, verdicts against labels, ROC and calibration.
Training runs get their curves over one another.

Words come from texts.json, in both languages, because the room Runs shows the same figures.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from compeer.cer.item import QUESTIONS, Question
from compeer.evals.language.measure import shares
from compeer.evals.report.charts import (
    Caption,
    Chart,
    Dot,
    Line,
    curves,
    distribution,
    forest,
    heat,
    moods,
    pairs_of_bars,
    short,
    slopes,
    slug,
)
from compeer.evals.report.gather import TEXTS, ReportRun, RunGroup, TrainedRun
from compeer.evals.report.tables import (
    PairedRuns,
    case_score,
    columns_of,
    figure_words,
    paired,
)
from compeer.evals.result import LANGUAGE_NAMES
from compeer.reasoning import parse
from compeer.reasoning.ontology import STAGES, STRATEGIES, Language
from compeer.reward.evaluation.measure import JudgeResult
from compeer.reward.evaluation.report import ReportSection
from compeer.statistics import Figure
from compeer.statistics.agreement import kappa
from compeer.training.metrics import metric_words

#: where the scale of a figure ends; figures of one scale share an axis
SCALES = (1.0, 5.0, 100.0)
#: scales that are known, whatever the values: a rating of 4 % is no score of 4, and a reward of 0.4 is no share
SCALE_OF_BENCHMARK, SCALE_OF_FIGURE = {"esc-eval": 100.0, "sage": 100.0}, {"reward": 5.0}
_FEWEST_REPLIES = 5  # with a stated stage and strategy, for a heat map
_FEWEST_IN_BIN = 3  # answers, for a dot of calibration
_MAIN = ("reward", "judge/training", "judge/second", "loss", "mean_token_accuracy", "diversity/distinct_2", "entropy",
         "format/incomplete")  # fmt: skip
_TABLE1: dict[Question, tuple[str, ...]] = {
    **dict.fromkeys(QUESTIONS[:3], ("weighted_f1", "recall_false")),
    "preference": ("weighted_f1", "accuracy"),
}


class PictureWords:
    def __init__(self, language: Language) -> None:
        self.language = language

    def __call__(self, key: str, **values: Any) -> str:
        found: str = TEXTS["pictures"][key][self.language]
        return found.format(**values) if values else found


def scale_end(figure: Figure, benchmark: str = "") -> float:
    """Where the scale of a figure ends: where that is known, else at one that holds its values.

    >>> [scale_end(Figure("x", 0, low, high)) for low, high in ((0.2, 0.9), (-4.5, 2), (55, 71), (0, 250))]
    [1.0, 5.0, 100.0, inf]
    >>> scale_end(Figure("en/reward", 0.4, 0.2, 0.6)), scale_end(Figure("Fluency", 4, 3, 5), "esc-eval")
    (5.0, 100.0)
    """
    least = SCALE_OF_FIGURE.get(figure.name.rpartition("/")[2], SCALE_OF_BENCHMARK.get(benchmark, 0.0))
    most = max(least, *(abs(one or 0.0) for one in (figure.low, figure.value, figure.high)))
    return next((end for end in SCALES if most <= end), math.inf)


def by_scale(dots: Iterable[Dot], benchmark: str, say: PictureWords) -> list[tuple[str, list[Dot]]]:
    """Dots in panels, one for each scale; the dots of a row stay together."""
    ends: dict[str, float] = {}
    for dot in (given := list(dots)):
        ends[dot.row] = max(ends.get(dot.row, 0.0), scale_end(dot.figure, benchmark))
    found: dict[float, list[Dot]] = {}
    for dot in given:
        found.setdefault(ends[dot.row], []).append(dot)
    rest = say("scale.other")
    return [(say(f"scale.{end:.0f}") if end in SCALES else rest, found[end]) for end in sorted(found)]


def group_charts(group: RunGroup, language: Language = "en") -> list[Chart]:
    """The figures of comparable evaluations, the most telling first."""
    say, made = PictureWords(language), []
    name = f"{slug(group.benchmark)}-{group.runs[0].number}"
    for number, pair in enumerate(paired(group)):
        made.append(_differences(f"{name}-differences-{number + 1}", pair, say))
        made += _slopes(f"{name}-cases-{number + 1}", pair, say)
    made += _distribution(f"{name}-distribution", group, say)
    if group.benchmark == "sage":
        made += [one for run in group.runs for one in _moods(f"{name}-emotion-{run.number}", run, say)]
    made += _results(f"{name}-results", group, say)
    if group.benchmark != "control":  # there both are pinned
        made += [one for run in group.runs for one in _stages(f"{name}-stages-{run.number}", run, say)]
    made += _strategies(name, group, say)
    return made + confusion_charts(group, language)


def _in_words(figures: Iterable[Figure], *, signed: bool = False) -> str:
    """Figures with their intervals in a sentence."""
    told = []
    for one in figures:
        value = f"{one.value or 0:+.3g}" if signed else short(one.value or 0)
        spread = "" if one.low is None or one.high is None else f" ({short(one.low)} … {short(one.high)})"
        told.append(f"{figure_words(one.name)} {value}{spread}")
    return ", ".join(told)


def _differences(name: str, pair: PairedRuns, say: PictureWords) -> Chart:
    sides = {"first": pair.first.label, "second": pair.second.label}
    chance = pair.first.result.differences_are_chance or pair.second.result.differences_are_chance
    dots = [Dot(figure_words(one.name), one, hollow=chance or not one.differs_from(0)) for one in pair.differences]
    panels = by_scale(dots, pair.first.result.benchmark, say)
    note = say("forest.note", first=sides["first"]) + (f" {say('forest.chance')}" if chance else "")
    says = say("forest.says", figures=_in_words(pair.differences, signed=True), **sides)
    return forest(Caption(name, say("forest.title", **sides), says, note), panels, zero=True)


def _slopes(name: str, pair: PairedRuns, say: PictureWords) -> list[Chart]:
    """Every case before and after, in the score that stands for a case."""
    benchmark = pair.first.result.benchmark
    before, after = (
        {one.id: score for one in run.transcripts if (score := case_score(benchmark, one))}
        for run in (pair.second, pair.first)
    )
    cases = [(case, before[case][1], after[case][1]) for case in before if case in after]
    if len({value for _, one, two in cases for value in (one, two)}) < 2:
        return []
    rose, fell = sum(two > one for _, one, two in cases), sum(two < one for _, one, two in cases)
    counts = {"rose": rose, "fell": fell, "same": len(cases) - rose - fell}
    measure = figure_words(next(iter(before.values()))[0])
    sides = {"second": pair.second.label, "first": pair.first.label, "measure": measure}
    first, last = (short(sum(side) / len(cases)) for side in ([one for _, one, _ in cases], [two for *_, two in cases]))
    says = say("slopes.says", n=len(cases), before=first, after=last, **counts, **sides)
    caption = Caption(name, say("slopes.title", **sides), says, say("slopes.note", **counts))
    return [slopes(caption, (pair.second.label, pair.first.label), cases)]


def _distribution(name: str, group: RunGroup, say: PictureWords) -> list[Chart]:
    """How the score that stands for a case is distributed; yes and no need no picture."""
    sets, measure = [], ""
    for run in group.runs:
        scores = [score for one in run.transcripts if (score := case_score(group.benchmark, one))]
        if scores:
            measure = figure_words(scores[0][0])
            sets.append((run.label, run.colour, [value for _, value in scores]))
    if len({value for *_, values in sets for value in values}) < 3:
        return []
    told = [
        say("distribution.set", name=label, median=short(statistics.median(values)), n=len(values))
        for label, _, values in sets
    ]
    says = say("distribution.says", measure=measure, sets="; ".join(told))
    return [distribution(Caption(name, say("distribution.title", measure=measure), says), sets, below=measure)]


def _results(name: str, group: RunGroup, say: PictureWords) -> list[Chart]:
    """The figures themselves; of ESC-Eval and SAGE the paper's columns."""
    columns = columns_of(group.benchmark)
    kept = [
        (run, one) for run in group.runs for one in run.result.figures if one.low is not None and one.value is not None
    ]
    if columns:
        kept = [(run, one) for run, one in kept if one.name in columns]
    if not kept:
        return []
    order = list(dict.fromkeys(one.name for _, one in kept))
    kept.sort(key=lambda one: order.index(one[1].name))  # the runs of a figure stand together
    dots = [Dot(figure_words(one.name), one, run.label, run.colour) for run, one in kept]
    says = say(
        "results.says", models=", ".join(run.label for run in group.runs), figures=_in_words(one for _, one in kept)
    )
    if group.benchmark == "esc-eval":
        return [forest(Caption(name, say("dimensions.title"), says), [(say("scale.100"), dots)], ends=(0, 100))]
    caption = Caption(name, say("results.title"), says, say("results.note"))
    return [forest(caption, by_scale(dots, group.benchmark, say))]


def _stages(name: str, run: ReportRun, say: PictureWords) -> list[Chart]:
    """Stated strategies by stated stage, over all replies of a run."""
    counts: Counter[tuple[str, str]] = Counter()
    for said in (turn for one in run.transcripts for turn in one.said if turn.reasoning):
        labels = parse(f"{said.reasoning}\n{said.text}").labels
        if "stage" in labels and "strategy" in labels:
            counts[str(labels["strategy"]), str(labels["stage"])] += 1
    if counts.total() < _FEWEST_REPLIES:
        return []
    table = [[counts[strategy, stage] for stage in STAGES.ids] for strategy in STRATEGIES.ids]
    rows, columns = ([one.get(key).name(say.language) for key in one.ids] for one in (STRATEGIES, STAGES))
    top = []
    for at, stage in enumerate(columns):
        own = [row[at] for row in table]
        if sum(own):
            share = f"{max(own) / sum(own):.0%}"
            top.append(say("stages.top", stage=stage, strategy=rows[own.index(max(own))], share=share))
    says = say("stages.says", model=run.label, n=counts.total(), top="; ".join(top))
    caption = Caption(name, say("stages.title", model=run.label), says, say("stages.note"))
    axes = (say("axis.strategy"), say("axis.stage"))
    return [heat(caption, rows, columns, table, axes=axes, colour=run.colour)]


def _moods(name: str, run: ReportRun, say: PictureWords) -> list[Chart]:
    cases = [(one.id, one.curve, one.end or "") for one in run.transcripts if one.curve]
    if not cases:
        return []
    end = f"{sum(curve[-1] for _, curve, _ in cases) / len(cases):.1f}"
    says = say("moods.says", n=len(cases), model=run.label, end=end)
    caption = Caption(name, say("moods.title", model=run.label), says, say("moods.note"))
    return [moods(caption, cases, run=run.number, colour=run.colour, below=say("axis.turn"))]


def _strategies(name: str, group: RunGroup, say: PictureWords) -> list[Chart]:
    """The strategies that runs state against people's, by run and language; all panels share one scale."""
    stated = [(run, *one) for run in group.runs for one in run.result.setup.get("strategies", {}).items()]
    sides = [shares(entry[side]) for *_, entry in stated for side in ("model", "people")]
    most = max((share for side in sides for share in side.values()), default=1.0)
    made = []
    for run, language, entry in stated:
        ours, theirs = (
            {STRATEGIES.get(key).name(say.language): share for key, share in shares(entry[side]).items()}
            for side in ("model", "people")
        )
        about = {"model": run.label, "language": LANGUAGE_NAMES.get(language, language)}
        title, says = say("strategies.title", source=entry["source"], **about), say("strategies.says", **about)
        called = f"{name}-strategies-{run.number}-{slug(str(language))}"
        caption = Caption(called, title, says, say("strategies.note"))
        made.append(pairs_of_bars(caption, ours, theirs, run.label, most=most, colour=run.colour))
    return made


def confusion_charts(group: RunGroup, language: Language = "en") -> list[Chart]:
    """Stated strategies against those that were read out of the replies, for each run and reader."""
    say, found = PictureWords(language), []
    for run in group.runs:
        for number, (reader, confusion) in enumerate(run.result.setup.get("agreement", {}).items()):
            rows = [key for key in STRATEGIES.ids if key in confusion]
            columns = [key for key in STRATEGIES.ids if any(key in read for read in confusion.values())]
            if not rows or not columns:
                continue
            table = [[confusion[row].get(column, 0) for column in columns] for row in rows]
            same = sum(confusion[key].get(key, 0) for key in rows)
            says = say("confusion.says", n=sum(map(sum, table)), same=same)
            title = say("confusion.title", model=run.label, reader=reader)
            stated, read = ([STRATEGIES.get(key).name(language) for key in keys] for keys in (rows, columns))
            caption = Caption(f"{slug(group.benchmark)}-read-{run.number}-{number + 1}", title, says, says)
            axes = (say("axis.stated"), say("axis.read"))
            found.append(heat(caption, stated, read, table, axes=axes, by_row=True, colour=run.colour))
    return found


def judge_charts(name: str, section: ReportSection, language: Language = "en") -> list[Chart]:
    """The figures of judges on one set with labels of one origin."""
    say = PictureWords(language)
    judges = [one for one in section.results if one.role != "baseline"]
    colours = {one.name: number for number, one in enumerate(judges)}
    dots = [
        Dot(f"{say(f'question.{question}')}, {say(f'measure.{measure}')}"[:40], found, one.name, colours[one.name])
        for question in QUESTIONS
        for measure in _TABLE1[question]
        for one in judges
        if (found := one.figure(question, measure)) is not None and found.value is not None
    ]
    told = ", ".join(f"{dot.series} {dot.row} {short(dot.figure.value or 0)}" for dot in dots)
    title, note = say("judges.title", set=section.set), say("judges.note", heading=section.heading)
    says = say("judges.says", n=section.items, heading=section.heading, figures=told)
    caption = Caption(f"{name}-judges", title, says, note)
    made = [forest(caption, [(say("scale.1"), dots)], ends=(0, 1))] if dots else []
    for question in QUESTIONS:
        made += [one for judge in judges for one in _agreement(f"{name}-{question}", judge, question, say)]
    for question in QUESTIONS:
        made += _roc_and_calibration(f"{name}-{question}", judges, colours, question, say)
    return made


def _agreement(name: str, judge: JudgeResult, question: Question, say: PictureWords) -> list[Chart]:
    """Verdicts against labels: how often they agree, and beyond chance."""
    asked = judge.questions.get(question)
    if asked is None or not asked.items:
        return []
    classes, table = [*asked.classes, say("verdict.none")], asked.confusion
    pairs = {(row, column): count for row, counts in enumerate(table) for column, count in enumerate(counts) if count}
    agreed = kappa(pairs)
    about = {
        "same": sum(table[at][at] for at in range(len(asked.classes))),
        "n": asked.items,
        "kappa": "-" if math.isnan(agreed) else f"{agreed:.2f}",
    }
    if not any(row[-1] for row in table):
        classes, table = classes[:-1], [row[:-1] for row in table]
    both = {"judge": judge.name, "question": say(f"question.{question}")}
    says, title = say("agree.says", **both, **about), say("agree.title", **both)
    caption = Caption(f"{name}-agreement-{slug(judge.name)}", title, says, say("agree.note", **about))
    return [heat(caption, asked.classes, classes, table, axes=(say("axis.label"), say("axis.verdict")), by_row=True)]


def _roc_and_calibration(
    name: str, judges: Sequence[JudgeResult], colours: dict[str, int], question: Question, say: PictureWords
) -> list[Chart]:
    """Both curves of the judges that give probabilities."""
    asked = [(one.name, one.questions[question]) for one in judges if question in one.questions]
    kind, called = "reply" if question == "preference" else "steps", say(f"question.{question}")
    made = []
    for what, measure in (("roc", "auc"), ("calibration", "ece")):
        lines, told = [], []
        for judge, found in asked:
            bins = [one for one in found.reliability if one.count >= _FEWEST_IN_BIN]
            points = found.roc if what == "roc" else [(one.promised or 0.0, one.came_true or 0.0) for one in bins]
            if not points:
                continue
            most = max((one.count for one in bins), default=1)
            sizes = () if what == "roc" else tuple(2 + 5 * one.count / most for one in bins)
            figure = found.figures[measure]
            value = f"{measure.upper()} {figure.text(2)}"
            across, up = [x for x, _ in points], [y for _, y in points]
            lines.append(Line(f"{judge}, {value}", colours[judge], across, up, "", sizes))
            told.append(f"{judge} {value}")
        front = f"roc.{kind}" if what == "roc" else "calibration"
        axes = (say(f"{front}.across"), say(f"{front}.up"))
        if lines:
            says = say(f"{what}.says", question=called, figures="; ".join(told))
            title = say(f"{what}.title", question=called)
            note = "; ".join(told) + (f". {say('calibration.note')}" if what == "calibration" else "")
            made.append(curves(Caption(f"{name}-{what}", title, says, note), lines, axes=axes, square=True))
    return made


def training_charts(runs: Sequence[TrainedRun]) -> list[Chart]:
    """Curves of training runs over one another, one chart per metric; validation is dashed."""
    logged = {name for run in runs for name in run.metrics.columns}
    return [one for name in _MAIN if name in logged for one in metric_chart(runs, name, metric_words(name), most=60)]


def metric_chart(
    runs: Sequence[TrainedRun], name: str, title: str, language: Language = "en", *, most: int = 150
) -> list[Chart]:
    """One metric of training runs; none where it has no numbers."""
    say, lines, told = PictureWords(language), [], []
    for run in runs:
        for part in ("train", "eval"):
            column = run.metrics.column(name, part)
            if column:
                called = run.label if part == "train" else say("training.held", run=run.label)
                called = called if len(runs) > 1 else say(f"training.{part}")
                # of one run, validation has a colour of its own
                colour = run.colour + (part == "eval" and len(runs) == 1)
                lines.append(Line(called, colour, *column.arrays(), "held" if part == "eval" else ""))
                told.append(say("training.line", run=called, first=short(column.values[0]), last=short(column.last)))
    says = say("training.says", metric=title, figures="; ".join(told))
    axes = (say("axis.step"), "")
    last = short(float(lines[0].ys[-1])) if len(runs) == 1 and lines else ""
    return (
        [curves(Caption(f"metric-{slug(name)}", title, says), lines, axes=axes, most=most, last=last)] if lines else []
    )
