"""Label: people judge reasoning and replies by the 2 + 1 protocol; a coordinator watches over it.

links       personal links of a project's people, and who asks
told        what the store refuses, as a friendly page
care        where an annotator who is not well finds help
routes      all pages on one router
work        the annotator's pages: welcome, one item after another, skip, own labels
sheet       one item as its page shows it
projects    the coordinator's: projects, people, links
source      the items of a new project, uploaded or named
figures     agreement, audit, disagreements
bars        shares as stretches of a bar
downloads   labels as files
once        the coordinator's forms, each good for one use
words       both languages, with the guideline
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.label.words import WORDS
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    router = links = None
    if settings.db is not None:
        from compeer.annotation.store import open_store
        from compeer.studio.rooms.label.links import Links
        from compeer.studio.rooms.label.routes import routes

        store = open_store(settings.db)
        router, links = routes(store, settings), Links(store)
    return Room(
        name="label",
        package=sys.modules[__name__],
        words=WORDS,
        router=router,
        roles=("coordinator", "annotator"),
        tokens=links,
        uploads=("/new", "/judgements"),
    )
