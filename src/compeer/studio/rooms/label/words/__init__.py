"""Words of the room Label: the annotator's pages, the coordinator's, and the guideline."""

from compeer.studio.rooms.label.words.coordinate import COORDINATE
from compeer.studio.rooms.label.words.guide import GUIDE
from compeer.studio.rooms.label.words.work import WORK
from compeer.studio.words import gather

WORDS = gather([WORK, COORDINATE, GUIDE])
