"""All pages of the room on one router, so that what the store refuses is told everywhere in the same way."""

from __future__ import annotations

from fastapi import APIRouter

from compeer.arena.progress import shelf
from compeer.arena.project import Arena
from compeer.studio.rooms.arena import arenas, downloads, work
from compeer.studio.rooms.workplace.bench import Bench
from compeer.studio.rooms.workplace.coordinate import Coordination
from compeer.studio.rooms.workplace.door import Door
from compeer.studio.rooms.workplace.routes import workplace
from compeer.studio.settings import Settings


def routes(door: Door[Arena], settings: Settings) -> APIRouter:
    store = door.store
    bench = Bench(door, work.Comparing(store), settings)
    coordination = Coordination(door, settings, "arenas", shelf)
    router = workplace(bench, coordination)
    work.add(router, store, bench)
    arenas.add(router, store, coordination)
    downloads.add(router, store, door)
    return router
