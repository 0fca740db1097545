"""A candidate for each item: a model sees the history, thinks in the three steps, and replies.

The paper asks GPT-4o and Qwen2.5-VL and keeps their reply beside the corpus's own. Here the model with the role
`generator` is asked, and so is every further one (`generator-2`, …); each gives an item of its own with the same
history and the same reference, and one that is silent does not take the others with it. The output must keep the
contract; a grammar makes it so where the model's home knows one, else it is asked for again with another seed. What
is still incomplete then is rejected with its problems, never patched.

Where the paper does not say: temperature 0.7. The oldest turns of a long history are left out of the question
(the item keeps them all), so that it fits a model of moderate context. The reference is never shown.

    compeer cer reason items.jsonl --out candidates.jsonl
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from compeer.cer.item import Candidate, Item, decode_item
from compeer.dialogue import messages, trim, within_words
from compeer.errors import UserError
from compeer.models.ask import reason as ask_reasoned
from compeer.models.ask import request_for
from compeer.models.request import ModelError
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.reasoning.prompt import Length, system_prompt
from compeer.typed import from_plain

ROLE = "generator"


class ReasonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    temperature: Annotated[float, Meta(ge=0)] = 0.7
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    max_tokens: int = 1_200
    attempts: Annotated[int, Meta(ge=1)] = 3
    max_words: int = 1_500  # of the history; a Chinese character is a word
    grammar: bool = True
    length: Length = "full"  # "brief" for models trained on the contract


async def reason(item: Item, tools: Tools) -> Item | Reject | list[Item | Reject]:
    """The item with a candidate; with several generators, an item or a rejection for each."""
    if not item.history:
        return Reject(item.id, "no-history", "there is nothing to reply to", item)
    roles = generators(tools)
    options = from_plain(tools.options, ReasonOptions)
    made = await asyncio.gather(*(_candidate(item, role, len(roles) > 1, options, tools) for role in roles))
    return made[0] if len(made) == 1 else list(made)


STAGE = Stage(
    name="reason",
    function=reason,
    reads=Item,
    decode=decode_item,
    writes=Item,
    roles=(ROLE,),
    prompts=tuple(system_prompt(language, length=length) for language in ("en", "zh") for length in ("full", "brief")),
    calls_per_row=1.0,  # for each generator
    tokens_per_call=(2_200, 300),
    options=ReasonOptions,
)


def generators(tools: Tools) -> list[str]:
    """The roles that are asked for a candidate, in a fixed order."""
    roles = sorted(role for role in tools.models if role == ROLE or role.startswith(f"{ROLE}-"))
    if not roles:
        raise UserError(f"No model has the role {ROLE!r}; name one (further ones are called {ROLE}-2, {ROLE}-3, …).")
    return roles


async def _candidate(item: Item, role: str, several: bool, options: ReasonOptions, tools: Tools) -> Item | Reject:
    model = tools.models[role]
    asked = trim(item.history, within_words(options.max_words))
    unseen = 0 if model.sees else sum(len(turn.images) for turn in asked)
    seed = tools.rng("reason", item.id, role).randrange(2**31)
    request = request_for(
        messages(asked, images=model.sees),
        item.language,
        length=options.length,
        grammar=options.grammar,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        seed=seed,
    )
    name = f"{item.id}@{role}" if several else item.id
    try:
        result = await ask_reasoned(model, request, attempts=options.attempts)
    except ModelError as problem:
        return Reject(name, "no-answer", str(problem), item)
    reasoning = result.parsed.reasoning if result.complete else None
    reply = result.parsed.response
    candidate = Candidate(response=reply, reasoning=reasoning, generator=model.name, raw=result.raw)
    made = msgspec.structs.replace(
        item,
        id=name,
        candidate=candidate,
        trace={**item.trace, "reason": _trace(role, seed, options, len(item.history) - len(asked), unseen)},
    )
    if result.complete:
        return made
    return Reject(made.id, "incomplete", "; ".join(result.problems), made)


def _trace(role: str, seed: int, options: ReasonOptions, turns_left_out: int, images_left_out: int) -> dict[str, Any]:
    trace: dict[str, Any] = {"role": role, "seed": seed, "temperature": options.temperature}
    if turns_left_out:
        trace["turns_left_out"] = turns_left_out
    if images_left_out:
        trace["images_left_out"] = images_left_out  # this model takes no pictures
    return trace
