"""The HTML page, one file with its style, its script, its drawings and its dialogues inside; and report.md.

The template is page.html, with figure.html for each figure. Everything that comes from a run is escaped by them or
travels as JSON. The page's content security policy forbids loading anything and running any script but its own, named
by its hash. CSV and LaTeX of a figure are data addresses; its SVG is in the page already, and the script saves it.

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
from urllib.parse import quote

import jinja2
import msgspec

from compeer import __version__
from compeer.evals.report import tables
from compeer.evals.report.charts import COLOURS, FOLDER, Chart, short, style
from compeer.evals.report.gather import TEXTS, ReportRun, ReportRuns, RunGroup, caveats, setup_rows, title_of
from compeer.evals.report.pictures import confusion_charts, group_charts, judge_charts, training_charts
from compeer.evals.report.tables import named
from compeer.evals.result import Transcript, TranscriptTurn
from compeer.reasoning import LABELS, STEPS, parse, split_thinking
from compeer.reasoning.parse import chips, named_labels
from compeer.statistics import Figure

_PLAIN = " ,;:/$&()*+-=@[]^_{}|\\"
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def run_json(run: ReportRun) -> str:
    """A run's dialogues as JSON that may stand inside a script element.

    >>> inline("</script><!--&")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"'
    """
    benchmark, shown = run.result.benchmark, run.transcripts[: run.shown]
    named_score = next((score[0] for sample in shown if (score := tables.case_score(benchmark, sample))), "")
    return inline(
        {"score": tables.figure_words(named_score), "samples": [sample_view(one, benchmark) for one in shown]}
    )


def inline(value: Any) -> str:
    """JSON without any character that means something to HTML."""
    text = msgspec.json.encode(value).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def sample_view(sample: Transcript, benchmark: str) -> dict[str, Any]:
    """A dialogue as pages show it: what was said, the reasoning in steps, scores under names for people."""
    scores = {name: value for name, value in sample.scores.items() if (benchmark, name) != ("sage", "emotion")}
    _, score = tables.case_score(benchmark, sample) or ("", None)
    return {
        "id": sample.id,
        "language": sample.language,
        "said": [_said(said) for said in sample.said],
        "scores": {
            tables.figure_words(name): value for name, value in scores.items()
        },  # SAGE's is the end of its curve
        "about": sample.about,
        **_given(score=score, curve=sample.curve, end=sample.end),
    }


def _said(said: TranscriptTurn) -> dict[str, Any]:
    thought = _thought(said.reasoning, said.text) if said.reasoning else None
    return {"who": said.speaker, "text": said.text, **_given(thought=thought, emotion=said.emotion, note=said.note)}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def _thought(reasoning: str, reply: str) -> dict[str, Any]:
    """The steps with their conclusions; thinking of another form as it is."""
    parsed = parse(f"{reasoning}\n{reply}")
    if not parsed.texts and not parsed.labels:
        thinking, rest = split_thinking(reasoning)
        return {"raw": (thinking or rest).strip()}
    named, titles = named_labels(parsed), TEXTS["steps"][parsed.language or "en"]
    named |= {"intensity": f"{named['intensity']}/5"} if "intensity" in named else {}
    steps = [
        {
            "name": titles[step],
            "text": parsed.texts.get(step, ""),
            "labels": [named[label] for label in LABELS[step] if label in named],
        }
        for step in STEPS
    ]
    return {"steps": steps, "chips": chips(parsed), "problems": [str(problem) for problem in parsed.problems]}


def page(gathered: ReportRuns, title: str) -> str:
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    readable = [run for run in gathered.runs if run.shown]
    return (
        templates()
        .get_template("page.html")
        .render(
            title=title,
            about=_about(gathered),
            css=(FOLDER / "static" / "charts.css").read_text(encoding="utf-8") + _file("page.css"),
            chart_style=inline(style()),
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
        loader=jinja2.FileSystemLoader([Path(__file__).parent, FOLDER / "templates"]),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"plain": tables.plain_text}
    from_tables = (tables.cell_text, tables.figure_words, tables.span, tables.value_text)
    charts = (confusion_charts, group_charts, judge_charts, training_charts, short, _file_address)
    called = (*from_tables, *charts, run_json, setup_rows, title_of, _headline, _remarks, _side_by_side, _tables_of)
    made.globals |= {function.__name__.strip("_"): function for function in called}
    made.globals |= {"series": COLOURS, "version": __version__}
    return made


def _about(gathered: ReportRuns) -> str:
    models = dict.fromkeys(run.result.model for run in gathered.runs)
    counts = {
        "evaluation": len(gathered.runs),
        "training run": len(gathered.training),
        "judge study": len(gathered.judging),
    }
    told = [f"{n} {name}{'s' if n > 1 else ''}".replace("ys", "ies") for name, n in counts.items() if n]
    shown = sum(run.shown for run in gathered.runs)
    if shown:
        told.append(f"{shown:,} dialogues to read")
    return f"{', '.join(told)}{': ' if models else ''}{', '.join(models)}"


def _headline(run: ReportRun) -> tuple[Figure | None, str]:
    """The figure that stands for a run, and what it is."""
    column, meaning = TEXTS["headlines"].get(run.result.benchmark, ("", ""))
    figures = run.result.figures
    return next((one for one in figures if named(one.name).column == column), figures[0] if figures else None), meaning


def _tables_of(
    group: RunGroup, first: bool
) -> tuple[tables.ReportTable, tables.ReportTable | None, list[tables.ReportTable], list[tables.ReportTable]]:
    """Our main table, the paper's beside the first group of a benchmark, the paired differences, and all the others."""
    ours, *others = tables.group_tables(group)
    paper = tables.paper_columns(group.benchmark) if first else None
    return ours, paper, [tables.pair_table(pair) for pair in tables.paired(group)], others


def _remarks(table: tables.ReportTable) -> tuple[str, ...]:
    """What the marks in a table's cells mean."""
    return tuple(dict.fromkeys(f"† {row.name}: {remark}." for row in table.rows for remark in row.marks.values()))


def _side_by_side(shown: list[tables.ReportTable]) -> list[tuple[bool, list[tables.ReportTable]]]:
    """Narrow tables that follow one another, and wide ones."""
    return [(narrow, list(some)) for narrow, some in groupby(shown, key=lambda table: table.narrow)]


def _file_address(chart: Chart, kind: str) -> str:
    """A figure's file as a data address; the drawing itself is in the page already."""
    kinds = {"csv": "text/csv", "tex": "application/x-tex"}
    # a browser leaves these characters as they are, and the page stays smaller
    return f"data:{kinds[kind]};charset=utf-8,{quote(chart.file(kind), safe=_PLAIN)}" if kind in kinds else ""


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
