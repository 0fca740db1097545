"""One message, one answer: `compeer chat --once`."""

from __future__ import annotations

import json

from rich.console import Console

from compeer.chat.session import Conversation, Settings
from compeer.chat.view import reasoning_panel
from compeer.models import Model, Reasoned, reason, run
from compeer.reasoning import Control, fields


def answer_once(model: Model, text: str, settings: Settings, *, as_json: bool) -> None:
    """Print the answer; with JSON, every field of the contract and what is wrong with it, if anything."""
    control = Control(settings.pins)
    request = Conversation(model, settings).request(text, control, [])

    async def ask() -> Reasoned:
        try:
            return await reason(model, request, control)
        finally:
            await model.close()

    result = run(ask())
    if as_json:
        answer = fields(result.parsed, result.raw)
        answer |= {"complete": result.complete, "problems": [str(problem) for problem in result.problems]}
        print(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        Console().print(reasoning_panel(result.parsed, result.problems))
