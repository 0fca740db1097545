"""A question whose answer must be a JSON object of a given shape.

The shape is a msgspec type; its JSON schema goes to the server. An answer that does not fit is asked for
once more, with the error said, and counted apart; after that it is a failure of this one question.
"""

from __future__ import annotations

import functools
import re
from typing import Any, TypeVar

import msgspec

from compeer.models.request import Model, ModelError, Request
from compeer.typed import from_json

T = TypeVar("T")
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
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
    return from_json(_FENCE.sub("", _THOUGHT.sub("", text).strip()), kind)


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
