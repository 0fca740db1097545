"""AvaMERG: 33,048 English empathetic dialogues, spoken by avatars: text, speech and talking-face video.

    load(Path("train.json"))                        text only
    load(Path("AvaMERG"), media=Path("AvaMERG"))    with the media found below the folder, see `media.py`

The layout, as the authors' challenge page shows it (a JSON list, or one object a line):

    {"conversation_id": "01118", "topic": "…",
     "speaker_profile":  {"age": "young", "gender": "male", "timbre": "high", "ID": 28},
     "listener_profile": {…},
     "turns": [{"turn_id": "0", "context": "…",
                "dialogue_history": [{"index": 0, "role": "speaker", "utterance": "…"}, …],
                "response": "…",
                "chain_of_empathy": {"speaker_emotion": "anxious", "event_scenario": "…",
                                     "emotion_cause": "…", "goal_to_response": "…"}}, …]}

Each turn repeats the history before it, so a dialogue is put together from all of its turns. `speaker` is the
seeker, `listener` the supporter. The emotion is one of EmpatheticDialogues' 32, the seeker's, and stands on the
reply it was read for and on the utterance before it. The chain of empathy is a reasoning in three steps: event,
cause, goal.

Written from descriptions and code that uses the data, without a sample file at hand: what does not fit is turned
away with its reason, not bent into shape. Sound and video are listed in `extra["media"]`; pictures are attached.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.reading import Rejected, conversations
from compeer.corpora.records import Labels, Media, MediaFolder, dialogue, problem_type, side, sound_and_video, utterance
from compeer.dialogue import Dialogue, Speaker, Steps

LICENCE = "none stated"
FILES = {"train": ("train.json", "train.jsonl"), "valid": ("valid.json", "val.json"), "test": ("test.json",)}
_SPEAKERS: dict[str, Speaker] = {"speaker": "seeker", "listener": "supporter"}


class AvaMergUtterance(msgspec.Struct):
    index: int
    role: str
    utterance: str


class Chain(msgspec.Struct):
    speaker_emotion: str | None = None
    event_scenario: str | None = None
    emotion_cause: str | None = None
    goal_to_response: str | None = None

    @property
    def steps(self) -> Steps | None:
        event, cause, goal = (
            (part or "").strip() for part in (self.event_scenario, self.emotion_cause, self.goal_to_response)
        )
        return Steps(history=event, emotion=cause, strategy=goal) if event and cause and goal else None


class AvaMergTurn(msgspec.Struct):
    dialogue_history: list[AvaMergUtterance]
    response: str
    context: str | None = None
    chain_of_empathy: Chain | None = None


class AvaMergRow(msgspec.Struct):
    conversation_id: str | int
    turns: list[AvaMergTurn]
    topic: str | None = None
    speaker_profile: dict[str, Any] | None = None
    listener_profile: dict[str, Any] | None = None


class _Place(msgspec.Struct):
    """One utterance. Turns repeat it and must agree."""

    speaker: Speaker
    text: str
    emotion: str | None = None
    reasoning: Steps | None = None


def load(path: Path, *, split: str | None = None, media: Path | None = None) -> Iterator[Dialogue | Rejected]:
    """The dialogues of a file, a folder or a hub name; `media` attaches what is there by name."""
    build = partial(convert, folder=MediaFolder(media) if media else None)
    return conversations("avamerg", path, AvaMergRow, FILES, build, split, own_id=_own_id)


def _own_id(row: AvaMergRow, index: int) -> str:
    return str(row.conversation_id).zfill(5)


def convert(row: AvaMergRow, name: str, *, folder: MediaFolder | None = None) -> Dialogue:
    labels = Labels()
    places = _places(row, labels)
    number = str(row.conversation_id).removeprefix("dia")
    media = dict.fromkeys(range(len(places)), Media())
    if folder and number.isdigit():
        media = {at: folder.of(int(number), at) for at in media}
    said = [
        utterance(
            at, one.speaker, one.text, emotion=one.emotion, reasoning=one.reasoning, images=tuple(media[at].image)
        )
        for at, one in enumerate(places)
    ]
    extra = {
        "speaker_profile": row.speaker_profile,
        "listener_profile": row.listener_profile,
        "media": sound_and_video(media),
    }
    return dialogue(
        name,
        "avamerg",
        LICENCE,
        "en",
        said,
        labels,
        extra,
        situation=next((turn.context for turn in row.turns if turn.context), None),
        problem=problem_type(row.topic),
        emotion=next((one.emotion for one in said if one.emotion), None),
    )


def _places(row: AvaMergRow, labels: Labels) -> list[_Place]:
    """The utterances in order, put together from the histories and replies of all turns."""
    found: dict[int, _Place] = {}
    for turn in row.turns:
        for one in turn.dialogue_history:
            speaker = side(_SPEAKERS, one.role.lower(), f"utterance {one.index}", "role")
            _put(found, one.index, speaker, one.utterance)
        at = max((one.index for one in turn.dialogue_history), default=-1) + 1
        _put(found, at, "supporter", turn.response)
        if chain := turn.chain_of_empathy:
            found[at].emotion = labels.emotion(chain.speaker_emotion)
            found[at].reasoning = chain.steps
            if at - 1 in found and found[at - 1].speaker == "seeker":
                found[at - 1].emotion = found[at].emotion
    order = sorted(found)
    if order != list(range(len(order))):
        raise ValueError(f"utterances are missing: only {order} are there")
    return [found[at] for at in order]


def _put(found: dict[int, _Place], at: int, speaker: Speaker, text: str) -> None:
    place = found.setdefault(at, _Place(speaker, text))
    if (place.speaker, place.text.strip()) != (speaker, text.strip()):
        raise ValueError(f"utterance {at}: two turns of the conversation disagree about it")
