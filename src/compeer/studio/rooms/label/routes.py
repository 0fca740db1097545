"""The pages of Label: labelling one item after another, own labels, the coordinator's projects, labels as files.

A third person is asked only what is disputed; the other steps are there to be read, without anything to press. What is
filled in is kept as a draft. All pages are on one router, so refusals of the store are explained everywhere alike.

Labels leave as CER items in JSON lines, or as a folder for Label Studio or Potato in a zip.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Body, Depends, File, Form, Query, UploadFile
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from compeer.cer.item import Item, Question, image_folder, read_items
from compeer.errors import UserError
from compeer.people.exchange import csv_lines, labelled, labels_table, votes_table
from compeer.people.guideline import OwnQuestion, current_guideline, in_language, own_questions
from compeer.people.invitations import Person
from compeer.people.labelling import AssignedItem, GivenAnswers, create_project, preview_item
from compeer.people.labelling_results import LabellingProgress, agreement, labelling_progress
from compeer.people.other_tools import write_label_studio, write_potato
from compeer.people.projects import Project, project_summaries
from compeer.people.protocol import STATUSES, UNSURE, Unsure
from compeer.people.quality import CheckedQueue, ItemAddresses
from compeer.people.store import Store
from compeer.people.work_queue import OwnProgress
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.access import RequestRefused
from compeer.studio.pages import pages
from compeer.studio.rooms.label import agreement as agreement_pages
from compeer.studio.rooms.label import quality as quality_pages
from compeer.studio.rooms.label import setup
from compeer.studio.rooms.label.agreement import BarPart, bar_parts
from compeer.studio.rooms.label.setup import markdown, question_names
from compeer.studio.rooms.workplace.annotator import (
    REASONS,
    AnnotatorPages,
    FormName,
    Note,
    Seconds,
    TurnView,
    took,
    turns,
)
from compeer.studio.rooms.workplace.coordinator import (
    CoordinatorForm,
    CoordinatorPages,
    Lease,
    Mistake,
    Named,
    Typed,
    allowed,
    disposition,
    folder_named,
    received,
    sent_fields,
    workplace_router,
)
from compeer.studio.rooms.workplace.links import RoomLinks
from compeer.studio.settings import StudioSettings
from compeer.studio.words import Say


def routes(links: RoomLinks, settings: StudioSettings) -> APIRouter:
    room = LabelRoomQueue(links.store)
    annotator, queue = AnnotatorPages(links, room, settings), room.queue
    coordinator = CoordinatorPages(
        links, settings, "projects", lambda store: project_summaries(store, "labelling"), queue
    )
    router = workplace_router(annotator, coordinator)
    add_labelling(router, annotator, room)
    add_projects(router, links.store, coordinator)
    add_export(router, links)
    agreement_pages.add(router, links)
    quality_pages.add_practice(router, annotator, queue, shown_sheet)
    quality_pages.add_quality(router, coordinator)
    setup.add(router, links.store, coordinator)
    add_preview(router, links.store, coordinator)
    return router


_OWN_FIELD = "own:"
#: what a form sends for the answers to a step
STEP_VALUES: dict[str, bool | Unsure] = {"true": True, "false": False, UNSURE: UNSURE}


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
        return f"{_OWN_FIELD}{self.question}" if self.own else self.question


class LabelSheet(msgspec.Struct, frozen=True):
    """Everything on the page that comes from the item."""

    work: AssignedItem
    turns: list[TurnView]
    asked: list[AskedQuestion]
    others: dict[str, str]  # steps that are not asked


def sheet(work: AssignedItem, own: Sequence[OwnQuestion] = ()) -> LabelSheet:
    task = work.task
    steps, theirs = task.reasoning or {}, {one.id: one for one in own}
    asked = []
    for number, question in enumerate(task.questions, start=1):
        given, mine = work.draft.answers.get(question), theirs.get(question)
        options, chosen = ((*mine.values, UNSURE), given) if mine else _options(question, given)
        asked.append(AskedQuestion(question, number, steps.get(question), options, chosen, mine))
    others = {step: text for step, text in steps.items() if step not in task.questions}
    return LabelSheet(work, turns(task.history), asked, others)


def shown_sheet(store: Store, project: int, found: AssignedItem) -> dict[str, Any]:
    """What the page of one item shows: the item, and the guideline as it is now."""
    values: dict[str, Any] = {"sheet": sheet(found, own_questions(store, project)), "task": found.task}
    return values | {"guideline": current_guideline(store, project), "markdown": markdown, "in_language": in_language}


def _options(question: Question, given: Any) -> tuple[tuple[str, ...], str | None]:
    """What can be answered, and which of it was, as a form sends it."""
    if question == "preference":
        return (*CHOICES, UNSURE), given
    return tuple(STEP_VALUES), next((name for name, value in STEP_VALUES.items() if given == value), None)


Step = Annotated[Literal["true", "false", "unsure"] | None, Form()]


class LabelRoomQueue:
    """The `AnnotatorQueue` of this room; a key is an item's number."""

    things = "items"

    def __init__(self, store: Store) -> None:
        self.store, self.queue, self.addresses = store, CheckedQueue(store), ItemAddresses(store)

    def number(self, key: str | int) -> int:
        """The number of an item by what stands in its address."""
        return self.addresses.number(item_number(str(key)))

    def mine(self, me: Person) -> OwnProgress:
        return self.queue.own_progress(me)

    def before(self, me: Person) -> str | None:
        return "/label/practice" if self.queue.practice_due(me) else None

    def next(self, me: Person) -> AssignedItem | None:
        return self.queue.next(me)

    def view(self, me: Person, key: str) -> AssignedItem:
        return self.queue.view(me, self.number(key))

    def sheet(self, me: Person, found: AssignedItem) -> dict[str, Any]:
        values = shown_sheet(self.store, me.project, found)
        return values | {"address": f"/label/items/{self.addresses.shown(found.item)}"}

    def idle(self, me: Person, mine: OwnProgress) -> dict[str, Any]:
        finished = self.queue.is_finished(me.project)
        agreed = agreement(self.store, me.project).questions if finished else {}
        return {
            "finished": finished,
            "agreed": agreed,
            "own": {one.id: one for one in own_questions(self.store, me.project)},
            "in_language": in_language,
        }

    def skip(self, me: Person, key: str, reason: str, *, distress: bool, form: str) -> None:
        self.queue.skip(me, self.number(key), reason, distress=distress, form=form)

    def undo(self, me: Person, form: str) -> AssignedItem | None:
        return self.queue.undo(me, form=form)

    def holder(self, members: Sequence[Person], key: str) -> Person | None:
        return self.queue.holder(members, self.number(key))

    def picture(self, me: Person, key: str, which: int) -> Path:
        return self.queue.picture(me, self.number(key), which)


