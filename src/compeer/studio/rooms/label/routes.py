"""The pages of Label: labelling one item after another, own labels, the coordinator's projects, labels as files.

A third person is asked only what is disputed; the other steps are there to be read, without anything to press. What is
filled in is kept as a draft. All pages are on one router, so refusals of the store are explained everywhere alike.

Labels leave as CER items in JSON lines, or as a folder for Label Studio or Potato in a zip.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from fastapi import APIRouter, Body, Depends, File, Form, Query, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.cer.item import Item, Question, image_folder, read_items
from compeer.errors import UserError
from compeer.people import exchange
from compeer.people.arena_results import BarPart, bar_parts
from compeer.people.guideline import OwnQuestion, current_guideline, in_language, own_questions
from compeer.people.invitations import Person
from compeer.people.known_items import CheckedQueue, ItemAddresses
from compeer.people.labelling import AssignedItem, GivenAnswers, create_project, preview_item
from compeer.people.labelling_results import VALUES, LabellingProgress, agreement, confusion, labelling_progress
from compeer.people.projects import Project
from compeer.people.protocol import STATUSES, UNSURE, answer_text
from compeer.people.store import Store
from compeer.people.work_queue import Draft, OwnProgress
from compeer.reasoning import render_step
from compeer.reward.verdict import CHOICES
from compeer.studio.access import RequestRefused
from compeer.studio.pages import Say, pages
from compeer.studio.rooms.label import quality as quality_pages
from compeer.studio.rooms.label import setup
from compeer.studio.rooms.label.setup import OWN_FIELD, markdown, question_names, sent_answers
from compeer.studio.rooms.workplace.annotator import REASONS, AnnotatorPages, FormName, Note, Seconds, took
from compeer.studio.rooms.workplace.coordinator import (
    CoordinatorForm,
    CoordinatorPages,
    Lease,
    Named,
    Typed,
    received,
    send_made,
    workplace_router,
)
from compeer.studio.rooms.workplace.links import RoomLinks
from compeer.studio.settings import StudioSettings
from compeer.typed import from_plain


def routes(links: RoomLinks, settings: StudioSettings) -> APIRouter:
    annotator = LabelPages(links, CheckedQueue(links.store), settings)
    coordinator = ProjectPages(annotator)
    router = workplace_router(annotator, coordinator)
    add_labelling(router, annotator)
    add_projects(router, coordinator)
    quality_pages.add_practice(router, annotator, annotator.queue)
    quality_pages.add_quality(router, coordinator)
    quality_pages.add_agreement(router, coordinator)
    setup.add(router, coordinator)
    return router


HELPERS = {"confusion": confusion, "in_language": in_language, "markdown": markdown, "render_step": render_step}


class AskedQuestion(msgspec.Struct, frozen=True):
    """One question. `text` is the step to judge; the replies are in the task. `own` is set for one of the project's."""

    question: Question
    number: int
    text: str | None
    options: tuple[str, ...]
    chosen: str | None  # what was answered before
    own: OwnQuestion | None = None

    @property
    def field(self) -> str:
        """What the form sends the answer under."""
        return f"{OWN_FIELD}{self.question}" if self.own else self.question


def shown_item(store: Store, project: int, work: AssignedItem) -> dict[str, Any]:
    """What the page of one item shows: its questions, the steps that are not asked, and the guideline as it is now."""
    task, own = work.task, {one.id: one for one in own_questions(store, project)}
    steps, asked = task.reasoning or {}, []
    for number, question in enumerate(task.questions, start=1):
        given, mine = work.draft.answers.get(question), own.get(question)
        values = mine.values if mine else CHOICES if question == "preference" else map(answer_text, VALUES[question])
        chosen = None if given is None else answer_text(given)
        asked.append(AskedQuestion(question, number, steps.get(question), (*values, UNSURE), chosen, mine))
    others = {step: text for step, text in steps.items() if step not in task.questions}
    guideline = current_guideline(store, project)
    return {"work": work, "task": task, "asked": asked, "others": others, "guideline": guideline}


class LabelPages(AnnotatorPages):
    """Labelling one item after another; a key is an item's number."""

    things = "items"
    queue: CheckedQueue

    def __init__(self, links: RoomLinks, queue: CheckedQueue, settings: StudioSettings) -> None:
        super().__init__(links, queue, settings)
        self.addresses = ItemAddresses(links.store)

    def key(self, address: str) -> int:
        if not (address.isascii() and address.isdigit() and len(address) < 100):
            raise RequestRefused(422, "invalid", "no number of an item")
        return self.addresses.number(int(address))

    def before(self, me: Person) -> str | None:
        return "/label/practice" if self.queue.practice_due(me) else None

    def sheet(self, me: Person, found: AssignedItem) -> dict[str, Any]:
        values = shown_item(self.store, me.project, found)
        return values | {"address": f"/label/items/{self.addresses.shown(found.item)}"}

    def idle(self, me: Person, mine: OwnProgress) -> dict[str, Any]:
        finished = self.queue.is_finished(me.project)
        agreed = agreement(self.store, me.project).questions if finished else {}
        own = {one.id: one for one in own_questions(self.store, me.project)}
        return {"finished": finished, "agreed": agreed, "own": own}


