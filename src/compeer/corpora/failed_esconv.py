"""FailedESConv: 196 conversations in which the seeker was not helped. Real negatives, kept by ESConv's authors.

    load(Path("esconv/FailedESConv.json"))    or the folder that holds it

Traps: `speaker` is the *seeker* and `listener` the *supporter*, the other way round from what the words suggest
beside ESConv's `usr` and `sys`. Strategy names vary (`Questions`, `Other`, `Direct Guidance`, `Approval and
Reassurance`, `Restatement`). Every dialogue is marked `helpful=False`; the seeker's ratings of single replies,
1 to 5, are in `extra["feedback"]` by the index of the utterance at which they were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from compeer.corpora.esconv import Conversation, convert
from compeer.corpora.reading import Rejected, by_index, imported, parts
from compeer.dialogue import Dialogue, Speaker

LICENCE = "academic research use"
FILES = {"failed": ("FailedESConv.json",)}
SPEAKERS: Mapping[str, Speaker] = {"speaker": "seeker", "listener": "supporter"}


def load(path: Path) -> Iterator[Dialogue | Rejected]:
    """The failed conversations of the file, or of the folder that holds it."""
    build = partial(convert, source="failed_esconv", licence=LICENCE, speakers=SPEAKERS, helpful=False)
    for part in parts("failed_esconv", path, Conversation, FILES):
        yield from imported("failed_esconv", part.rows, by_index("failed_esconv"), build)
