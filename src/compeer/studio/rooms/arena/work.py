"""What people do in this room: compare two replies, one pair after another, until the result is there to see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.annotation.people import Person
from compeer.annotation.store import Store
from compeer.arena import progress, queue
from compeer.arena.progress import Mine
from compeer.arena.queue import Comparison
from compeer.arena.results import results_of
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.rooms.arena.chart import chart
from compeer.studio.rooms.workplace.bench import Bench, FormName, Note, Seconds, took
from compeer.studio.rooms.workplace.talk import turns


class Comparing:
    """The trade of this room (`workplace.bench.Trade`); a key is the random name of a lease."""

    things = "compare"

    def __init__(self, store: Store) -> None:
        self.store = store

    def mine(self, me: Person) -> Mine:
        return progress.mine(self.store, me)

    def next(self, me: Person) -> Comparison | None:
        return queue.next_comparison(self.store, me)

    def view(self, me: Person, key: str) -> Comparison:
        return queue.view(self.store, me, key)

    def sheet(self, found: Comparison) -> dict[str, Any]:
        return {"work": found, "turns": turns(found.history), "choices": CHOICES}

    def idle(self, me: Person, mine: Mine) -> dict[str, Any]:
        return {"chart": chart(results_of(self.store, me.project)) if mine.over else None}

    def skip(self, me: Person, key: str, reason: str, *, distress: bool, form: str) -> None:
        queue.skip(self.store, me, key, reason, distress=distress, form=form)

    def undo(self, me: Person, form: str) -> Comparison | None:
        return queue.undo(self.store, me, form=form)

    def picture(self, me: Person, key: str, number: int) -> Path:
        return queue.picture(self.store, me, key, number)


def add(router: APIRouter, store: Store, bench: Bench) -> None:
    """The pages that only comparing has."""
    annotator = bench.door.annotator

    @router.post("/compare/{name}")
    def hand_in(
        request: Request,
        name: str,
        form: FormName,
        choice: Annotated[Choice, Form()],
        note: Note = "",
        seconds: Seconds = None,
        shown: Seconds = None,
    ) -> Response:
        me = annotator(request)
        queue.submit(store, me, name, choice, seconds=took(seconds, shown), note=note, form=form)
        return bench.handed_in(request)

    @router.post("/compare/{name}/keep")
    def keep(request: Request, name: str) -> Response:
        return JSONResponse({"kept": queue.keep(store, annotator(request), name)})
