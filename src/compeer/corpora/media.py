"""Pictures, sound and video that belong to an utterance, found by name in a folder.

Names say which utterance of which dialogue: `dia{N}utt{M}` with anything behind it (AvaMERG writes
`dia01118utt0_28.mp4`, the 28 being an avatar), or `{N}_{M}`. Frames are pictures with a number behind the name
(`dia3utt1_004.jpg`) or in a folder of the name (`dia3utt1/004.jpg`), taken in the order of their numbers.

Trap: AvaMERG's files count utterances from 0; the renaming script of its baseline makes that `dia{N}utt{M}`
counted from 1. A folder without any utterance 0 is therefore read as counted from 1.

The index holds every file name of the folder in memory: names only, some hundred bytes a file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.outcome import CorpusError

_KINDS = {
    "image": (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"),
    "audio": (".wav", ".mp3", ".flac", ".m4a", ".ogg"),
    "video": (".mp4", ".avi", ".mov", ".mkv", ".webm"),
}
_KIND = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes}
_NAMED = re.compile(r"dia[_-]?(\d+)[/_-]?utt[_-]?(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:^|/)(\d+)[_-](\d+)(?=[^/\d][^/]*$)")


class Media(msgspec.Struct):
    """What there is for one utterance: absolute paths."""

    image: list[str] = []
    audio: list[str] = []
    video: list[str] = []


class MediaFolder:
    """The media of a folder, by dialogue and utterance number (utterances from 0)."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise CorpusError(folder, "there is no such media folder", "Give the folder that holds dia…utt… files")
        self._found: dict[tuple[int, int], Media] = {}
        root = folder.resolve()
        for parent, _, names in os.walk(root):
            for name in names:
                self._add(root, Path(parent) / name)
        if not self._found:
            raise CorpusError(
                folder, "no file is named for an utterance", "Names are like dia3utt1.mp4, dia3utt1_004.jpg or 3_1.jpg"
            )
        self._first = 0 if any(utterance == 0 for _, utterance in self._found) else 1
        for media in self._found.values():
            for files in (media.image, media.audio, media.video):
                files.sort(key=_natural)

    def of(self, dialogue: int, utterance: int) -> Media:
        """Media of an utterance, counted from 0; empty where there is none."""
        return self._found.get((dialogue, utterance + self._first), Media())

    def _add(self, root: Path, file: Path) -> None:
        kind = _KIND.get(file.suffix.lower())
        # "._name" is what macOS leaves beside a file, not a file of the corpus
        if kind is None or file.name.startswith("."):
            return
        relative = file.relative_to(root).as_posix()
        if named := _NAMED.search(relative) or _NUMBERED.search(relative):
            key = int(named.group(1)), int(named.group(2))
            getattr(self._found.setdefault(key, Media()), kind).append(str(file))


def sound_and_video(media: dict[int, Media]) -> dict[str, Any]:
    """What a Dialogue has no field for, by utterance index, for its `extra`."""
    kept = {
        str(at): {kind: files for kind, files in (("audio", one.audio), ("video", one.video)) if files}
        for at, one in media.items()
    }
    return {at: files for at, files in kept.items() if files}


def _natural(path: str) -> list[int | str]:
    """Sort key in which 10 comes after 9.

    >>> sorted(["f10.jpg", "f9.jpg"], key=_natural)
    ['f9.jpg', 'f10.jpg']
    """
    # split with a group alternates text and digits, so equal positions always hold equal types
    return [int(piece) if at % 2 else piece for at, piece in enumerate(re.split(r"(\d+)", path))]
