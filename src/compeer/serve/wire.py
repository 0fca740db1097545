"""A request as clients send it, read strictly where it matters.

Fields that would change what an answer is, and that are not done here, are refused by name: several answers, tools,
JSON, log-probabilities. Fields that change nothing are accepted. Others, which only some servers know, are ignored and
named in the answer's `compeer.ignored`, so that nothing is lost in silence.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from compeer.reasoning.ontology import Language
from compeer.serve.refusal import bad
from compeer.typed import from_plain

#: fields of the protocol that do not change an answer
IDLE = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    }
)
#: field -> values that mean nothing special; any other is refused
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
}

Tokens = Annotated[int, msgspec.Meta(ge=1)]


class Message(msgspec.Struct):
    """One message of a conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Wishes(msgspec.Struct, forbid_unknown_fields=True):
    """What only this server knows: pinned conclusions, given steps, the language, whether the thinking is told, and the
    country whose helplines are shown. A step is its text, or the object of an earlier answer's `compeer.steps`."""

    pin: dict[str, str | int] = {}
    steps: dict[str, str | dict[str, Any]] = {}
    language: Language | None = None
    show: bool = True
    country: str | None = None


class ChatRequest(msgspec.Struct):
    """The fields of a request that mean something here."""

    messages: list[Message]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(ge=0.5, le=2)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=16)] | None = None
    compeer: Wishes | None = None
    ignored: list[str] = []


_KNOWN = frozenset(ChatRequest.__struct_fields__) - {"ignored"} | IDLE | frozenset(NEUTRAL)
Kind = Literal["reasoning", "content"]


def read_request(data: bytes) -> ChatRequest:
    """The request in a body; Refused says which field is wrong."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise bad(f"The body is no JSON: {problem}.") from None
    if not isinstance(fields, dict):
        raise bad("The body must be a JSON object with a list of messages.")
    for name, fine in NEUTRAL.items():
        if name in fields and not any(fields[name] == value and type(fields[name]) is type(value) for value in fine):
            raise bad(_refusal(name), name, "unsupported_parameter")
    ignored = sorted(name for name in fields if name not in _KNOWN)
    known = {name: value for name, value in fields.items() if name in ChatRequest.__struct_fields__}
    try:
        return from_plain(known | {"ignored": [name[:60] for name in ignored[:20]]}, ChatRequest)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at ")
        place = where.strip("`").removeprefix("$.") or None
        raise bad(f"{place or 'The request'} cannot be read: {what}.", place) from None


def _refusal(name: str) -> str:
    about = {
        "n": "One answer a request is written here; ask several times for several.",
        "response_format": "Answers are free text here. The parsed steps come as JSON in `compeer`.",
    }
    return about.get(name, f"`{name}` is not done by this server; leave it out.")
