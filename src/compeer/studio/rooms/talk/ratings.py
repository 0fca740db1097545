"""Thumbs on replies that people agreed to keep, and what a coordinator exports of them.

Without consent a thumb is in memory only, like the conversation. With it, one record per rated reply is kept:

    rating, date             "up" or "down", and the day
    model, control           the model's name; what was pinned or rewritten in its thinking
    message, output          the person's message, and the reply with its thinking
    history                  what both said before; only with the scope "conversation"

No name, no account, no picture. Nothing is kept of a conversation in which someone may have been in danger.

Each browser has a file of its own below `talk-ratings` in the studio's data folder, named by a hash of its session. The
file is the consent: its first line says to what, and taking the consent back deletes the file, also after the
conversation is gone or the studio was restarted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.conversation import AnsweredTurn, ChatSession
from compeer.typed import from_json

KeptScope = Literal["off", "reply", "conversation"]
Thumb = Literal["up", "down"]


class Line(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line of a file: a scope from now on, or a rating of the turn `id`."""

    scope: KeptScope | None = None
    id: str = ""
    rating: Thumb | None = None
    record: dict[str, Any] = {}


class Ratings:
    """The files of everybody who agreed."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "talk-ratings"

    def scope(self, key: tuple[str, str]) -> KeptScope:
        """What a person agreed to."""
        found: KeptScope = "off"
        for line in _lines(self._file(key)):
            found = line.scope or found
        return found

    def agree(self, key: tuple[str, str], scope: KeptScope) -> None:
        """Keep this much from now on; "off" deletes all that was kept."""
        if scope == "off":
            self._file(key).unlink(missing_ok=True)
        elif scope != (before := self.scope(key)):
            lines = _lines(self._file(key))
            if before == "conversation":  # less than before: what was kept shrinks too
                lines = map(_alone, lines)
            self._write(key, [*lines, Line(scope=scope)])

    def rate(self, key: tuple[str, str], turn_id: str, thumb: Thumb | None, record: dict[str, Any]) -> bool:
        """Keep a rating, or take one back; whether it is kept now."""
        scope = self.scope(key)
        if scope == "off":
            return False
        lines = [line for line in _lines(self._file(key)) if line.id != turn_id]
        if thumb is not None:
            line = Line(id=turn_id, rating=thumb, record=record)
            lines.append(line if scope == "conversation" else _alone(line))
        self._write(key, lines)
        return thumb is not None

    def export(self) -> Iterator[dict[str, Any]]:
        """One object per rated reply, the last rating of each. `visitor` is the same for all of one browser."""
        for file in sorted(self.folder.glob("*.jsonl")):
            last = {line.id: line for line in _lines(file) if line.id}
            for line in last.values():
                yield {"visitor": file.stem[:8], "rating": line.rating, **line.record}

    def _file(self, key: tuple[str, str]) -> Path:
        return self.folder / (hashlib.sha256("\0".join(key).encode()).hexdigest()[:32] + ".jsonl")

    def _write(self, key: tuple[str, str], lines: list[Line]) -> None:
        """These lines in place of the file: words that were taken back are gone, and a crash loses nothing."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._file(key)
        part = file.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)


def _alone(line: Line) -> Line:
    """A line without what was said before the message."""
    record = {name: value for name, value in line.record.items() if name != "history"}
    return msgspec.structs.replace(line, record=record)


def record_of(conversation: ChatSession, turn: AnsweredTurn) -> dict[str, Any] | None:
    """What may be kept of a turn; None where someone may have been in danger."""
    if conversation.assessment.urgent or any(one.answer.assessment.urgent for one in conversation.turns):
        return None
    place = next(number for number, one in enumerate(conversation.turns) if one is turn)
    answer = turn.answer
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "model": answer.model.partition("@")[0],
        "control": {"pins": dict(answer.control.pins.items()), "given": dict(answer.control.given)},
        "message": turn.said,
        "output": answer.raw,
        "history": [
            {"speaker": one.speaker, "text": one.text} for one in conversation.history(conversation.turns[:place])
        ],
    }


def _lines(file: Path) -> Iterator[Line]:
    """The whole lines of a file; one that was half written when the machine stopped is left out."""
    if not file.is_file():
        return
    for text in file.read_bytes().splitlines():
        try:
            yield from_json(text, Line)
        except msgspec.MsgspecError:
            continue
