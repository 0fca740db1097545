"""One message, one answer: `compeer chat --once`.

The message is screened and the answer reviewed as in a conversation. Where someone may be in danger the helpline is
printed first, or stands in the JSON under `safety`, which is there only when there is something to say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from rich.console import Console
from rich.text import Text

from compeer.chat.session import Conversation, Settings, Turn, withheld
from compeer.chat.view import reasoning_panel
from compeer.models import Model, Reasoned, reason, run
from compeer.reasoning import Control, Event, StreamParser, fields
from compeer.safety import Before, Guarded


def answer_once(model: Model, text: str, settings: Settings, *, as_json: bool, guarded: Guarded | None = None) -> None:
    """Print the answer; with JSON, every field of the contract and what is wrong with it, if anything."""
    conversation = Conversation(model, settings, guarded)
    before, turn = run(_ask(conversation, text))
    problems = [str(problem) for problem in turn.problems]
    if as_json:
        answer = fields(turn.parsed, turn.raw) | {"complete": not problems, "problems": problems}
        print(json.dumps(answer | _safety(before, turn), ensure_ascii=False, indent=2))
        return
    console = Console()
    for banner in filter(None, (before.banner, turn.safety.banner)):
        console.print(Text(f"{banner}\n", style="bold"))
    console.print(reasoning_panel(turn.parsed, turn.problems))
    for line in filter(None, (turn.safety.error, turn.safety.check_in)):
        console.print(Text(line))


async def _ask(conversation: Conversation, text: str) -> tuple[Before, Turn]:
    model, guarded = conversation.model, conversation.guarded
    control = Control(conversation.settings.pins)
    results: list[Reasoned] = []

    async def events() -> AsyncIterator[Event]:
        result = await reason(model, request, control)
        results.append(result)
        parser = StreamParser()
        for event in (*parser.feed(result.raw), *parser.finish()):
            yield event

    try:
        before = await guarded.before(text, conversation.language(text))
        request = conversation.request(text, control, [], before.guidance)
        async for _ in guarded.stream(events()):
            pass
    finally:
        await model.close()
        if guarded.guard is not None:
            await guarded.guard.close()
    raw, problems = (results[0].raw, results[0].problems) if results else ("", ())
    parser = StreamParser()
    parser.feed(raw)
    return before, withheld(Turn(text, raw, parser.parsed, problems, control, safety=guarded.after()))


def _safety(before: Before, turn: Turn) -> dict[str, Any]:
    safety = turn.safety
    if before.risk.level == "none" and not safety.replaced and not safety.hidden:
        return {}
    banner = before.banner or safety.banner
    said = {
        "level": before.risk.level,
        "kinds": before.risk.kinds,
        "banner": str(banner) if banner else None,
        "replaced": safety.replaced,
        "note": safety.note,
        "error": safety.error,
        "check_in": safety.check_in,
    }
    return {"safety": said}
