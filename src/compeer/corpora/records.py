"""From what a corpus says to a Dialogue: labels looked up, both sides checked, images attached, the rest kept.

Labels go through the ontology. A name it does not know is never forced into one it does: the label stays empty
and the name is counted under `extra["unmapped_strategies"]` or `["unmapped_emotions"]`. Where a corpus is finer
than we are (MESC's Interpretation, ESCoT's Imagery) the original name is kept by utterance index under
`extra["raw_strategies"]`. Trap: on a supporter's utterance our `emotion` is the seeker's, as read there. A corpus that
labels what the *supporter* feels must not put it there.

`MediaFolder` finds images, sound and video by name: `dia{N}utt{M}` with anything behind it (AvaMERG writes
`dia01118utt0_28.mp4`, the 28 being an avatar), or `{N}_{M}`. Frames are images with a number behind the name
(`dia3utt1_004.jpg`) or in a folder of the name (`dia3utt1/004.jpg`), taken in the order of their numbers. Trap:
AvaMERG's files count utterances from 0; the renaming script of its baseline makes that `dia{N}utt{M}` counted from 1. A
folder without any utterance 0 is therefore read as counted from 1. The index holds file names only, some hundred bytes
each.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compeer.corpora.reading import CorpusError
from compeer.dialogue import Dialogue, Speaker, Utterance
from compeer.reasoning.ontology import EMOTIONS, STRATEGIES, fold

#: what corpora write where there is no label
_ABSENT = frozenset({"", "undefined", "none", "null", "n/a", "nan"})


class Labels:
    """The labels of one dialogue, and what could not be mapped."""

    def __init__(self) -> None:
        self.unmapped: dict[str, Counter[str]] = {"strategies": Counter(), "emotions": Counter()}
        self.raw: dict[str, str] = {}

    def strategy(self, name: str | None, at: int) -> str | None:
        """The identifier for a corpus's strategy name; `at` is the utterance's index."""
        if name is None or fold(name) in _ABSENT:
            return None
        # ESConv's own list writes them in brackets: "[Question]"
        value = STRATEGIES.find(name.strip().removeprefix("[").removesuffix("]"))
        if value is None:
            self.unmapped["strategies"][name.strip()] += 1
            self.raw[str(at)] = name.strip()
            return None
        if fold(name) != value.id:
            self.raw[str(at)] = name.strip()
        return value.id

    def emotion(self, name: str | None) -> str | None:
        if name is None or (fold(name) in _ABSENT and fold(name) != "none"):
            return None
        value = EMOTIONS.find(name)
        if value is None:
            self.unmapped["emotions"][name.strip()] += 1
        return value.id if value else None

    def extra(self) -> dict[str, Any]:
        kept: dict[str, Any] = {f"unmapped_{kind}": dict(names) for kind, names in self.unmapped.items() if names}
        if self.raw:
            kept["raw_strategies"] = self.raw
        return kept


Side = TypeVar("Side", bound=str | None)


def side(sides: Mapping[str, Side], name: str, place: str, what: str = "speaker") -> Side:
    """The side that a corpus's speaker name stands for; ValueError for an unknown name.

    >>> side({"usr": "seeker"}, "usr", "utterance 3")
    'seeker'
    """
    if name not in sides:
        raise ValueError(f"{place}: unknown {what} {name!r}; known: {', '.join(sides)}")
    return sides[name]


def utterance(at: int, speaker: Speaker, text: str | None, **fields: Any) -> Utterance:
    """An Utterance, stripped; errors name its index."""
    try:
        return Utterance(speaker=speaker, text=(text or "").strip(), **fields)
    except ValueError as problem:
        raise ValueError(f"utterance {at}: {problem}") from None


def dialogue(
    name: str,
    source: str,
    licence: str,
    language: str,
    said: Sequence[Utterance],
    labels: Labels | None = None,
    extra: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Dialogue:
    """A Dialogue; ValueError unless both sides speak. Empty texts and empty values of `extra` are left out."""
    for side in ("supporter", "seeker"):
        if not any(u.speaker == side for u in said):
            raise ValueError(f"there is no {side} turn" if said else "there is no utterance")
    kept = {key: value for key, value in (extra or {}).items() if value not in (None, "", [], {}, ())}
    if labels:
        kept |= labels.extra()
    for optional in ("situation", "problem"):
        fields[optional] = (fields.get(optional) or "").strip() or None
    about: Any = {"source": source, "licence": licence, "language": language}
    return Dialogue(id=name, **about, utterances=tuple(said), extra=kept, **fields)


def scale(value: str | float | None) -> int | None:
    """A rating of 1 to 5, which corpora write as a string; None where there is none.

    >>> scale("4"), scale(""), scale("9"), scale(None)
    (4, None, None, None)
    """
    text = str(value).strip()
    return int(text) if text in {"1", "2", "3", "4", "5"} else None


def problem_type(name: str | None) -> str | None:
    """One spelling for a problem: corpora vary case and white space.

    >>> problem_type("Childhood  Shadow ")
    'childhood shadow'
    """
    return fold(name) if name and name.strip() else None


MORE = "(more)"  # in a table of counts: everything that came after the table was full


def count(table: dict[str, int], key: str, times: int = 1, *, most: int) -> str:
    """Count a name in a table of at most so many names; returns the name under which it was counted."""
    if key not in table and len(table) >= most:
        key = MORE
    table[key] = table.get(key, 0) + times
    return key


_KINDS = {
    "image": (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"),
    "audio": (".wav", ".mp3", ".flac", ".m4a", ".ogg"),
    "video": (".mp4", ".avi", ".mov", ".mkv", ".webm"),
}
_KIND = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes}
_NAMED = re.compile(r"dia[_-]?(\d+)[/_-]?utt[_-]?(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:^|/)(\d+)[_-](\d+)(?=[^/\d][^/]*$)")


class Media(msgspec.Struct):
    """The media of one utterance, as absolute paths."""

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
    """Sound and video by utterance index, for `extra`: a Dialogue has no field for them."""
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
