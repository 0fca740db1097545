"""Words that Label and Arena say alike: people at work, their coordinator, and what is refused."""

from compeer.studio.rooms.workplace.words.coordinate import COORDINATE
from compeer.studio.rooms.workplace.words.refused import REFUSED
from compeer.studio.rooms.workplace.words.work import WORK
from compeer.studio.words import gather

WORDS = gather([WORK, COORDINATE, REFUSED])