def add_labelling(router: APIRouter, annotator: LabelPages) -> None:
    """The annotator's pages that only labelling has."""
    queue = annotator.queue

    @router.get("/items/{key}")
    def look(request: Request, key: str, me: Person = Depends(annotator.asking)) -> Response:
        return annotator.show(request, me, queue.view(me, annotator.key(key)))

    @router.post("/items/{key}")
    def hand_in(
        request: Request,
        key: str,
        form: FormName,
        answers: Annotated[dict[str, Any], Depends(sent_answers)],
        note: Note = "",
        seconds: Seconds = None,
        shown: Seconds = None,
        again: Annotated[bool, Form()] = False,
        guideline: Annotated[str, Form(max_length=100)] = "",
        me: Person = Depends(annotator.asking),
    ) -> Response:
        given = GivenAnswers(answers, guideline)
        queue.submit(me, annotator.key(key), given, seconds=took(seconds, shown), note=note, form=form)
        return annotator.onward(request, "/label/mine") if again else annotator.submitted(request)

    @router.post("/items/{key}/draft")
    def draft(key: str, said: Annotated[dict[str, Any], Body()], me: Person = Depends(annotator.asking)) -> Response:
        try:
            kept = queue.keep(me, annotator.key(key), from_plain({"answers": None, **said}, Draft))
        except msgspec.ValidationError:
            raise RequestRefused(422, "invalid", "a draft of another form") from None
        return JSONResponse({"kept": kept})

    @router.get("/mine")
    def own(request: Request, me: Person = Depends(annotator.links.annotator)) -> Response:
        handed_in = [(one, datetime.fromtimestamp(one.finished, UTC)) for one in queue.handed_in(me)]
        found = [(one, f"{at:%Y-%m-%d %H:%M} UTC", annotator.addresses.shown(one.item)) for one, at in handed_in]
        return pages(request).page(
            request, "label/mine.html", found=found, mine=queue.own_progress(me), practised=queue.practice(me)
        )


class ProjectPages(CoordinatorPages):
    """The coordinator's projects, with their progress by question."""

    things = "projects"
    empty: ClassVar = {"name": "", "path": "", "images": "", "guideline": "1", "lease": 15, "audit": 5}

    def counted(self, request: Request, found: Project) -> dict[str, Any]:
        def count() -> tuple[LabellingProgress, dict[Question, list[BarPart]]]:
            now, order = labelling_progress(self.store, found.id), STATUSES[1:] + STATUSES[:1]
            bars = {name: bar_parts({one: counts[one] for one in order}) for name, counts in now.questions.items()}
            return now, bars

        return {"count": count, "names": question_names(request, self.store, found.id)}

    def source(self, say: Say, upload: UploadFile | None, path: str, images: str) -> tuple[list[Item], Path | None]:
        """The items of a new project and the folder from which its pictures may come.

        They are in an uploaded file, or in a file on this machine, whose pictures are beside it unless a folder is
        named.
        """
        if upload is not None and upload.filename:
            folder = self.allowed(say, images) if images else None
            with received(upload) as (file,):
                return list(read_items(file, resolve_images=False)), folder
        if not path:
            raise UserError(say("workplace.new.nothing"))
        file = self.allowed(say, path)
        if not file.exists():
            raise UserError(say("workplace.new.no_file", path=path))
        items = list(read_items(file, resolve_images=False))
        return items, self.allowed(say, images) if images else image_folder(file)


ExportFile = Literal["cer", "labels.csv", "votes.csv", "label-studio", "potato"]


def add_projects(router: APIRouter, coordinator: ProjectPages) -> None:
    """The coordinator's pages: creating a project, the annotator's page as a preview, labels as files."""
    store = coordinator.store

    @router.post("/new")
    def create(
        request: Request,
        form: CoordinatorForm,
        name: Named = "",
        path: Typed = "",
        images: Typed = "",
        guideline: Annotated[str, Form(min_length=1, max_length=100)] = "1",
        lease: Lease = 15.0,
        audit: Annotated[float, Form(ge=0, le=100)] = 5.0,
        file: Annotated[UploadFile | None, File()] = None,
    ) -> Response:
        given = {"name": name, "path": path, "images": images, "guideline": guideline, "lease": lease, "audit": audit}

        def make(say: Say) -> int:
            items, folder = coordinator.source(say, file, path.strip(), images.strip())
            made = create_project(
                store, name, items, images=folder, guideline=guideline, lease_minutes=lease, audit_share=audit / 100
            )
            return made.project.id

        return coordinator.create(request, form, given, make)

    @router.get("/projects/{number}/preview")
    def preview(
        request: Request, at: Annotated[int, Query(ge=1)] = 1, found: Project = Depends(coordinator.project)
    ) -> Response:
        """The annotator's page as the coordinator sees it. Nothing is stored."""
        shown, total = preview_item(store, found.id, at)
        values = shown_item(store, found.id, shown) | {"reasons": REASONS, "done": False, "shown": 0}
        values |= {"mine": OwnProgress(at - 1, 0, 0, total), "form": "preview-" + "0" * 16, "undo_form": ""}
        address = f"{coordinator.at(found.id)}/preview?at={min(at, total)}"
        return pages(request).page(request, "label/work.html", preview=address, project=found, **values)

    @router.post("/projects/{number}/preview")
    def onward(
        request: Request, at: Annotated[int, Query(ge=1)] = 1, found: Project = Depends(coordinator.project)
    ) -> Response:
        return coordinator.annotator.onward(request, f"{coordinator.at(found.id)}/preview?at={at + 1}")

    @router.get("/projects/{number}/export/{form}")
    def export(
        form: ExportFile,
        everything: bool = False,
        anonymous: bool = False,
        found: Project = Depends(coordinator.project),
    ) -> Response:
        kind = cast("exchange.LabelFormat", form.replace(".", "-"))

        def write(out: Path) -> None:
            exchange.export_labels(store, found, kind, out, everything=everything, anonymous=anonymous)

        shown = (f"{found.name}.jsonl", "labels.jsonl") if form == "cer" else (f"{found.name}-{form}", form)
        return send_made(*shown, write)
