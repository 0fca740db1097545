"""Arena: people compare two replies to the same conversation, blind; at the end the stacked bars of Figure 6.

work        comparing one pair after another, the bars at the end
arenas      the coordinator's: a new arena, one with its progress, closing, results
source      the cases and replies of a new arena, uploaded or named
downloads   votes, results and the figure as files
chart       results as rows to draw
routes      all pages on one router
words       both languages

Links, people, the way from one pair to the next, and the look are those of `rooms.workplace`. A page that compares
holds two texts and a random name. No number, no order and no attribute in it hangs on the models.
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.arena.words import WORDS
from compeer.studio.rooms.workplace import WORKPLACE
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    router = door = None
    if settings.db is not None:
        from compeer.people.arena_project import arenas_of
        from compeer.people.store import open_store
        from compeer.studio.rooms.arena.routes import routes
        from compeer.studio.rooms.workplace.links import Door

        door = Door(open_store(settings.db), "arena", arenas_of)
        router = routes(door, settings)
    return Room(
        name="arena",
        package=sys.modules[__name__],
        words=WORDS,
        router=router,
        roles=("coordinator", "annotator"),
        tokens=door,
        uploads=("/new",),
        uses=(WORKPLACE,),
    )
