"""The HTML page: one file with its style, its script, its drawings and its dialogues inside.

Everything that comes from a run is escaped here or travels as JSON. The page's content security policy forbids loading
anything and running any script but its own, which is named by its hash.

What was said is data. It goes into the page as JSON inside a script element of a type that no browser runs, with every
character that could end the element or begin another one written as an escape; the page's script puts it on the screen
as text, never as markup. The reasoning is split into steps here, by `compeer.reasoning`, not in the browser.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from compeer import __version__
from compeer.evals.report import charts
from compeer.evals.report.gather import ReportRun, ReportRuns, RunGroup, caveats, setup_rows, title_of
from compeer.evals.report.tables import (
    ReportTable,
    TableRow,
    case_score,
    columns_of,
    confusion_table,
    group_tables,
    named,
    pair_table,
    paired,
    paper_columns,
    span,
    value_text,
)
from compeer.evals.result import LANGUAGE_NAMES, Transcript, TranscriptTurn
from compeer.reasoning import LABELS, STEPS, Parsed, parse, split_thinking
from compeer.reasoning.schema import write_value

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


def page(gathered: ReportRuns, title: str) -> str:
    """The whole page."""
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    readable = [run for run in gathered.runs if run.shown]
    links = [(name, title_of(name)) for name in gathered.benchmarks]
    links += [("transcripts", "Transcripts")] if readable else []
    links += [("how", "How it was run"), ("caveats", "What to keep in mind")]
    names = [{"number": run.number, "name": f"{run.label}, {title_of(run.result.benchmark)}"} for run in readable]
    return Template(_file("page.html")).substitute(
        title=escape(title),
        about=escape(_about(gathered)),
        css=_file("page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        links=" ".join(f'<a href="#{escape(name)}">{escape(text)}</a>' for name, text in links),
        cards="".join(map(_card, gathered.runs)),
        sections="\n".join(_section(name, gathered.of(name)) for name in gathered.benchmarks),
        how=f'<div class="runs">{"".join(map(_how, gathered.runs))}</div>',
        caveats="".join(f"<li>{escape(text)}</li>" for text in caveats(gathered)),
        version=escape(__version__),
        runs=inline(names),
        data="\n".join(
            f'<script type="application/json" id="run-{run.number}">{run_json(run)}</script>' for run in readable
        ),
    )


def _about(gathered: ReportRuns) -> str:
    models = dict.fromkeys(run.result.model for run in gathered.runs)
    runs = f"{len(gathered.runs)} runs" if len(gathered.runs) > 1 else "one run"
    shown = sum(run.shown for run in gathered.runs)
    return f"{runs} of {', '.join(models)}; {shown:,} dialogues to read"


def _card(run: ReportRun) -> str:
    benchmark = run.result.benchmark
    column, meaning = HEADLINES.get(benchmark, ("", ""))
    figures = run.result.figures
    figure = next((one for one in figures if named(one.name).column == column), figures[0] if figures else None)
    if figure is None:
        return ""
    name = f"{title_of(benchmark)}, {figure.name}"
    simulator = run.result.comparable.get("simulator") if benchmark == "sage" else None
    under = f'<span class="quiet">with {escape(simulator)}</span>' if simulator else ""
    return (
        f'<div class="card s{run.colour % charts.SERIES}"><b>{escape(run.label)}</b>'
        f'<span class="quiet">{escape(name)}</span><div class="big">{value_text(figure)}</div>'
        f'<span class="quiet">{escape(span(figure) or meaning)}</span>{under}</div>'
    )


def _section(benchmark: str, groups: list[RunGroup]) -> str:
    parts = [f'<section id="{escape(benchmark)}"><h2>{escape(title_of(benchmark))}</h2>']
    for group in groups:
        if group.apart:
            parts.append(f'<p class="apart">{escape(group.apart)} The two do not share a column.</p>')
        first, *others = group_tables(group)
        pairs = [pair_table(pair) for pair in paired(group)]
        paper = [table] if group is groups[0] and (table := paper_columns(benchmark)) else []
        drawings = _charts(group)
        parts.append(f'<p class="under">{escape(first.title)}</p>')
        ours = f"<div><h3>Measured here</h3>{_table(first)}</div>" if paper else f"<div>{_table(first)}</div>"
        more = [_block(table) for table in (*pairs, *others, *_more(group))]
        if benchmark == "sage":  # few columns: ours on the left, the paper's or the curves on the right
            left = "".join([ours, *(html for _, html in more)])
            right = _block(paper[0])[1] if paper else f"<div>{drawings}</div>"
            parts.append(f'<div class="beside"><div>{left}</div>{right}</div>{drawings if paper else ""}')
        else:
            chart = [(benchmark == "esc-eval", drawings)] if drawings else []
            parts.append(_flow([(False, ours), *map(_block, paper), *chart, *more]))
    return "".join([*parts, "</section>"])


def _block(table: ReportTable) -> tuple[bool, str]:
    """A titled table, and whether it is narrow enough to stand beside another."""
    tag = '<span class="tag">the paper\'s</span>' if table.paper else ""
    kind = ' class="paper"' if table.paper else ""
    return table.narrow, f"<div{kind}><h3>{tag}{escape(table.title)}</h3>{_table(table)}</div>"


def _flow(blocks: Iterable[tuple[bool, str]]) -> str:
    """Narrow blocks that follow one another stand side by side where there is room."""
    made = []
    for narrow, some in groupby(blocks, key=lambda block: block[0]):
        inside = "".join(html for _, html in some)
        made.append(f'<div class="beside">{inside}</div>' if narrow else inside)
    return "".join(made)


def _charts(group: RunGroup) -> str:
    drawn: list[tuple[str, str]] = []
    told = ""
    if group.benchmark == "sage":
        told = (
            "Each dialogue thin, their mean thick; a dialogue that has ended keeps its last value in the mean. Dashed: "
            "100, where a dialogue succeeds, and 10, below which it fails. Click a line to read the dialogue."
        )
        drawn = [(f"{run.label}, emotion", drawing) for run in group.runs if (drawing := charts.curves(run))]
    elif group.benchmark == "esc-eval":
        find = {
            run.number: {f.name: f for f in run.result.figures if named(f.name).column == f.name} for run in group.runs
        }
        key = "".join(
            f'<span class="s{run.colour % charts.SERIES}"><i class="swatch"></i>{escape(run.label)}</span>'
            for run in group.runs
        )
        drawing = charts.dimensions(columns_of("esc-eval"), group.runs, find)
        return f'<div><h3>By dimension</h3><figure><figcaption class="key">{key}</figcaption>{drawing}</figure></div>'
    elif group.benchmark == "diversity":
        told = "Bars: what the model states. Lines with a dot: people. All panels have the same scale."
        entries = [(run, *one) for run in group.runs for one in run.result.setup.get("strategies", {}).items()]
        most = charts.strategy_scale(entry for *_, entry in entries)
        for run, language, entry in entries:
            name = f"{run.label}, strategies, {LANGUAGE_NAMES.get(language, language)}, against {entry['source']}"
            drawn.append((name, charts.strategies(entry, run, language, most)))
    figures = "".join(f"<figure><figcaption>{escape(name)}</figcaption>{drawing}</figure>" for name, drawing in drawn)
    return f'<div class="charts">{figures}</div><p class="note">{told}</p>' if figures else ""


def _more(group: RunGroup) -> Iterable[ReportTable]:
    """For control, what was stated against what was read."""
    for run in group.runs if group.benchmark == "control" else ():
        for reader, confusion in run.result.setup.get("agreement", {}).items():
            if confusion:
                yield confusion_table(f"{run.label}: stated strategy against {reader}", confusion)


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (table.first, *table.columns))
    rows = "".join(_row(row, table) for row in table.rows)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    wordy = " wordy" if table.first == "figure" else ""
    return (
        f'<div class="scroll{wordy}" tabindex="0" role="region" aria-label="{escape(table.title)}"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def _row(row: TableRow, table: ReportTable) -> str:
    colour = f' class="s{row.series % charts.SERIES}"' if row.series is not None else ""
    swatch = '<i class="swatch"></i>' if row.series is not None and row.name else ""
    beside = f'<span class="quiet">{escape(row.beside)}</span>' if row.beside else ""
    cells = []
    for at, figure in enumerate(row.cells):
        if figure is None:
            cells.append("<td></td>")
            continue
        between = span(figure, signed=table.signed)
        small = f"<small>{escape(between)}</small>" if between else ""
        remark = row.marks.get(at)
        mark = f'<sup title="{escape(remark)}">†</sup>' if remark else ""
        strong = ' class="sure"' if table.sure(figure) else ""
        cells.append(f"<td{strong}>{value_text(figure, signed=table.signed)}{mark}{small}</td>")
    below = "" if row.name else ' class="below"'
    return f'<tr{colour}><th scope="row"{below}>{swatch}{escape(row.name)}{beside}</th>{"".join(cells)}</tr>'


def _how(run: ReportRun) -> str:
    def rows(values: dict[str, Any], strong: bool = False) -> str:
        found = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in setup_rows(values))
        return f"<dl{' class=strong' if strong else ''}>{found}</dl>"

    named_run = f"{run.label}, {title_of(run.result.benchmark)}"
    left = f'<p class="note">{run.left_out:,} more dialogues lie in the run\'s folder.</p>' if run.left_out else ""
    return (
        f'<div class="run"><h3>{escape(named_run)}</h3>{rows(run.result.comparable, strong=True)}'
        f"{rows({**run.result.setup, 'folder': run.path.name})}{left}</div>"
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
