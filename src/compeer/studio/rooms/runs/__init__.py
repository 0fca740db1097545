"""Runs: what has been trained and measured.

reading  which folders hold a run; metrics, samples and results, also while they are written
drawing  curves, intervals and times as the pages show them
routes   the pages: the list, a run, an evaluation, a report
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.room import Room
from compeer.studio.rooms.runs.routes import routes
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    return Room(
        name="runs",
        folder=Path(__file__).parent,
        router=routes(settings) if settings.runs else None,
        roles=("coordinator",),
    )
