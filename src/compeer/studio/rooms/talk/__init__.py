"""Talk: a conversation with a model that thinks in three steps, for someone who may be sad.

voices      the models one can talk with
live        one conversation: its pictures, its banner, the answer that is being written
memory      all of them, in memory alone, until they are deleted or forgotten
pictures    what may be attached
care        the notice, the banner and the helplines, as the page shows them
told        turns and problems as the page shows them
trouble     what went wrong, in words
stream      an answer on its way to the browser, which ends when the browser leaves
export      a conversation as a file, when the person asks for it
routes      the pages

The page is drawn by static/: page.js holds it together, the other files draw one part each and import nothing.
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.talk.routes import routes
from compeer.studio.rooms.talk.words import WORDS
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    return Room(
        name="talk",
        package=sys.modules[__name__],
        words=WORDS,
        router=routes(settings) if settings.models else None,
        roles=("coordinator", "annotator", "guest"),
        uploads=("/picture",),
    )
