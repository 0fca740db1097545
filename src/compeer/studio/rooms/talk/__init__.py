"""Talk: a conversation with a model that thinks in three steps, for someone who may be sad.

session     one conversation and all of them, in memory alone: models, pictures, answers
page_state  what the page shows of them
ratings     thumbs that people agreed to keep, and their export
routes      the page, what its script asks for, saving

The page is drawn by static/: page.js holds it together, the other files draw one part each and import nothing.
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.pages import Room
from compeer.studio.rooms.talk.routes import routes
from compeer.studio.rooms.talk.session import explain
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    return Room(
        name="talk",
        folder=Path(__file__).parent,
        router=routes(settings) if settings.models else None,
        roles=("coordinator", "annotator", "guest"),
        uploads=("/picture",),
        explain=explain,
    )