async def own_answers(request: Request) -> dict[str, str]:
    """What a form sends for questions of the project's own."""
    sent = await sent_fields(request)
    return {name.removeprefix(_OWN_FIELD): value for name, value in sent.items() if name.startswith(_OWN_FIELD)}


def add_labelling(router: APIRouter, annotator: AnnotatorPages, room: LabelRoomQueue) -> None:
    """The annotator's pages that only labelling has."""
    asking, queue, number = annotator.asking, room.queue, room.number

    @router.get("/items/{item}")
    def look(request: Request, item: int) -> Response:
        me = asking(request, item)
        return annotator.show(request, me, queue.view(me, number(item)))

    @router.post("/items/{item}")
    def hand_in(
        request: Request,
        item: int,
        form: FormName,
        own: Annotated[dict[str, str], Depends(own_answers)],
        history: Step = None,
        emotion: Step = None,
        strategy: Step = None,
        preference: Annotated[Choice | Unsure | None, Form()] = None,
        note: Note = "",
        seconds: Seconds = None,
        shown: Seconds = None,
        again: Annotated[bool, Form()] = False,
        guideline: Annotated[str, Form(max_length=100)] = "",
    ) -> Response:
        me = asking(request, item)
        steps = {"history": history, "emotion": emotion, "strategy": strategy}
        answers: dict[str, Any] = {name: STEP_VALUES[said] for name, said in steps.items() if said is not None}
        if preference is not None:
            answers["preference"] = preference
        given = GivenAnswers(answers | own, guideline)
        queue.submit(me, number(item), given, seconds=took(seconds, shown), note=note, form=form)
        return annotator.onward(request, "/label/mine") if again else annotator.submitted(request)

    @router.post("/items/{item}/draft")
    def draft(request: Request, item: int, said: Annotated[dict[str, Any], Body()]) -> Response:
        me = asking(request, item)
        answers, note, seconds = said.get("answers"), said.get("note", ""), said.get("seconds", 0.0)
        fits = isinstance(answers, Mapping) and isinstance(note, str) and isinstance(seconds, int | float)
        if not fits or not isinstance(answers, Mapping):
            raise RequestRefused(422, "invalid", "a draft of another form")
        kept = queue.save_draft(me, number(item), answers, note=note, seconds=float(seconds))
        return JSONResponse({"kept": kept})

    @router.get("/mine")
    def own(request: Request) -> Response:
        me = annotator.links.annotator(request)
        found = [(one, _when(one.finished), room.addresses.shown(one.item)) for one in queue.handed_in(me)]
        return pages(request).page(
            request, "label/mine.html", found=found, mine=queue.own_progress(me), practised=queue.practice(me)
        )


def item_number(key: str) -> int:
    """An item's number, as it stands in an address."""
    if not (key.isascii() and key.isdigit() and len(key) < 100):
        raise RequestRefused(422, "invalid", "no number of an item")
    return int(key)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


NEW_PROJECT = {"name": "", "path": "", "images": "", "guideline": "1", "lease": 15, "audit": 5}


class ProjectCounts(NamedTuple):
    """What takes a moment to count in a large project."""

    now: LabellingProgress
    bars: dict[Question, list[BarPart]]


