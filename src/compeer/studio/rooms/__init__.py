"""The rooms, in the order of the navigation. A new one is a package here and a name in ROOMS."""

from __future__ import annotations

from compeer.studio.room import Room
from compeer.studio.rooms import arena, label, runs, talk
from compeer.studio.settings import Settings

ROOMS = (talk, label, arena, runs)


def open_rooms(settings: Settings) -> list[Room]:
    return [room.open_room(settings) for room in ROOMS]
