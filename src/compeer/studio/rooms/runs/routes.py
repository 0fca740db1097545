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

from compeer.studio.access.gate import SANDBOX
from compeer.studio.access.people import Refused, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.runs.files import Book, Found, Shelf, changed_at, report_of
from compeer.studio.rooms.runs.view import ago, line, panels, short
from compeer.studio.settings import Settings

PER_PAGE = 30
_LONG = 200_000  # characters of a text that is shown


def routes(settings: Settings) -> APIRouter:
    router = APIRouter()
    shelf = Shelf(settings.runs)

    @router.get("")
    def runs(
        request: Request,
        q: Annotated[str, Query(max_length=200)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> Response:
        say = pages(request).say[visit(request).language]
        wanted = [one for one in shelf.all().values() if q.casefold() in one.name.casefold()]
        wanted.sort(key=changed_at, reverse=True)
        last = max(1, -(-len(wanted) // PER_PAGE))
        page = min(page, last)
        shown = [line(shelf, one, say) for one in wanted[(page - 1) * PER_PAGE : page * PER_PAGE]]
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
        found = shelf.get(key)
        say = pages(request).say[visit(request).language]
        common: dict[str, Any] = {"found": found, "report": report_of(found.path) is not None, "short": short}
        if found.kind != "training":
            common["text"] = _text(found.path / "report.md") if found.kind == "judging" else None
            common["outcome"] = shelf.outcome(found) if found.kind == "evaluation" else None
            common["ago"] = ago(changed_at(found), say)
            return pages(request).page(request, "runs/evaluation.html", **common)
        book = shelf.book(found)
        samples = shelf.samples(found)
        chosen = sorted({samples.nearest(one) for one in step or samples.spread()}) if samples.steps else []
        curves = panels(book.numbers, say, everything=every)
        return pages(request).page(
            request,
            "runs/run.html",
            book=book,
            ago=ago(book.changed, say),
            facts=_facts(book),
            curves=curves,
            every=every,
            more=len(book.numbers.columns) - len(curves),
            columns=[(one, samples.at(one, say.language)) for one in chosen],
            sampled=samples.steps,
            outcomes=shelf.outcomes_of(found),
            results=_results(book),
            config=_text(found.path / "config.yaml"),
            **common,
        )

    @router.get("/{key}/report")
    def report(key: str) -> Response:
        path = _report(shelf.get(key))
        return FileResponse(path, media_type="text/html; charset=utf-8", headers={"content-security-policy": SANDBOX})

    return router


def _report(found: Found) -> Path:
    path = report_of(found.path)
    if path is None or not path.resolve().is_relative_to(found.path):
        raise Refused(404, "missing", "the run has no report")
    return path


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:_LONG]
    except OSError:
        return None


def _results(book: Book) -> dict[str, Any]:
    results = book.record.get("results")
    return results if isinstance(results, dict) else {}


def _facts(book: Book) -> list[tuple[str, str]]:
    """What a run stands on: keys of words, and values as they were noted."""
    record = book.record
    sessions = record.get("sessions")
    last = sessions[-1] if isinstance(sessions, list) and sessions and isinstance(sessions[-1], dict) else {}
    facts = [("runs.fact.folder", str(book.found.path))]
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
