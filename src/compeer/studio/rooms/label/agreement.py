"""The coordinator's pages about agreement: how far people agree, what they confuse, the audit, the disagreements."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Query, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from compeer.cer.item import Question
from compeer.errors import UserError
from compeer.people import labelling_results as results
from compeer.people.arena_results import bar_parts
from compeer.people.projects import Project
from compeer.reward.judge import Judgement
from compeer.studio.pages import pages
from compeer.studio.rooms.label.setup import question_names
from compeer.studio.rooms.workplace.coordinator import CoordinatorPages, received

PER_PAGE = 10
PAIRS = 40


def add(router: APIRouter, coordinator: CoordinatorPages) -> None:
    store, project = coordinator.store, coordinator.project

    @router.get("/projects/{number}/agreement")
    def agree(
        request: Request,
        question: Annotated[str, Query(max_length=20)] = "history",
        found: Project = Depends(project),
    ) -> Response:
        known = {name: name for name in results.answer_values(store, found.id)}
        return figures(request, found, known.get(question, "history"))  # type: ignore[call-overload]

    @router.post("/judgements/{number}")
    def judged(request: Request, file: Annotated[UploadFile, File()], found: Project = Depends(project)) -> Response:
        """The same page with a judge beside the audit. The file is read and forgotten."""
        try:
            with received(file) as (copy,):
                judgements = results.read_judgements(copy)
        except UserError as error:
            return figures(request, found, "history", wrong=str(error))
        return figures(request, found, "history", judgements)

    def figures(
        request: Request,
        found: Project,
        question: Question,
        judgements: dict[str, Judgement] | None = None,
        wrong: str | None = None,
    ) -> Response:
        def count() -> tuple[Any, ...]:
            measured = results.agreement(store, found.id, judgements)
            pairs = sorted(results.pair_agreement(store, found.id, question), key=lambda one: one.percent)
            shares = {
                name: (bar_parts(one.values), bar_parts(measured.labels[name]))
                for name, one in measured.questions.items()
            }
            return measured, shares, pairs

        names = question_names(request, store, found.id)
        values = coordinator.about(found, question=question, count=count, names=names, most=PAIRS, wrong=wrong)
        return pages(request).flow(request, "label/agreement.html", judged=judgements is not None, **values)

    @router.get("/projects/{number}/disagreements")
    def differ(
        request: Request,
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        found: Project = Depends(project),
    ) -> Response:
        def find() -> list[results.ItemRecord]:
            return results.disagreements(store, found.id, limit=PER_PAGE + 1, offset=(page - 1) * PER_PAGE)

        names = question_names(request, store, found.id)
        values = coordinator.about(found, find=find, page=page, names=names, most=PER_PAGE)
        return pages(request).flow(request, "label/disagreements.html", **values)
