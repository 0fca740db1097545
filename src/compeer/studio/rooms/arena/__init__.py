"""Arena: people compare two replies to the same conversation, blind; at the end the stacked bars of Figure 6.

routes  comparing, the coordinator's arenas, results and files

Links, people, the way from one pair to the next, and the look are those of `rooms.workplace`.
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.room import Room
from compeer.studio.rooms.workplace import WORKPLACE
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    router = links = None
    if settings.db is not None:
        from compeer.people.store import open_store
        from compeer.studio.rooms.arena.routes import routes
        from compeer.studio.rooms.workplace.links import RoomLinks

        links = RoomLinks(open_store(settings.db), "arena")
        router = routes(links, settings)
    return Room(
        name="arena",
        folder=Path(__file__).parent,
        router=router,
        roles=("coordinator", "annotator"),
        links=links,
        uploads=("/new",),
        uses=(WORKPLACE,),
    )
