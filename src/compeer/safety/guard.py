"""A second opinion from a model, when one is configured: any home of `compeer.models`, asked for one word.

It can only raise what the screening found. No answer, a late one, or anything but the four words changes nothing. A
model that has learned to read answers (`reader`) is asked for that too, where the supporter's own cannot.
"""

from __future__ import annotations

import asyncio
import re

from compeer.models import Model, ModelError, Request
from compeer.safety.levels import Finding, Level
from compeer.safety.messages import message as told
from compeer.safety.reader import ModelReader, reader_of

_WORD = re.compile(r"\W*(emergency|high|watch|none)\b", re.IGNORECASE)


class Guard:
    """Asks a model how dangerous a message is. `seconds`: how long it may take."""

    def __init__(self, model: Model, seconds: float = 5.0) -> None:
        self.model, self.seconds = model, seconds

    async def level(self, message: str) -> Level | None:
        """The model's word, or None where it gave none in time."""
        request = Request(
            messages=[
                {"role": "system", "content": told("guard")},
                {"role": "user", "content": f"<<<\n{message[:6000]}\n>>>"},
            ],
            max_tokens=8,
            temperature=0.0,
            seed=0,
        )
        try:
            answer = await asyncio.wait_for(self.model.ask(request), self.seconds)
        except (TimeoutError, ModelError):
            return None
        word = _WORD.match(answer.text)
        return word.group(1).lower() if word else None  # type: ignore[return-value]

    def reader(self) -> ModelReader | None:
        """The model as a reader of conversations, if it is one."""
        return reader_of(self.model)

    async def raised(self, message: str, finding: Finding) -> Finding:
        """The finding, with the model's level where that is higher."""
        level = await self.level(message)
        return finding if level in (None, "none") else finding | Finding(level or "none", ("guard",))

    async def close(self) -> None:
        await self.model.close()
