"""All pages of the room on one router, so that what the store refuses is told everywhere in the same way.

What people do in this room: compare two replies, one pair after another, until the result is there to see.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.people import arena_project as progress
from compeer.people import arena_queue as queue
from compeer.people.arena_project import Arena, Mine, shelf
from compeer.people.arena_queue import Comparison
from compeer.people.arena_results import results_of
from compeer.people.invitations import Person
from compeer.people.store import Store
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.rooms.arena import coordinator as arenas
from compeer.studio.rooms.arena import files as downloads
from compeer.studio.rooms.arena.coordinator import chart
from compeer.studio.rooms.workplace.annotator import Bench, FormName, Note, Seconds, took, turns
from compeer.studio.rooms.workplace.coordinate import Coordination
from compeer.studio.rooms.workplace.links import Door
from compeer.studio.rooms.workplace.routes import workplace
from compeer.studio.settings import Settings


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


def routes(door: Door[Arena], settings: Settings) -> APIRouter:
    store = door.store
    bench = Bench(door, Comparing(store), settings)
    coordination = Coordination(door, settings, "arenas", shelf)
    router = workplace(bench, coordination)
    add(router, store, bench)
    arenas.add(router, store, coordination)
    downloads.add(router, store, door)
    return router