def add_projects(router: APIRouter, store: Store, coordinator: CoordinatorPages) -> None:
    """The coordinator's pages: creating a project, and one with its progress by question."""

    @router.get("/new")
    def new(request: Request) -> Response:
        return coordinator.blank(request, NEW_PROJECT)

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
            found = project_source(coordinator.settings, say, file, path.strip(), images.strip())
            made = create_project(
                store, name, found.items, images=found.images, guideline=guideline, lease_minutes=lease,
                audit_share=audit / 100,
            )  # fmt: skip
            return made.project.id

        return coordinator.create(request, form, given, make)

    def overview(request: Request, found: Project, wrong: Mistake | None) -> Response:
        def count() -> ProjectCounts:
            now, order = labelling_progress(store, found.id), STATUSES[1:] + STATUSES[:1]
            bars = {name: bar_parts((one, counts[one]) for one in order) for name, counts in now.questions.items()}
            return ProjectCounts(now, bars)

        return coordinator.overview(request, found, wrong, count, names=question_names(request, store, found.id))

    coordinator.add(router, overview)


class ProjectSource(msgspec.Struct, frozen=True):
    """The items of a new project; `images` is the folder from which its pictures may come."""

    items: list[Item]
    images: Path | None


def project_source(
    settings: StudioSettings, say: Say, upload: UploadFile | None, path: str, images: str
) -> ProjectSource:
    """Items of an uploaded file, or of a file on this machine; its pictures are beside it unless a folder is named."""
    if upload is not None and upload.filename:
        folder = folder_named(settings, say, images)
        with received(upload) as (file,):
            return ProjectSource(list(read_items(file, resolve_images=False)), folder)
    if not path:
        raise UserError(say("workplace.new.nothing"))
    file = allowed(settings, say, path)
    if not file.exists():
        raise UserError(say("workplace.new.no_file", path=path))
    items = list(read_items(file, resolve_images=False))
    return ProjectSource(items, folder_named(settings, say, images, image_folder(file)))


def add_preview(router: APIRouter, store: Store, coordinator: CoordinatorPages) -> None:
    """The annotator's page as the coordinator sees it. Nothing is stored."""

    @router.get("/projects/{number}/preview")
    def preview(request: Request, number: int, at: Annotated[int, Query(ge=1)] = 1) -> Response:
        found = coordinator.links.coordinated(request, number)
        shown, total = preview_item(store, number, at)
        values = shown_sheet(store, number, shown) | {"reasons": REASONS, "done": False, "shown": 0}
        values |= {"mine": OwnProgress(at - 1, 0, 0, total), "form": "preview-" + "0" * 16, "undo_form": ""}
        address = f"{coordinator.at(number)}/preview?at={min(at, total)}"
        return pages(request).page(request, "label/work.html", preview=address, project=found, **values)

    @router.post("/projects/{number}/preview")
    def onward(request: Request, number: int, at: Annotated[int, Query(ge=1)] = 1) -> Response:
        coordinator.links.coordinated(request, number)
        where = f"{coordinator.at(number)}/preview?at={at + 1}"
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(where, 303)
        return JSONResponse({"next": where})


ExportFormat = Literal["cer", "labels.csv", "votes.csv", "label-studio", "potato"]


def add_export(router: APIRouter, links: RoomLinks) -> None:
    @router.get("/projects/{number}/export/{form}")
    def export(
        request: Request, number: int, form: ExportFormat, everything: bool = False, anonymous: bool = False
    ) -> Response:
        found = links.coordinated(request, number)
        if form in ("labels.csv", "votes.csv"):
            rows = (
                labels_table(links.store, number, everything=everything, anonymous=anonymous)
                if form == "labels.csv"
                else votes_table(links.store, number, anonymous=anonymous)
            )
            headers = {"content-disposition": disposition(f"{found.name}-{form}")}
            lines = (line.encode() for line in ("\ufeff", *csv_lines(rows)))  # with a mark, for spreadsheets
            return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)
        items = labelled(links.store, number, everything=everything or form != "cer", anonymous=anonymous)
        if form == "cer":
            headers = {"content-disposition": disposition(f"{found.name}.jsonl")}
            return StreamingResponse(_lines(items), media_type="application/jsonl", headers=headers)
        return _zipped(found, items, form)


def _lines(items: Iterable[Item]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for item in items:
        yield encoder.encode(item) + b"\n"


def _zipped(project: Project, items: Iterable[Item], form: ExportFormat) -> Response:
    """A folder as a zip, written beside it and removed once it is sent."""
    home = tempfile.mkdtemp()
    try:
        folder = Path(home) / form
        if form == "label-studio":
            write_label_studio(folder, items, project.seed)
        else:
            write_potato(folder, items, project.seed, title=project.name)
        packed = shutil.make_archive(str(Path(home) / "packed"), "zip", home, form)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    tidy = BackgroundTask(shutil.rmtree, home, ignore_errors=True)
    headers = {"content-disposition": disposition(f"{project.name}-{form}.zip")}
    return FileResponse(packed, media_type="application/zip", headers=headers, background=tidy)
