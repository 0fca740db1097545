"""Arena: people compare two replies to the same conversation, blind; at the end the stacked bars of Figure 6.

links       personal links of an arena's people, and who asks
told        what the store refuses, as a friendly page
work        the annotator's pages: welcome, one comparison after another, skip, the bars at the end
arenas      the coordinator's: arenas, a new one, people, links, results
source      the cases and replies of a new arena, uploaded or named
downloads   votes, results and the figure as files
chart       results as rows to draw
words       both languages

The store, the queue's ways and the look are those of labelling: pages use parts and words of the room Label. A page
that compares holds two texts and a random name. No number, no order and no attribute in it hangs on the models.
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.arena.words import WORDS
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    router = links = None
    if settings.db is not None:
        from compeer.annotation.store import open_store
        from compeer.studio.rooms.arena.links import Links
        from compeer.studio.rooms.arena.routes import routes

        store = open_store(settings.db)
        router, links = routes(store, settings), Links(store)
    return Room(
        name="arena",
        package=sys.modules[__name__],
        words=WORDS,
        router=router,
        roles=("coordinator", "annotator"),
        tokens=links,
        uploads=("/new",),
    )
