"""Label: people judge reasoning and replies by the 2 + 1 protocol; a coordinator watches over it.

work        labelling one item after another, own labels
sheet       one item as its page shows it
projects    the coordinator's: a new project, one with its progress
source      the items of a new project, uploaded or named
figures     agreement, audit, disagreements
bars        shares as stretches of a bar
downloads   labels as files
routes      all pages on one router
words       both languages, with the guideline

Links, people, the way from one item to the next, and the look are those of `rooms.workplace`.
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.label.words import WORDS
from compeer.studio.rooms.workplace import WORKPLACE
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    router = door = None
    if settings.db is not None:
        from compeer.people.labelling_project import projects_of
        from compeer.people.store import open_store
        from compeer.studio.rooms.label.routes import routes
        from compeer.studio.rooms.workplace.links import Door

        door = Door(open_store(settings.db), "label", projects_of, notes_forged=True)
        router = routes(door, settings)
    return Room(
        name="label",
        package=sys.modules[__name__],
        words=WORDS,
        router=router,
        roles=("coordinator", "annotator"),
        tokens=door,
        uploads=("/new", "/judgements"),
        uses=(WORKPLACE,),
    )
