"""Runs: what has been trained and measured, for someone who compares at midnight.

find        which folders below the given ones hold a run, an evaluation or a report
tail        reading a file that is still being written, without reading it twice
numbers     metrics.jsonl as columns
curve       a column as a small drawing: thinned, with what the thinning hid
samples     what the model wrote at some steps
evaluation  figures with their intervals
shelf       everything above, kept between requests, as the pages show it
routes      the pages
"""

from __future__ import annotations

import sys

from compeer.studio.room import Room
from compeer.studio.rooms.runs.routes import routes
from compeer.studio.rooms.runs.words import WORDS
from compeer.studio.settings import Settings


def open_room(settings: Settings) -> Room:
    return Room(
        name="runs",
        package=sys.modules[__name__],
        words=WORDS,
        router=routes(settings) if settings.runs else None,
        roles=("coordinator",),
    )
