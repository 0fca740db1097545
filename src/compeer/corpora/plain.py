"""Plain JSON: your own conversations, and our own records.

One object a line, or a JSON list. Three forms, told apart by their key and free to mix in a file:

    {"utterances": [...], "id": ..., ...}                         a Dialogue, as `compeer corpus import` writes it
    {"messages": [{"role": "user", "content": "..."}, ...]}       a chat; `system` goes to `extra`
    {"dialog": [{"speaker": "seeker", "text": "...",
                 "strategy": "...", "emotion": "..."}, ...]}      with labels, where you have them

The last two may add id, source, licence, language, situation, problem, emotion, intensity, helpful, crisis. What
they leave out comes from the options (`licence`, `language`); a language nobody gives is read off the text. A chat
message's content may be a list of parts, with pictures. Keys we do not know are kept in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.reading import CorpusError, Rejected, by_index, imported, parts
from compeer.corpora.records import Labels, dialogue, problem_type, scale, side, utterance
from compeer.dialogue import Dialogue, Speaker, Utterance
from compeer.dialogue.jsonl import with_full_image_paths
from compeer.reasoning.ontology import LANGUAGES, Language, detect
from compeer.typed import from_plain

LICENCE = "not given"
_SIDES: dict[Speaker, tuple[str, ...]] = {
    "seeker": ("seeker", "user", "usr", "client", "human", "speaker", "patient", "来访者", "求助者"),
    "supporter": ("supporter", "assistant", "sys", "counselor", "counsellor", "therapist", "gpt", "listener", "咨询师"),
}
_ROLES: dict[str, Speaker] = {role: side for side, roles in _SIDES.items() for role in roles}


class Message(msgspec.Struct):
    """A message of either form; `content` may be a list of parts."""

    role: str | None = None
    speaker: str | None = None
    content: str | list[dict[str, Any]] | None = None
    text: str | None = None
    strategy: str | None = None
    emotion: str | None = None
    images: tuple[str, ...] = ()


class Simple(msgspec.Struct):
    messages: list[Message] = []
    dialog: list[Message] = []
    id: str | int | None = None
    source: str | None = None
    licence: str | None = None
    license: str | None = None
    language: Language | None = None
    situation: str | None = None
    problem: str | None = None
    emotion: str | None = None
    intensity: str | int | None = None
    helpful: bool | None = None
    crisis: bool = False


def load(
    path: Path, *, split: str | None = None, licence: str | None = None, language: str | None = None
) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, of every .json and .jsonl in a folder, or of a hub name."""
    if language is not None and language not in LANGUAGES:
        raise CorpusError(path, f"there is no language {language!r}", f"Give one of {', '.join(LANGUAGES)}")
    names = {file.stem: (file.name,) for file in sorted(path.glob("*.json*"))} if path.is_dir() else {}
    folder = path if path.is_dir() else path.parent  # which the pictures' paths are relative to
    build = partial(convert, licence=licence, language=language)
    for label, rows in parts("plain", path, dict[str, Any], names or {"all": ("*.jsonl", "*.json")}, split):
        for outcome in imported("plain", rows, partial(_identify, by_index(f"plain/{label}")), build):
            yield outcome if isinstance(outcome, Rejected) else with_full_image_paths(outcome, "utterances", folder)


def _identify(fallback: Any, row: dict[str, Any], index: int) -> str:
    given = row.get("id")
    return str(given) if isinstance(given, (str, int)) and str(given).strip() else str(fallback(row, index))


def convert(row: dict[str, Any], name: str, *, licence: str | None, language: str | None) -> Dialogue:
    if "utterances" in row:
        return from_plain({**row, "id": name}, Dialogue)
    if not ("messages" in row or "dialog" in row):
        raise ValueError("there is none of the keys utterances, messages, dialog")
    simple = from_plain(row, Simple)
    labels = Labels()
    said: list[Utterance] = []
    system: list[str] = []
    for at, message in enumerate(simple.messages or simple.dialog):
        role = (message.role or message.speaker or "").strip().casefold()
        if role == "system":
            system.append(_content(message)[0])
            continue
        speaker = side(_ROLES, role, f"message {at}", "role")
        text, images = _content(message)
        strategy = labels.strategy(message.strategy, len(said)) if speaker == "supporter" else None
        shown = (*message.images, *images)
        emotion = labels.emotion(message.emotion)
        said.append(utterance(at, speaker, text, images=shown, strategy=strategy, emotion=emotion))
    extra = {key: value for key, value in row.items() if key not in (*Simple.__struct_fields__, "extra")}
    extra |= row["extra"] if isinstance(row.get("extra"), dict) else {}
    return dialogue(
        name,
        simple.source or "plain",
        simple.licence or simple.license or licence or LICENCE,
        simple.language or language or detect(" ".join(one.text for one in said)),
        said,
        labels,
        extra | {"system": "\n".join(system)},
        situation=simple.situation,
        problem=problem_type(simple.problem),
        emotion=labels.emotion(simple.emotion),
        intensity=scale(simple.intensity),
        helpful=simple.helpful,
        crisis=simple.crisis,
    )


def _content(message: Message) -> tuple[str, list[str]]:
    """Text and pictures of a message, whose content is a text or a list of typed parts."""
    if not isinstance(message.content, list):
        return message.content or message.text or "", []
    texts = [str(part["text"]) for part in message.content if part.get("type") == "text" and part.get("text")]
    images = []
    for part in message.content:
        link = part.get("image_url")
        link = link.get("url") if isinstance(link, dict) else link
        if found := link or part.get("path") or part.get("image") or part.get("url"):
            images.append(str(found))
    return "\n".join(texts), images
