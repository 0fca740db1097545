"""The coordinator's pages about agreement: how far people agree, what they confuse, the audit, the disagreements."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, File, Query, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from compeer.cer.item import Question
from compeer.errors import UserError
from compeer.people import labelling_results as results
from compeer.people.arena_results import bar_parts
from compeer.people.projects import Project
from compeer.reasoning import render_step
from compeer.reward.judge import Judgement
from compeer.studio.pages import pages
from compeer.studio.rooms.label.setup import question_names
from compeer.studio.rooms.workplace.annotator import turns
from compeer.studio.rooms.workplace.coordinator import CoordinatorPages, received

PER_PAGE = 10
PAIRS = 40


def add(router: APIRouter, coordinator: CoordinatorPages) -> None:
    links, store = coordinator.links, coordinator.store

    @router.get("/projects/{number}/agreement")
    def agree(request: Request, number: int, question: Annotated[str, Query(max_length=20)] = "history") -> Response:
        found = links.coordinated(request, number)
        known = {name: name for name in results.answer_values(store, number)}
        return figures(request, found, known.get(question, "history"))  # type: ignore[call-overload]

    @router.post("/judgements/{number}")
    def judged(request: Request, number: int, file: Annotated[UploadFile, File()]) -> Response:
        """The same page with a judge beside the audit. The file is read and forgotten."""
        found = links.coordinated(request, number)
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

        return pages(request).flow(
            request,
            "label/agreement.html",
            found=found,
            here_is=coordinator.at(found.id),
            question=question,
            count=count,
            confusion=results.confusion,
            names=question_names(request, store, found.id),
            most=PAIRS,
            judged=judgements is not None,
            wrong=wrong,
            percent=percent,
            number=number,
        )

    @router.get("/projects/{number}/disagreements")
    def differ(request: Request, number: int, page: Annotated[int, Query(ge=1, le=100_000)] = 1) -> Response:
        found = links.coordinated(request, number)
        start = (page - 1) * PER_PAGE

        def find() -> list[results.ItemRecord]:
            return results.disagreements(store, number, limit=PER_PAGE + 1, offset=start)

        values: dict[str, Any] = {"found": found, "here_is": coordinator.at(number), "find": find, "page": page}
        values |= {"names": question_names(request, store, number), "turns": turns, "step": render_step}
        values |= {"most": PER_PAGE}
        return pages(request).flow(request, "label/disagreements.html", **values)


def percent(value: float) -> str:
    """A share in words of a table.

    >>> percent(0.815), percent(math.nan)
    ('81.5 %', '–')
    """
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
