"""What Label and Arena share: invited people work through a queue, and a coordinator manages them.

links        personal links of a room's people, who sent a request, and what the store refuses as a page
annotator    the annotator's pages: welcome with its warning, one task after another, skip, undo, rest
coordinator  the coordinator's pages: list, new project, people and their links, files; the router of both

It is no room itself but a `Part` with templates, stylesheet, scripts and texts, which the two rooms use. A room says
what its people do (`annotator.AnnotatorPages`) and what its own pages show. Where a shared page needs a text of the
room's own, it is looked up under the room's name: `say(room ~ ".welcome.what")`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from compeer.studio.access import Role
from compeer.studio.pages import Part, Room
from compeer.studio.settings import StudioSettings

if TYPE_CHECKING:  # without a database nothing of it is needed
    from compeer.people.projects import ProjectKind

WORKPLACE = Part(name="workplace", folder=Path(__file__).parent)


def open_workroom(settings: StudioSettings, kind: ProjectKind, folder: Path, uploads: tuple[str, ...]) -> Room:
    """Label or Arena: its folder has the pages, in routes.py; closed in a studio without a database."""
    name = folder.name
    roles: tuple[Role, ...] = ("coordinator", "annotator")
    room = Room(name=name, folder=folder, router=None, roles=roles, uploads=uploads, uses=(WORKPLACE,))
    if settings.db is None:
        return room
    from compeer.people.store import open_store
    from compeer.studio.rooms.workplace.links import RoomLinks, explain

    links = RoomLinks(open_store(settings.db), kind, records_forged=kind == "labelling")
    pages = import_module(f"compeer.studio.rooms.{name}.routes")
    router = pages.routes(links, settings)
    return msgspec.structs.replace(room, router=router, links=links, explain=explain, helpers=pages.HELPERS)
