"""The pages of Runs: the list, a run, an evaluation, a report.

A report is a file that an evaluation wrote and that holds whatever models said. It is sent as it is, in a sandbox of
its own: its scripts run, without cookies, without network, without any way back to the studio.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from compeer.evals.report.gather import setup_rows
from compeer.studio.access.gate import SANDBOX
from compeer.studio.access.people import RequestRefused, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.runs.drawing import ago, intervals, listed_run, panels, short
from compeer.studio.rooms.runs.reading import RunFolder, RunLibrary, TrainingRun, changed_at, report_of
from compeer.studio.settings import StudioSettings

PER_PAGE = 30
_LONG = 200_000  # characters of a text that is shown


def routes(settings: StudioSettings) -> APIRouter:
    router = APIRouter()
    library = RunLibrary(settings.runs)

    @router.get("")
    def runs(
        request: Request,
        q: Annotated[str, Query(max_length=200)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> Response:
        say = pages(request).say[visit(request).language]
        wanted = [one for one in library.all().values() if q.casefold() in one.name.casefold()]
        wanted.sort(key=changed_at, reverse=True)
        last = max(1, -(-len(wanted) // PER_PAGE))
        page = min(page, last)
        shown = [listed_run(library, one, say) for one in wanted[(page - 1) * PER_PAGE : page * PER_PAGE]]
        return pages(request).page(
            request, "runs/list.html", lines=shown, q=q, count=len(wanted), number=page, last=last, short=short
        )

    @router.get("/{key}")
    def run(
        request: Request,
        key: str,
        step: Annotated[list[int] | None, Query(max_length=6)] = None,
        every: bool = False,
    ) -> Response:
        found = library.get(key)
        say = pages(request).say[visit(request).language]
        common: dict[str, Any] = {
            "found": found,
            "report": report_of(found.path) is not None,
            "short": short,
            "intervals": intervals,
        }
        if found.kind != "training":
            common["text"] = _text(found.path / "report.md") if found.kind == "judging" else None
            common["result"] = library.result(found) if found.kind == "evaluation" else None
            common["setup_rows"] = setup_rows
            common["ago"] = ago(changed_at(found), say)
            return pages(request).page(request, "runs/evaluation.html", **common)
        training = library.training_run(found)
        samples = library.samples(found)
        chosen = sorted({samples.nearest(one) for one in step or samples.spread()}) if samples.steps else []
        curves = panels(training.metrics, say, everything=every)
        return pages(request).page(
            request,
            "runs/run.html",
            run=training,
            ago=ago(training.changed, say),
            facts=_facts(training),
            curves=curves,
            every=every,
            more=len(training.metrics.columns) - len(curves),
            columns=[(one, samples.at(one, say.language)) for one in chosen],
            sampled=samples.steps,
            evaluations=library.results_of(found),
            results=_results(training),
            config=_text(found.path / "config.yaml"),
            **common,
        )

    @router.get("/{key}/report")
    def report(key: str) -> Response:
        path = _report(library.get(key))
        return FileResponse(path, media_type="text/html; charset=utf-8", headers={"content-security-policy": SANDBOX})

    return router


def _report(found: RunFolder) -> Path:
    path = report_of(found.path)
    if path is None or not path.resolve().is_relative_to(found.path):
        raise RequestRefused(404, "missing", "the run has no report")
    return path


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_LONG]
    except OSError:
        return None


def _results(run: TrainingRun) -> dict[str, Any]:
    results = run.record.get("results")
    return results if isinstance(results, dict) else {}


def _facts(run: TrainingRun) -> list[tuple[str, str]]:
    """Data, models and versions of a run: keys of texts, and values as recorded."""
    record = run.record
    sessions = record.get("sessions")
    last = sessions[-1] if isinstance(sessions, list) and sessions and isinstance(sessions[-1], dict) else {}
    facts = [("runs.fact.folder", str(run.found.path))]
    for key in ("base", "judge"):
        for name, value in (record.get(key) or {}).items() if isinstance(record.get(key), dict) else ():
            facts.append((f"runs.fact.{key}", f"{name}: {value}"))
    data = record.get("data")
    for role, files in data.items() if isinstance(data, dict) else ():
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict):
                facts.append(("runs.fact.data", f"{role}: {file.get('path')} ({file.get('rows')})"))
    facts.append(("runs.fact.seed", str(record.get("seed", ""))))
    revision = last.get("revision")
    if isinstance(revision, dict):
        facts.append(("runs.fact.code", f"{revision.get('version', '')} {str(revision.get('commit') or '')[:12]}"))
    facts.append(("runs.fact.sessions", str(len(sessions) if isinstance(sessions, list) else 0)))
    return [(key, value[:500]) for key, value in facts if value.strip()]
