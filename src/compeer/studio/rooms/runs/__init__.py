"""Runs: what has been trained and measured.

reading  which folders hold a run; metrics, samples and results, also while they are written; notes
drawing  figures, the lines of the list and times as the pages show them
routes   the pages: the list, a run, an evaluation, several side by side, a report
"""

from __future__ import annotations

from pathlib import Path

from compeer.evals.report.charts import FOLDER
from compeer.studio.pages import Part, Room
from compeer.studio.rooms.runs.routes import HELPERS, routes
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    return Room(
        name="runs",
        folder=Path(__file__).parent,
        router=routes(settings) if settings.runs else None,
        roles=("coordinator",),
        uses=(Part(name="figure", folder=FOLDER),),
        helpers=HELPERS,
    )
