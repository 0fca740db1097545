"""Arena: people compare two replies to the same conversation, blind; at the end the stacked bars of Figure 6.

routes  comparing, the coordinator's arenas, results and files

Links, people, the way from one pair to the next, and the look are those of `rooms.workplace`.
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.pages import Room
from compeer.studio.rooms.workplace import open_workroom
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    return open_workroom(settings, "arena", Path(__file__).parent, uploads=("/new",))
