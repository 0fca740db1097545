"""Pages about quality: the practice round, and for the coordinator gold items, flags, labels on hold, agreement.

Practice works as plain forms: an item with its questions, then its right answers with the explanation, then the next.
The coordinator sees everybody's speed, gold answers and kappa with intervals, and decides about labels on hold.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, File, Form, Query, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.cer.item import Question, read_items
from compeer.errors import UserError
from compeer.people import known_items, quality
from compeer.people import labelling_results as results
from compeer.people.arena_results import bar_parts
from compeer.people.invitations import Person
from compeer.people.projects import Project
from compeer.people.protocol import answer_text
from compeer.reward.judge import Judgement
from compeer.studio.pages import pages, say_in
from compeer.studio.rooms.label.setup import question_names, sent_answers
from compeer.studio.rooms.workplace.annotator import AnnotatorPages, send_picture
from compeer.studio.rooms.workplace.coordinator import CoordinatorForm, CoordinatorPages, received

Share = Annotated[float, Form(ge=0, le=100)]


def add_practice(router: APIRouter, annotator: AnnotatorPages, queue: known_items.CheckedQueue) -> None:
    """The annotator's pages of the practice round."""
    asking = annotator.links.annotator

    @router.get("/practice")
    @router.get("/practice/{item}")
    def practise(request: Request, item: int | None = None, me: Person = Depends(asking)) -> Response:
        found = queue.practice(me, item)
        if found is None:
            return RedirectResponse(annotator.work, 303)
        values = annotator.sheet(me, found.work) | {"practice": found, "mine": queue.own_progress(me)}
        values |= {"form": secrets.token_urlsafe(16), "undo_form": "", "reasons": (), "done": False}
        return pages(request).page(request, "label/work.html", shown=round(time.time(), 3), **values)

    @router.post("/practice/{item}")
    def answer(
        request: Request,
        item: int,
        given: Annotated[dict[str, Any], Depends(sent_answers)],
        me: Person = Depends(asking),
    ) -> Response:
        found = queue.practice(me, item)
        asked: tuple[str, ...] = found.work.task.questions if found else ()
        queue.answer_practice(me, item, {name: value for name, value in given.items() if name in asked})
        return annotator.onward(request, f"/label/practice/{item}/explained")

    @router.get("/practice/{item}/explained")
    def explained(request: Request, item: int, me: Person = Depends(asking)) -> Response:
        found = queue.practice(me, item)
        if found is None or not found.explained:
            return RedirectResponse("/label/practice", 303)
        values = annotator.sheet(me, found.work)
        return pages(request).page(request, "label/explained.html", practice=found, **values)

    @router.get("/practice/{item}/pictures/{number}")
    def picture(item: int, number: int, me: Person = Depends(asking)) -> Response:
        queue.practice(me, item)  # refuses what is no practice item
        return send_picture(queue.picture_of(me.project, item, number))


def add_quality(router: APIRouter, coordinator: CoordinatorPages) -> None:
    """The coordinator's pages."""
    store, project, one = coordinator.store, coordinator.project, "/projects/{number}/quality"

    @router.get(one)
    def look(request: Request, found: Project = Depends(project)) -> Response:
        return overview(request, found)

    def overview(request: Request, found: Project, wrong: str | None = None) -> Response:
        def count() -> tuple[Any, Any]:
            return quality.quality_of_people(store, found.id), known_items.known_items(store, found.id)

        values = coordinator.about(found, settings=quality.settings_of(store, found.id), wrong=wrong, count=count)
        return pages(request).flow(request, "label/quality.html", **values)

    def done(request: Request, found: Project, form: str, work: Callable[[], Any]) -> Response:
        """Do what a form asks for, or say what is wrong."""
        coordinator.forms.use(form)
        try:
            work()
        except UserError as error:
            return overview(request, found, str(error))
        return RedirectResponse(f"{coordinator.at(found.id)}/quality", 303)

    @router.post(f"{one}/settings")
    def change(
        request: Request,
        form: CoordinatorForm,
        gold: Share = 10,
        right: Share = 70,
        floor: Annotated[float, Form(ge=0, le=3600)] = 5,
        kappa: Annotated[float, Form(ge=-1, le=1)] = 0.2,
        withhold: Annotated[bool, Form()] = False,
        found: Project = Depends(project),
    ) -> Response:
        new = msgspec.structs.replace(
            quality.settings_of(store, found.id), gold_share=gold / 100, gold_right=right / 100, floor_seconds=floor,
            kappa=kappa, hold=withhold,
        )  # fmt: skip
        return done(request, found, form, lambda: quality.set_settings(store, found.id, new))

    @router.post(f"{one}/people/{{person}}")
    def decide(
        request: Request,
        person: int,
        form: CoordinatorForm,
        action: Annotated[Literal["hold", "release", "discard"], Form()],
        found: Project = Depends(project),
    ) -> Response:
        number, name = found.id, coordinator.member(found, person)
        flags = next((each.flags for each in quality.quality_of_people(store, number) if each.id == person), [])
        by_hand = flags or [quality.Flag("coordinator", {"words": say_in(request)("label.quality.by_hand")})]
        work: dict[str, Callable[[], Any]] = {
            "hold": lambda: quality.hold(store, number, name, by_hand),
            "release": lambda: quality.release(store, number, name),
            "discard": lambda: quality.discard(store, number, name),
        }
        return done(request, found, form, work[action])

    @router.post("/known/{number}")
    def upload(
        request: Request,
        form: CoordinatorForm,
        file: Annotated[UploadFile, File()],
        use: Annotated[known_items.Use, Form()] = "gold",
        found: Project = Depends(project),
    ) -> Response:
        def work() -> None:
            with received(file) as (copy,):
                known_items.add_known(store, found.id, list(read_items(copy, resolve_images=False)), use)

        return done(request, found, form, work)

    @router.get(f"{one}/item")
    def one_item(request: Request, name: str = "", found: Project = Depends(project)) -> Response:
        item = results.item_by_name(store, found.id, name.strip())
        if item is None:
            return overview(request, found, say_in(request)("label.quality.no_item", name=name[:200]))
        known = next((each for each in known_items.known_items(store, found.id) if each.name == item.item.id), None)
        # not for questions of the project's own
        choices = {
            name: [answer_text(one) for one in results.VALUES[name]]
            for name in item.questions
            if name in results.VALUES
        }
        labels = known.answers if known else known_items.label_texts(item.item)
        values = coordinator.about(found, item=item.item, at=item.number, known=known, choices=choices, labels=labels)
        return pages(request).page(request, "label/known.html", **values)

    @router.post(f"{one}/item/{{at}}")
    def set_item(
        request: Request,
        at: int,
        form: CoordinatorForm,
        given: Annotated[dict[str, Any], Depends(sent_answers)],
        use: Annotated[known_items.Use, Form()] = "gold",
        explanation: Annotated[str, Form(max_length=10_000)] = "",
        found: Project = Depends(project),
    ) -> Response:
        answers: dict[str, Any] = {name: given[name] for name in results.VALUES if given.get(name, "") != ""}
        return done(request, found, form, lambda: known_items.set_known(store, found.id, at, use, answers, explanation))


PER_PAGE = 10
PAIRS = 40


def add_agreement(router: APIRouter, coordinator: CoordinatorPages) -> None:
    """The coordinator's pages about agreement: how far people agree, what they confuse, the audit, disagreements."""
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
