"""The HTML page, one file with its style, its script, its drawings and its dialogues inside; and report.md.

The templates are page.html and, for the drawings, charts.html. Everything that comes from a run is escaped by them or
travels as JSON. The page's content security policy forbids loading
anything and running any script but its own, which is named by its hash.

What was said is data. It goes into the page as JSON inside a script element of a type that no browser runs, with every
character that could end the element or begin another one written as an escape; the page's script puts it on the screen
as text, never as markup. The reasoning is split into steps here, by `compeer.reasoning`, not in the browser.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from compeer import __version__
from compeer.evals.language.measure import shares
from compeer.evals.report.gather import ReportRun, ReportRuns, RunGroup, caveats, setup_rows, title_of
from compeer.evals.report.tables import (
    ReportTable,
    case_score,
    cell_text,
    columns_of,
    confusion_table,
    group_tables,
    named,
    pair_table,
    paired,
    paper_columns,
    plain_text,
    span,
    value_text,
)
from compeer.evals.result import LANGUAGE_NAMES, Transcript, TranscriptTurn
from compeer.reasoning import LABELS, STEPS, Parsed, parse, split_thinking
from compeer.reasoning.schema import write_value
from compeer.statistics import Figure

#: a step by the name that a reader sees
STEP_NAMES = {
    "en": {"history": "History", "emotion": "Emotion", "strategy": "Strategy"},
    "zh": {"history": "历史", "emotion": "情绪", "strategy": "策略"},
}
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def run_json(run: ReportRun) -> str:
    """A run's dialogues as JSON that may stand inside a script element.

    >>> inline("</script><!--&")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"'
    """
    benchmark, shown = run.result.benchmark, run.transcripts[: run.shown]
    named_score = next((score[0] for sample in shown if (score := case_score(benchmark, sample))), "")
    return inline({"score": named_score, "samples": [_sample(sample, benchmark) for sample in shown]})


def inline(value: Any) -> str:
    """JSON without any character that means something to HTML."""
    text = msgspec.json.encode(value).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def _sample(sample: Transcript, benchmark: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": sample.id,
        "language": sample.language,
        "said": [_said(said) for said in sample.said],
        # SAGE's score is the end of its curve
        "scores": {name: value for name, value in sample.scores.items() if (benchmark, name) != ("sage", "emotion")},
        "about": sample.about,
    }
    if score := case_score(benchmark, sample):
        made["score"] = score[1]
    if sample.curve:
        made["curve"] = sample.curve
    if sample.end:
        made["end"] = sample.end
    return made


def _said(said: TranscriptTurn) -> dict[str, Any]:
    made: dict[str, Any] = {"who": said.speaker, "text": said.text}
    if said.reasoning:
        made["thought"] = _thought(said.reasoning, said.text)
    if said.emotion is not None:
        made["emotion"] = said.emotion
    if said.note:
        made["note"] = said.note
    return made


def _thought(reasoning: str, reply: str) -> dict[str, Any]:
    """The steps with their conclusions; thinking of another form as it is."""
    parsed = parse(f"{reasoning}\n{reply}")
    if not parsed.texts and not parsed.labels:
        thinking, rest = split_thinking(reasoning)
        return {"raw": (thinking or rest).strip()}
    named = _named(parsed)
    titles = STEP_NAMES[parsed.language or "en"]
    steps = [
        {
            "name": titles[step],
            "text": parsed.texts.get(step, ""),
            "labels": [named[label] for label in LABELS[step] if label in named],
        }
        for step in STEPS
    ]
    return {"steps": steps, "chips": _chips(named), "problems": [str(problem) for problem in parsed.problems]}


def _chips(named: dict[str, str]) -> list[str]:
    feeling = named.get("emotion")
    if feeling and "intensity" in named:
        feeling = f"{feeling} {named['intensity']}"
    return [chip for chip in (named.get("stage"), feeling, named.get("strategy")) if chip]


def _named(parsed: Parsed) -> dict[str, str]:
    language = parsed.language or "en"
    named = {label: write_value(label, value, language) for label, value in parsed.labels.items()}
    if "intensity" in named:
        named["intensity"] += "/5"
    return named


#: the figure that stands for a run at a glance
HEADLINES = {
    "sage": ("Sentient", "mean emotion at the end, of 100"),
    "esc-eval": ("Average", "mean of seven dimensions, of 100"),
    "reward": ("reward", "of -5 to 5"),
    "diversity": ("distinct-2", "different pairs of words"),
    "control": ("adherence", "pins kept"),
}
SERIES = 6  # colours; further runs begin again


def page(gathered: ReportRuns, title: str) -> str:
    """The whole page."""
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    readable = [run for run in gathered.runs if run.shown]
    return (
        templates()
        .get_template("page.html")
        .render(
            title=title,
            about=_about(gathered),
            css=_file("page.css"),
            script=script,
            script_hash=f"sha256-{digest}",
            gathered=gathered,
            readable=readable,
            caveats=caveats(gathered),
            names=inline(
                [{"number": run.number, "name": f"{run.label}, {title_of(run.result.benchmark)}"} for run in readable]
            ),
        )
    )


def markdown(gathered: ReportRuns, title: str) -> str:
    """report.md: the same tables and sentences as the page, without drawings and dialogues."""
    return templates().get_template("report.md.jinja").render(title=title, gathered=gathered, caveats=caveats(gathered))


@cache
def templates() -> jinja2.Environment:
    """The templates with what they may call; everything they print is escaped unless it is marked as safe."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"curves_of": _curves_of, "plain": plain_text}
    made.globals |= {
        "series": SERIES,
        "languages": LANGUAGE_NAMES,
        "version": __version__,
        "cell_text": cell_text,
        "columns_of": columns_of,
        "headline": _headline,
        "largest_share": largest_share,
        "mean_curve": _mean_curve,
        "overall": _overall,
        "remarks": _remarks,
        "run_json": run_json,
        "setup_rows": setup_rows,
        "shares": shares,
        "side_by_side": _side_by_side,
        "span": span,
        "stated": _stated,
        "tables_of": _tables_of,
        "title_of": title_of,
        "value_text": value_text,
    }
    return made


