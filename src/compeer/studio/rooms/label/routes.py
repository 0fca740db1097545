"""All pages of the room on one router, so that what the store refuses is told everywhere in the same way.

One item as the labelling page shows it: turns with their pictures, questions with their options.

A third person is asked only what is disputed; the other steps are there to be read, without anything to press.

What people do in this room: label one item after another, with a draft that is kept, and look at their own again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Body, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.cer.item import QUESTIONS, Question
from compeer.people import agreement as reliability
from compeer.people import labelling_project as progress
from compeer.people import labelling_project as project
from compeer.people import labelling_queue as queue
from compeer.people import labelling_votes as own
from compeer.people import labelling_votes as voting
from compeer.people.invitations import Person
from compeer.people.labelling_project import Mine, Project, shelf
from compeer.people.labelling_queue import Work
from compeer.people.store import Store
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.access import Refused
from compeer.studio.rooms.label import coordinator as projects
from compeer.studio.rooms.label import figures
from compeer.studio.rooms.label import files as downloads
from compeer.studio.rooms.workplace.annotator import Bench, FormName, Note, Seconds, Shown, took, turns
from compeer.studio.rooms.workplace.coordinate import Coordination
from compeer.studio.rooms.workplace.links import Door
from compeer.studio.rooms.workplace.routes import workplace
from compeer.studio.settings import Settings

#: what a form sends for True and False
STEP_VALUES = {"true": True, "false": False}


class Asked(msgspec.Struct, frozen=True):
    """One question. `text` is the step to judge; for the replies they stand in the task."""

    question: Question
    number: int
    text: str | None
    options: tuple[str, ...]
    chosen: str | None  # what was answered before


class Sheet(msgspec.Struct, frozen=True):
    """Everything on the page that comes from the item."""

    work: Work
    turns: list[Shown]
    asked: list[Asked]
    others: dict[str, str]  # steps that are not asked


def sheet(work: Work) -> Sheet:
    task = work.task
    steps = task.reasoning or {}
    asked = [
        Asked(question, number, steps.get(question), *_options(question, work.draft.answers.get(question)))
        for number, question in enumerate((one for one in QUESTIONS if one in task.questions), start=1)
    ]
    others = {step: text for step, text in steps.items() if step not in task.questions}
    return Sheet(work, turns(task.history), asked, others)


def _options(question: Question, given: Any) -> tuple[tuple[str, ...], str | None]:
    """What can be answered, and which of it was, as a form sends it."""
    if question == "preference":
        return CHOICES, given
    return tuple(STEP_VALUES), next((name for name, value in STEP_VALUES.items() if given is value), None)


Step = Annotated[Literal["true", "false"] | None, Form()]


class Labelling:
    """The trade of this room (`workplace.bench.Trade`); a key is an item's number."""

    things = "items"

    def __init__(self, store: Store) -> None:
        self.store = store

    def mine(self, me: Person) -> Mine:
        return progress.mine(self.store, me)

    def next(self, me: Person) -> Work | None:
        return queue.next_work(self.store, me)

    def view(self, me: Person, key: str) -> Work:
        return queue.view(self.store, me, number(key))

    def sheet(self, found: Work) -> dict[str, Any]:
        return {"sheet": sheet(found), "task": found.task}

    def idle(self, me: Person, mine: Mine) -> dict[str, Any]:
        finished = own.open_items(self.store, me.project) == 0
        agreed = reliability.agreement(self.store, me.project).questions if finished else {}
        return {"finished": finished, "agreed": agreed}

    def skip(self, me: Person, key: str, reason: str, *, distress: bool, form: str) -> None:
        queue.skip(self.store, me, number(key), reason, distress=distress, form=form)

    def undo(self, me: Person, form: str) -> Work | None:
        return voting.undo(self.store, me, form=form)

    def picture(self, me: Person, key: str, which: int) -> Path:
        return project.picture(self.store, me, number(key), which)


def add(router: APIRouter, store: Store, bench: Bench) -> None:
    """The pages that only labelling has."""
    annotator = bench.door.annotator

    @router.get("/items/{item}")
    def look(request: Request, item: int) -> Response:
        me = annotator(request)
        return bench.show(request, me, queue.view(store, me, item))

    @router.post("/items/{item}")
    def hand_in(
        request: Request,
        item: int,
        form: FormName,
        history: Step = None,
        emotion: Step = None,
        strategy: Step = None,
        preference: Annotated[Choice | None, Form()] = None,
        note: Note = "",
        seconds: Seconds = None,
        shown: Seconds = None,
        again: Annotated[bool, Form()] = False,
    ) -> Response:
        me = annotator(request)
        steps = {"history": history, "emotion": emotion, "strategy": strategy}
        answers: dict[str, Any] = {name: STEP_VALUES[said] for name, said in steps.items() if said is not None}
        if preference is not None:
            answers["preference"] = preference
        voting.submit(store, me, item, answers, seconds=took(seconds, shown), note=note, form=form)
        return bench.onward(request, "/label/mine") if again else bench.handed_in(request)

    @router.post("/items/{item}/draft")
    def draft(request: Request, item: int, said: Annotated[dict[str, Any], Body()]) -> Response:
        me = annotator(request)
        answers, note, seconds = said.get("answers"), said.get("note", ""), said.get("seconds", 0.0)
        fits = isinstance(answers, Mapping) and isinstance(note, str) and isinstance(seconds, int | float)
        if not fits or not isinstance(answers, Mapping):
            raise Refused(422, "invalid", "a draft of another form")
        kept = voting.save_draft(store, me, item, answers, note=note, seconds=float(seconds))
        return JSONResponse({"kept": kept})

    @router.get("/mine")
    def mine(request: Request) -> Response:
        me = annotator(request)
        found = [(one, _when(one.finished)) for one in own.handed_in(store, me)]
        return bench.page(request, "label/mine.html", found=found, mine=progress.mine(store, me))


def number(key: str) -> int:
    """An item's number, as it stands in an address."""
    if not (key.isascii() and key.isdigit() and len(key) < 100):
        raise Refused(422, "invalid", "no number of an item")
    return int(key)


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def routes(door: Door[Project], settings: Settings) -> APIRouter:
    store = door.store
    bench = Bench(door, Labelling(store), settings)
    coordination = Coordination(door, settings, "projects", shelf)
    router = workplace(bench, coordination)
    add(router, store, bench)
    projects.add(router, store, coordination)
    figures.add(router, store, door)
    downloads.add(router, store, door)
    return router
