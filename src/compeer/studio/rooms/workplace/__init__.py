"""What Label and Arena share: rooms in which invited people work through a queue and somebody coordinates them.

door        personal links of a room's people, and who asks
told        what the store refuses, as a friendly page
bench       the annotator's pages: welcome with its warning, one thing after another, skip, undo, rest
coordinate  the coordinator's: a list, making a new one, people and their links
once        the coordinator's forms, each good for one use
files       what something new is made from, uploaded or named; names for downloads
talk        a conversation as these pages show it
care        where somebody who is not well finds help
words       both languages

It is no room itself: a `Part` with templates, stylesheet, scripts and words, which the two rooms use (`room.Part`).
A room says what people do in it (`bench.Trade`) and what its own pages show. Where a shared page says something that
is the room's own, the word is looked up under the room's name: `say(room ~ ".welcome.what")`.
"""

from __future__ import annotations

import sys

from compeer.studio.room import Part
from compeer.studio.rooms.workplace.words import WORDS

WORKPLACE = Part(name="workplace", package=sys.modules[__name__], words=WORDS)
