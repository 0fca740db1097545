"""A conversation as a file, made when the person asks for it and sent to their browser; no copy stays here."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from compeer.chat import Conversation
from compeer.chat.session import Turn
from compeer.reasoning import STEPS
from compeer.reasoning.schema import write_value
from compeer.studio.words import Say


def as_json(conversation: Conversation) -> str:
    """Everything, for programs: words, thinking, earlier answers, pictures."""
    return json.dumps(conversation.as_dict(), ensure_ascii=False, indent=2) + "\n"


def as_text(conversation: Conversation, say: Say) -> str:
    """What was said and thought, for reading."""
    saved = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [say("talk.file.head", model=conversation.model.name.partition("@")[0], saved=saved)]
    for turn in conversation.turns:
        said = turn.said + (f" {say('talk.file.picture', count=len(turn.images))}" if turn.images else "")
        parts += [f"{say('talk.you')}\n{said}", f"{say('talk.supporter')}\n{_answer(turn, say)}"]
        parts += [f"{say('talk.other')}\n{_answer(other, say)}" for other in turn.others]
    if conversation.unanswered is not None:
        parts.append(f"{say('talk.you')}\n{conversation.unanswered}")
    return "\n\n".join(parts) + "\n"


def _answer(turn: Turn, say: Say) -> str:
    lines = [turn.safety.reply or turn.parsed.response or "…"]
    lines += filter(None, (turn.safety.note, turn.safety.check_in))
    for step in STEPS:
        if step in turn.parsed.texts:
            lines.append(f"  [{say(f'talk.step.{step}')}] {turn.parsed.texts[step]}")
    named = [write_value(label, value, say.language) for label, value in turn.parsed.labels.items()]
    return "\n".join([*lines, *([f"  ({' · '.join(named)})"] if named else [])])
