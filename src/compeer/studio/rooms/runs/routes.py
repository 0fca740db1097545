"""The pages of Runs: the list, a run, an evaluation, several side by side, figures as files, a report, notes.

What a page shows is in its address, so a link reproduces the view, and everything works without a script.

A report is a file that an evaluation wrote and that holds whatever models said. It is sent as it is, in a sandbox of
its own: its scripts run, without cookies, without network, without any way back to the studio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from compeer.evals.report.charts import Chart, short
from compeer.evals.report.gather import TrainedRun, setup_rows, title_of
from compeer.evals.report.page import sample_view
from compeer.evals.report.tables import case_score, figure_words
from compeer.evals.result import Transcript, meaning
from compeer.studio.access import RequestRefused
from compeer.studio.gate import SANDBOX
from compeer.studio.pages import pages, say_in
from compeer.studio.rooms.runs import reading
from compeer.studio.rooms.runs.drawing import ago, evaluation_charts, listed_run, main_metrics, metric_charts, named
from compeer.studio.settings import StudioSettings

PER_PAGE, CASES = 30, 15
COMPARED, CHOSEN = 8, 4  # runs side by side at most; metrics that are shown first
_LONG = 200_000  # characters of a text that is shown
_KINDS = {"svg": "image/svg+xml", "csv": "text/csv; charset=utf-8", "tex": "application/x-tex"}
Ids = Annotated[list[str] | None, Query(max_length=200)]
HELPERS: dict[str, Callable[..., Any]] = {
    "figure_words": figure_words,
    "meaning": meaning,
    "setup_rows": setup_rows,
    "short": short,
    "title_of": title_of,
}


def routes(settings: StudioSettings) -> APIRouter:
    router = APIRouter()
    library = reading.RunLibrary(settings.runs, settings.data / "run-notes")

    @router.get("")
    def runs(
        request: Request,
        q: Annotated[str, Query(max_length=200)] = "",
        kind: reading.RunKind | Literal[""] = "",
        state: reading.RunState | Literal[""] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> Response:
        say = say_in(request)
        wanted = [one for one in library.all().values() if not kind or one.kind == kind]
        wanted = [one for one in wanted if q.casefold() in _searched(library, one).casefold()]
        if state:
            wanted = [one for one in wanted if one.kind == "training" and library.training_run(one).state == state]
        wanted.sort(key=reading.changed_at, reverse=True)
        last = max(1, -(-len(wanted) // PER_PAGE))
        page = min(page, last)
        shown = [listed_run(library, one, say) for one in wanted[(page - 1) * PER_PAGE : page * PER_PAGE]]
        filters = {"q": q, "kind": kind, "state": state}
        values: dict[str, Any] = {"lines": shown, "filters": filters, "count": len(wanted)}
        return pages(request).page(request, "runs/list.html", number=page, last=last, **values)

    @router.get("/compare")
    def compare(
        request: Request, run: Ids = None, metric: Annotated[list[str] | None, Query(max_length=200)] = None
    ) -> Response:
        say = say_in(request)
        founds = _named_runs(library, run)
        if not founds:
            return RedirectResponse("/runs", 303)
        trained = _trained(library, founds)
        known = _metrics(trained)
        chosen = [name for name in metric if name in known] if metric is not None else known[:CHOSEN]
        others = sorted(
            (one for one in library.all().values() if one not in founds), key=reading.changed_at, reverse=True
        )
        return pages(request).page(
            request,
            "runs/compare.html",
            founds=founds,
            colours={one.id: at for at, one in enumerate(one for one in founds if one.kind == "training")},
            lines=[listed_run(library, one, say) for one in founds],
            charts=[*metric_charts(trained, chosen, say), *evaluation_charts(founds, say)],
            files=_files(founds),
            metrics=[(name, named(name, say), name in chosen) for name in known],
            differing=_differing(library, founds),
            others=[one for one in others if one.kind != "report"][:200] if len(founds) < COMPARED else [],
            without={one.id: _address([other for other in founds if other != one], metric) for one in founds},
        )

    @router.get("/figure.{kind}")
    def figure(request: Request, kind: Literal["svg", "csv", "tex"], name: str, run: Ids = None) -> Response:
        founds = _named_runs(library, run)
        trained, say = _trained(library, founds), say_in(request)
        made = [*metric_charts(trained, _metrics(trained), say), *evaluation_charts(founds, say)]
        chart = next((one for one in made if one.name == name), None)
        if chart is None:
            raise RequestRefused(404, "missing", "no such figure")
        headers = {"content-disposition": f'attachment; filename="{chart.name}.{kind}"'}
        return Response(chart.file(kind), media_type=_KINDS[kind], headers=headers)

    @router.post("/{key}/note")
    def note(key: str, text: Annotated[str, Form(max_length=20_000)] = "") -> Response:
        found = library.get(key)
        library.notes.write(found, text)
        return RedirectResponse(f"/runs/{found.id}#note", 303)

    @router.get("/{key}")
    def run(
        request: Request,
        key: str,
        step: Annotated[list[int] | None, Query(max_length=6)] = None,
        every: bool = False,
        q: Annotated[str, Query(max_length=200)] = "",
        order: Literal["", "up", "down"] = "",
        case: Annotated[str, Query(max_length=500)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> Response:
        found = library.get(key)
        say = say_in(request)
        common: dict[str, Any] = {
            "found": found,
            "report": reading.report_of(found.path) is not None,
            "note": library.notes.read(found),
            "files": _files([found]),
        }
        if found.kind != "training":
            common["text"] = _text(found.path / "report.md") if found.kind == "judging" else None
            common["result"] = result = library.result(found) if found.kind == "evaluation" else None
            common["ago"] = ago(reading.changed_at(found), say)
            common["charts"] = evaluation_charts([found], say)
            said = library.transcripts(found) if result else []
            common |= _dialogues(said, result.benchmark if result else "", q, order, case, page)
            return pages(request).page(request, "runs/evaluation.html", **common)
        training = library.training_run(found)
        samples = library.samples(found)
        chosen = sorted({samples.nearest(one) for one in step or samples.spread()}) if samples.steps else []
        main = main_metrics([training.metrics])
        names = [*main, *sorted(set(training.metrics.columns) - set(main))] if every else main
        return pages(request).page(
            request,
            "runs/run.html",
            run=training,
            ago=ago(training.changed, say),
            facts=_facts(training),
            charts=metric_charts([TrainedRun(found.name, training.metrics)], names, say),
            every=every,
            more=len(training.metrics.columns) - len(main),
            steps=chosen,
            prompts=reading.by_prompt([(one, samples.at(one, say.language)) for one in chosen]),
            sampled=samples.steps,
            evaluations=library.results_of(found),
            results=training.record.results if training.record else {},
            config=_text(found.path / "config.yaml"),
            **common,
        )

    @router.get("/{key}/report")
    def report(key: str) -> Response:
        path = _report(library.get(key))
        return FileResponse(path, media_type="text/html; charset=utf-8", headers={"content-security-policy": SANDBOX})

    return router


def _searched(library: reading.RunLibrary, found: reading.RunFolder) -> str:
    """What the words of a search are looked for in: name, note, benchmark and model."""
    result = library.result(found) if found.kind == "evaluation" else None
    return "\n".join([found.name, library.notes.read(found), *([result.benchmark, result.model] if result else [])])


def _named_runs(library: reading.RunLibrary, keys: Sequence[str] | None) -> list[reading.RunFolder]:
    """The runs that an address names, each once, as many as are shown side by side."""
    return [library.get(key) for key in list(dict.fromkeys(keys or ()))[:COMPARED]]


def _trained(library: reading.RunLibrary, founds: Sequence[reading.RunFolder]) -> list[TrainedRun]:
    """The training runs among these; a run has one colour in all figures."""
    training = [one for one in founds if one.kind == "training"]
    return [TrainedRun(one.name, library.training_run(one).metrics, at) for at, one in enumerate(training)]


def _metrics(runs: Sequence[TrainedRun]) -> list[str]:
    """Every metric of these runs, the main ones first."""
    logs = [run.metrics for run in runs]
    return list(dict.fromkeys([*main_metrics(logs), *sorted(name for log in logs for name in log.columns)]))


def _address(founds: Sequence[reading.RunFolder], metrics: Sequence[str] | None) -> str:
    """The address that shows these runs in the same metrics."""
    shown = [("run", one.id) for one in founds] + [("metric", name) for name in metrics or ()]
    return f"/runs/compare?{urlencode(shown)}"


def _files(founds: Sequence[reading.RunFolder]) -> Callable[[Chart, str], str]:
    """Addresses of a figure's files."""
    shown = urlencode([("run", one.id) for one in founds])
    return lambda chart, kind: f"/runs/figure.{kind}?{shown}&{urlencode({'name': chart.name})}"


