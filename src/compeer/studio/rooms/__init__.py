"""The rooms, in the order of the navigation.

talk       a conversation with a model
label      people judge reasoning and replies
arena      people compare two replies, blind
runs       training runs and evaluations
workplace  what label and arena share: links, the annotator's pages, the coordinator's pages
"""

from __future__ import annotations

from compeer.studio.pages import Room
from compeer.studio.rooms import arena, label, runs, talk
from compeer.studio.settings import StudioSettings

ROOMS = (talk, label, arena, runs)


def open_rooms(settings: StudioSettings) -> list[Room]:
    return [room.open_room(settings) for room in ROOMS]
