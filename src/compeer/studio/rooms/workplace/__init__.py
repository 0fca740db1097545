"""What Label and Arena share: invited people work through a queue, and a coordinator manages them.

links        personal links of a room's people, who sent a request, and what the store refuses as a page
annotator    the annotator's pages: welcome with its warning, one task after another, skip, undo, rest
coordinator  the coordinator's pages: list, new project, people and their links, files; the router of both

It is no room itself but a `Part` with templates, stylesheet, scripts and texts, which the two rooms use. A room says
what its people do (`annotator.AnnotatorQueue`) and what its own pages show. Where a shared page needs a text of the
room's own, it is looked up under the room's name: `say(room ~ ".welcome.what")`.
"""

from __future__ import annotations

from pathlib import Path

from compeer.studio.room import Part

WORKPLACE = Part(name="workplace", folder=Path(__file__).parent)
