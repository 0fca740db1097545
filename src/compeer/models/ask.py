"""Two ways to ask: a supporter's turn through the contract, and an answer as JSON of a given type.

**Contract** (`reason`). The grammar makes every model that can use one keep the format and the control. For servers
without grammars the output is checked, and asked for again with another seed when it falls short; what is still missing
after that is in the result's problems, never hidden.

**JSON** (`ask_json`). The shape is a msgspec type; its JSON schema goes to the server. An answer that does not fit is
asked for once more, with the error, and counted separately; after that this one question has failed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from compeer.models.request import Answer, Model, ModelError, Request
from compeer.reasoning.control import FREE, Control, violations
from compeer.reasoning.grammar import plan, reply_plan
from compeer.reasoning.ontology import Language
from compeer.reasoning.parse import Parsed, Problem, parse, split_thinking
from compeer.reasoning.prompt import Length, Think, steered, system_prompt
from compeer.typed import from_json

T = TypeVar("T")
#: how a question begins that is asked once more; the runner counts them by it
AGAIN = "That is not the JSON asked for"
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")


class SchemaFailure(ModelError):
    """The model answered twice, and neither answer had the shape that was asked for."""


async def ask_json(model: Model, request: Request, kind: type[T]) -> tuple[T, int]:
    """The answer as an object of `kind`, and how many times it had to be asked again (0 or 1)."""
    request = msgspec.structs.replace(request, schema=schema_of(kind))  # type: ignore[arg-type]
    answer = await model.ask(request)
    try:
        return decode(answer.text, kind), 0
    except (msgspec.MsgspecError, ValueError) as problem:
        correction = [
            {"role": "assistant", "content": answer.text or "(nothing)"},
            {"role": "user", "content": f"{AGAIN}: {problem}. Answer with JSON alone."},
        ]
        again = msgspec.structs.replace(request, messages=[*request.messages, *correction])
        answer = await model.ask(again)
        try:
            return decode(answer.text, kind), 1
        except (msgspec.MsgspecError, ValueError) as second:
            raise SchemaFailure(f"{model.name} did not give the JSON asked for, twice: {second}") from None


def decode(text: str, kind: type[T]) -> T:
    """The JSON object in an answer, whatever was thought before it, with or without a code fence around it."""
    return from_json(_FENCE.sub("", split_thinking(text)[1].strip()), kind)


@functools.lru_cache(256)  # a fifth of a millisecond, and a stage asks for the same shape every time
def schema_of(kind: type[Any]) -> dict[str, Any]:
    """The JSON schema of a msgspec type, without references, every field required and none added."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    resolved: dict[str, Any] = _resolved(schema, definitions)
    return resolved


def _resolved(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolved(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(definitions[node["$ref"]], definitions)
    plain = {key: _resolved(value, definitions) for key, value in node.items() if key not in ("title", "default")}
    if plain.get("type") == "object" and "properties" in plain:
        # field by field: a field may itself be called "title" or "default"
        fields = {name: _resolved(field, definitions) for name, field in node["properties"].items()}
        plain |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    return plain


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
    think: Think = "full",
    grammar: bool = True,
    max_tokens: int = 2000,  # the grammar ends an output earlier; Chinese can take SmolLM2 1,500
    **sampling: Any,
) -> Request:
    """The request that asks for one turn. Past reasoning is not part of `history`, as in training. Without thinking
    (`think="off"`) there is no contract to keep; of the pins only the strategy holds, by a grammar of the reply."""
    system = {"role": "system", "content": system_prompt(language, control, length, think)}
    if think == "off":
        shape, history = reply_plan(language, control), _steered(history, language, control)
    else:
        shape = plan(language, control, brief=think == "brief")
    return Request(
        messages=[system, *history],
        max_tokens=max_tokens,
        plan=shape if grammar else None,
        **sampling,
    )


def _steered(history: Sequence[dict[str, Any]], language: Language, control: Control) -> Sequence[dict[str, Any]]:
    """The conversation with a word on the pinned strategy at its end; a message with pictures gets a further part."""
    if control.pins.strategy is None or not history or history[-1]["role"] != "user":
        return history
    *before, last = history
    said = last["content"]
    if isinstance(said, str):
        return [*before, {**last, "content": steered(said, language, control)}]
    return [*before, {**last, "content": [*said, {"type": "text", "text": steered("", language, control).strip()}]}]


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


def judge_output(answer: Answer, control: Control) -> Reasoned:
    parsed = parse(answer.text)
    return Reasoned(answer.text, parsed, (*parsed.problems, *violations(parsed, control)), answer)


def _reseeded(request: Request, attempt: int) -> Request:
    seed = None if request.seed is None else request.seed + attempt * 1_000_003
    return msgspec.structs.replace(request, seed=seed, sample=request.sample + attempt * 1_000_003)
