"""Label: people judge reasoning and replies by the 2 + 1 protocol, and a coordinator manages them.

routes   labelling, own labels, projects, labels as files
quality  the practice round; the coordinator's pages about gold items, flags, labels on hold, agreement and audit
setup    the coordinator's pages for the guideline's text and own questions; the preview; Markdown

Links, people, the way from one item to the next, and the look are those of `rooms.workplace`. The guideline that is
shown beside each question is the project's own, or that of `people.guideline`.
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.pages import Room
from compeer.studio.rooms.workplace import open_workroom
from compeer.studio.settings import StudioSettings


def open_room(settings: StudioSettings) -> Room:
    return open_workroom(settings, "labelling", Path(__file__).parent, uploads=("/new", "/judgements", "/known"))