def _about(gathered: ReportRuns) -> str:
    models = dict.fromkeys(run.result.model for run in gathered.runs)
    runs = f"{len(gathered.runs)} runs" if len(gathered.runs) > 1 else "one run"
    shown = sum(run.shown for run in gathered.runs)
    return f"{runs} of {', '.join(models)}; {shown:,} dialogues to read"


def _headline(run: ReportRun) -> tuple[Figure | None, str]:
    """The figure that stands for a run, and what it is."""
    column, meaning = HEADLINES.get(run.result.benchmark, ("", ""))
    figures = run.result.figures
    return next((one for one in figures if named(one.name).column == column), figures[0] if figures else None), meaning


def _tables_of(
    group: RunGroup, first: bool
) -> tuple[ReportTable, ReportTable | None, list[ReportTable], list[ReportTable]]:
    """Our main table, the paper's beside the first group of a benchmark, the paired differences, and all the others."""
    ours, *others = group_tables(group)
    for run in group.runs if group.benchmark == "control" else ():
        for reader, confusion in run.result.setup.get("agreement", {}).items():
            if confusion:
                others.append(confusion_table(f"{run.label}: stated strategy against {reader}", confusion))
    paper = paper_columns(group.benchmark) if first else None
    return ours, paper, [pair_table(pair) for pair in paired(group)], others


def _remarks(table: ReportTable) -> tuple[str, ...]:
    """What the marks in a table's cells mean."""
    return tuple(dict.fromkeys(f"† {row.name}: {remark}." for row in table.rows for remark in row.marks.values()))


def _side_by_side(group: RunGroup, more: list[ReportTable]) -> list[tuple[bool, list[ReportTable | None]]]:
    """Narrow blocks that follow one another, and wide ones; None stands for the charts."""
    blocks = [(group.benchmark == "esc-eval", None), *((table.narrow, table) for table in more)]
    return [(narrow, [table for _, table in some]) for narrow, some in groupby(blocks, key=lambda block: block[0])]


def _curves_of(run: ReportRun) -> list[Transcript]:
    return [sample for sample in run.transcripts if sample.curve]


def _mean_curve(samples: list[Transcript]) -> list[float]:
    """The mean emotion by turn; a dialogue that has ended keeps its last value."""
    curves = [sample.curve for sample in samples]
    turns = range(max(map(len, curves)))
    return [sum(curve[min(turn, len(curve) - 1)] for curve in curves) / len(curves) for turn in turns]


def _overall(group: RunGroup) -> dict[int, dict[str, Figure | None]]:
    """By run, the figures of ESC-Eval over all judges and languages."""
    return {run.number: {name: run.result.figure(name) for name in columns_of("esc-eval")} for run in group.runs}


def _stated(group: RunGroup) -> list[tuple[ReportRun, str, dict[str, Any]]]:
    """The strategies that runs state, by run and language."""
    return [(run, *one) for run in group.runs for one in run.result.setup.get("strategies", {}).items()]


def largest_share(group: RunGroup) -> float:
    """The share at which the bars of all panels end: panels side by side share one scale."""
    sides = [shares(entry[side]) for *_, entry in _stated(group) for side in ("model", "people")]
    return max(share for side in sides for share in side.values())


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
