"""All pages of the room on one router, so that what the store refuses is told everywhere in the same way."""

from __future__ import annotations

from fastapi import APIRouter

from compeer.annotation.project import Project
from compeer.annotation.shelf import shelf
from compeer.studio.rooms.label import downloads, figures, projects, work
from compeer.studio.rooms.workplace.bench import Bench
from compeer.studio.rooms.workplace.coordinate import Coordination
from compeer.studio.rooms.workplace.door import Door
from compeer.studio.rooms.workplace.routes import workplace
from compeer.studio.settings import Settings


def routes(door: Door[Project], settings: Settings) -> APIRouter:
    store = door.store
    bench = Bench(door, work.Labelling(store), settings)
    coordination = Coordination(door, settings, "projects", shelf)
    router = workplace(bench, coordination)
    work.add(router, store, bench)
    projects.add(router, store, coordination)
    figures.add(router, store, door)
    downloads.add(router, store, door)
    return router
