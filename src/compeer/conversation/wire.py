"""A conversation partner over HTTP, as every OpenAI client speaks it.

run          listen, load, stop
application  the endpoints
settings     everything that can be chosen
access       keys, origins, addresses
admission    who is answered, who waits, who comes again later
wire         a request as clients send it
asked        the turn it asks for
pictures     data URLs, in memory
turn         the model's text, read and told as it comes
plain        no markup, stop strings
care         screening, helplines, and a reply where the model has none
telling      an answer in OpenAI's form, whole or streamed
refusal      errors in OpenAI's form
meter        Prometheus

An answer other than a completion, in the words and the form that OpenAI's clients understand.

    {"error": {"message": …, "type": …, "param": …, "code": …}}

Clients raise an exception of their own for each status; a stream that has begun carries the same object as its last
event.

A request as clients send it, read strictly where it matters.

Fields that would change what an answer is, and that are not done here, are refused by name: several answers, tools,
JSON, log-probabilities. Fields that change nothing are accepted. Others, which only some servers know, are ignored and
named in the answer's `compeer.ignored`, so that nothing is lost in silence.

How the server runs: where it listens, who may come in, how much at once, and how long.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.typed import from_plain

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


class Refused(UserError):
    """Why there is no completion, with the status that says so."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry = status, param, code, retry

    def as_dict(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def bad(message: str, param: str | None = None, code: str | None = None) -> Refused:
    """A request that cannot be answered as it is."""
    return Refused(400, message, param=param, code=code)


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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be chosen when it is started. Times are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    name: str = "compeer"  # of the model, as clients see it

    places: int = 8  # answers written side by side
    queue: int = 64  # requests that may wait
    timeout: float = 600.0  # for one request, waiting included
    first: float = 60.0  # for the first token, once it has a place
    grace: float = 30.0  # for what is under way when the server is stopped
    most_tokens: int = 2000  # of one answer, thinking included
    most_messages: int = 1000
    most_bytes: int = 32 << 20

    prompt: Length = "full"
    history: int = 1500  # words of the conversation that a model reads; older turns are left out
    temperature: float = 0.7
    top_p: float = 0.95
    penalty: float = 1.05
    country: str | None = None  # whose helplines are shown; None: by language
    log: bool = True
