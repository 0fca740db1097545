"""How far people agree, what they confuse, what the audit says, and the disagreements themselves to read.

Shares as stretches of a bar, in percent; drawn as SVG, since no style may stand in a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, File, Query, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from compeer.cer.item import QUESTIONS, Question
from compeer.errors import UserError
from compeer.people import labelling_project as projects
from compeer.people.agreement import VALUES, Confirmed, Overview, Pair, audit, between, overview, read_judgements
from compeer.people.invitations import Person
from compeer.people.labelling_project import Disagreement, Project, disagreements
from compeer.people.protocol import answer_text
from compeer.people.store import Store
from compeer.reasoning import render_step
from compeer.reward.judge import Judgement
from compeer.studio.access import people as pictures
from compeer.studio.pages import pages
from compeer.studio.rooms.workplace.annotator import turns
from compeer.studio.rooms.workplace.coordinate import received
from compeer.studio.rooms.workplace.links import Door


class Stretch(msgspec.Struct, frozen=True):
    """One part of a bar: its kind, how many, where it begins and how wide it is."""

    kind: str
    count: int
    start: float
    width: float


def stretches(counts: Iterable[tuple[str, int]]) -> list[Stretch]:
    """Parts that fill a bar of 100, none where there is nothing.

    >>> [(one.kind, one.start, one.width) for one in stretches([("agreed", 3), ("open", 1)])]
    [('agreed', 0.0, 75.0), ('open', 75.0, 25.0)]
    """
    given = list(counts)
    total = sum(count for _, count in given)
    found, start = [], 0.0
    for kind, count in given:
        width = 100 * count / total if total else 0.0
        found.append(Stretch(kind, count, round(start, 3), round(width, 3)))
        start += width
    return found


PER_PAGE = 10
PAIRS = 40


class Counted(NamedTuple):
    """What takes a moment to count in a large project."""

    measured: Overview
    shares: dict[Question, tuple[list[Stretch], list[Stretch]]]
    pairs: list[Pair]
    audits: dict[Question, Confirmed]


class Confusion(msgspec.Struct, frozen=True):
    """On one question: how often one of two said this and the other that, whoever came first."""

    values: list[str]
    table: list[list[int]]


def add(router: APIRouter, store: Store, door: Door[Project]) -> None:
    @router.get("/projects/{number}/agreement")
    def agree(request: Request, number: int, question: Annotated[Question, Query()] = "history") -> Response:
        return figures(request, door.coordinated(request, number), question)

    @router.post("/judgements/{number}")
    def judged(request: Request, number: int, file: Annotated[UploadFile, File()]) -> Response:
        """The same page with a judge beside the audit. The file is read and forgotten."""
        found = door.coordinated(request, number)
        try:
            with received(file) as (copy,):
                judgements = read_judgements(copy)
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
        def count() -> Counted:
            measured = overview(store, found.id)
            pairs = sorted(between(store, found.id, question), key=lambda one: one.percent)
            audits = measured.audits if judgements is None else audit(store, found.id, judgements)
            return Counted(measured, {name: _shares(measured, name) for name in QUESTIONS}, pairs, audits)

        return pages(request).flow(
            request,
            "label/agreement.html",
            200 if wrong is None else 422,
            project=found,
            question=question,
            count=count,
            confusion=confusion,
            most=PAIRS,
            judged=judgements is not None,
            wrong=wrong,
            percent=percent,
            number=number,
        )

    @router.get("/projects/{number}/disagreements")
    def differ(request: Request, number: int, page: Annotated[int, Query(ge=1, le=100_000)] = 1) -> Response:
        found = door.coordinated(request, number)
        start = (page - 1) * PER_PAGE

        def find() -> list[Disagreement]:
            return disagreements(store, number, limit=PER_PAGE + 1, offset=start)

        values: dict[str, Any] = {
            "project": found,
            "find": find,
            "turns": turns,
            "step": render_step,
            "page": page,
            "most": PER_PAGE,
        }
        return pages(request).flow(request, "label/disagreements.html", **values)

    @router.get("/projects/{number}/pictures/{item}/{which}")
    def picture(request: Request, number: int, item: int, which: int) -> Response:
        door.coordinated(request, number)
        # whoever coordinates the studio has no number in the store; pictures are asked for in this person's name
        asking = door.coordinator(request) or Person(0, number, "", "coordinator", False, "")
        file = projects.picture(store, asking, item, which)
        return pictures.picture([file.name], 0, file.parent)


def confusion(pairs: list[Pair], question: Question) -> Confusion:
    """All pairs of people together; who came first to an item means nothing, so the table is the same both ways."""
    values = [answer_text(value) for value in VALUES[question]]
    table = [[0] * len(values) for _ in values]
    for pair in pairs:
        if pair.question == question:
            for row, counts in enumerate(pair.table):
                for column, count in enumerate(counts):
                    table[row][column] += count
                    if row != column:
                        table[column][row] += count
    return Confusion(values, table)


def percent(value: float) -> str:
    """A share in words of a table.

    >>> percent(0.815), percent(math.nan)
    ('81.5 %', '–')
    """
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _shares(measured: Overview, question: Question) -> tuple[list[Stretch], list[Stretch]]:
    """Votes and labels of one question as bars."""
    votes = stretches(measured.questions[question].values.items())
    return votes, stretches(measured.labels[question].items())
