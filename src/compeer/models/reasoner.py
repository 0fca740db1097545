"""A supporter's turn through the contract: the conversation so far in, reasoning and a reply out.

The grammar makes every home that knows one keep the format and the control. For servers that know none
the output is checked, and asked for again with another seed when it falls short; what is still missing
after that is in the result's problems, never hidden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from compeer.models.request import Answer, Model, Request
from compeer.reasoning.control import FREE, Control, violations
from compeer.reasoning.grammar import plan
from compeer.reasoning.ontology import Language
from compeer.reasoning.parse import Parsed, Problem, parse
from compeer.reasoning.prompt import Length, system_prompt
from compeer.reasoning.stream import Event, StreamParser


class Reasoned(msgspec.Struct, frozen=True):
    """One turn: what the model wrote, what it means, and what is wrong with it."""

    raw: str
    parsed: Parsed
    problems: tuple[Problem, ...]
    answer: Answer

    @property
    def complete(self) -> bool:
        return not self.problems


def request_for(
    history: Sequence[dict[str, Any]],
    language: Language = "en",
    control: Control = FREE,
    *,
    length: Length = "full",
    grammar: bool = True,
    max_tokens: int = 2000,  # the grammar ends an output earlier; Chinese can take SmolLM2 1,500
    **sampling: Any,
) -> Request:
    """The request that asks for one reasoned turn. Past reasoning is no part of `history`, as in training."""
    system = {"role": "system", "content": system_prompt(language, control, length)}
    return Request(
        messages=[system, *history],
        max_tokens=max_tokens,
        plan=plan(language, control) if grammar else None,
        **sampling,
    )


async def reason(model: Model, request: Request, control: Control = FREE, *, attempts: int = 3) -> Reasoned:
    """Ask until the output is complete and keeps the control, at most `attempts` times; the best one is returned."""
    best: Reasoned | None = None
    for attempt in range(attempts):
        again = request if attempt == 0 else _reseeded(request, attempt)
        result = judge_output(await model.ask(again), control)
        if best is None or len(result.problems) < len(best.problems):
            best = result
        if best.complete:
            break
    assert best is not None
    return best


async def reason_stream(model: Model, request: Request) -> AsyncIterator[Event | StreamParser]:
    """Events of a turn as it is written; the last thing yielded is the parser, which holds the whole."""
    parser = StreamParser()
    async for piece in model.stream(request):
        for event in parser.feed(piece):
            yield event
    for event in parser.finish():
        yield event
    yield parser


def judge_output(answer: Answer, control: Control) -> Reasoned:
    parsed = parse(answer.text)
    return Reasoned(answer.text, parsed, (*parsed.problems, *violations(parsed, control)), answer)


def _reseeded(request: Request, attempt: int) -> Request:
    seed = None if request.seed is None else request.seed + attempt * 1_000_003
    return msgspec.structs.replace(request, seed=seed, sample=request.sample + attempt * 1_000_003)