def _differing(library: reading.RunLibrary, founds: Sequence[reading.RunFolder]) -> list[tuple[str, list[str]]]:
    """Settings in which the runs differ, each with the values of all of them."""
    settings = []
    for found in founds:
        if found.kind == "training":
            record = library.training_run(found).record
            settings.append(dict(setup_rows(_flat(record.config))) if record else {})
        else:
            result = library.result(found) if found.kind == "evaluation" else None
            settings.append(dict(setup_rows({**result.comparable, **result.setup})) if result else {})
    names = dict.fromkeys(name for one in settings for name in one)
    rows = [(name, [one.get(name, "") for one in settings]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _flat(values: dict[str, Any], front: str = "") -> dict[str, Any]:
    """Settings below settings as one list of names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{front}{name}: ") if isinstance(value, dict) else {f"{front}{name}": value}
    return found


def _dialogues(said: Sequence[Transcript], benchmark: str, q: str, order: str, case: str, page: int) -> dict[str, Any]:
    """The dialogues of an evaluation that fit the words, and the chosen one."""
    wanted = [one for one in said if not q or q.casefold() in _spoken(one).casefold()]
    scores = {one.id: score for one in wanted if (score := case_score(benchmark, one))}
    if order and scores:
        worst = float("inf") if order == "up" else float("-inf")
        wanted.sort(key=lambda one: scores[one.id][1] if one.id in scores else worst, reverse=order == "down")
    last = max(1, -(-len(wanted) // CASES))
    page = min(page, last)
    shown = wanted[(page - 1) * CASES : page * CASES]
    chosen = next((one for one in wanted if one.id == case), shown[0] if shown else None)
    return {
        "whole": len(said),
        "fitting": len(wanted),
        "cases": [(one, scores[one.id][1] if one.id in scores else None) for one in shown],
        "measure": figure_words(next(iter(scores.values()))[0]) if scores else "",
        "chosen": sample_view(chosen, benchmark) if chosen else None,
        "view": {"q": q, "order": order},
        "number": page,
        "last": last,
    }


def _spoken(one: Transcript) -> str:
    return "\n".join([one.id, *(turn.text for turn in one.said), *one.about.values()])


def _report(found: reading.RunFolder) -> Path:
    path = reading.report_of(found.path)
    if path is None or not path.resolve().is_relative_to(found.path):
        raise RequestRefused(404, "missing", "the run has no report")
    return path


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_LONG]
    except OSError:
        return None


def _facts(run: reading.TrainingRun) -> list[tuple[str, str]]:
    """Data, models and versions of a run: keys of texts, and values as recorded."""
    facts = [("folder", str(run.found.path))]
    if (record := run.record) is not None:
        facts += [("base", f"{name}: {value}") for name, value in record.base.items()]
        facts += [("judge", f"{name}: {value}") for name, value in (record.judge or {}).items()]
        facts += [("data", f"{role}: {one.path} ({one.rows})") for role, files in record.data.items() for one in files]
        facts.append(("seed", str(record.seed)))
        for revision in (one.revision for one in record.sessions[-1:]):
            facts.append(("code", f"{revision.version} {(revision.commit or '')[:12]}"))
        facts.append(("sessions", str(len(record.sessions))))
    return [(f"runs.fact.{name}", value[:500]) for name, value in facts]
