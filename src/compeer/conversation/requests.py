"""A request as OpenAI's clients send it, read strictly, and the turn that it asks for.

Fields that would change what an answer is, and that are not done here, are refused by name: several answers, tools,
JSON, log-probabilities. Fields that change nothing are accepted. Others, which only some servers know, are ignored and
named in the answer's `compeer.ignored`, so that nothing is lost in silence.

What a client gives as system message follows the contract's own instructions. A `<think>` block in an old reply is
left out, as in training, and so are the helplines and the notice that this server put into it (`ADDED`).

Pictures travel as data: URLs, from the client to the model. No address is fetched, no file is opened because a request
names it, and nothing is written to disk.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from compeer.conversation.engine import HistoryTurn, Sampling, TurnRequest, language_of
from compeer.errors import UserError
from compeer.http_service import picture_type
from compeer.reasoning import LABELS, STEPS, Control, ControlError, Pins, parse
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Think
from compeer.typed import from_json, from_plain

#: how each line begins that this server adds to a reply: help, and the opening notice
HELP_MARK, NOTICE_MARK = "☎ ", "ⓘ "
ADDED = (HELP_MARK.strip(), NOTICE_MARK.strip())

_ERROR_TYPES = {
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


class ApiError(UserError):
    """An error answer: the HTTP status, and the error object of OpenAI's protocol.

    {"error": {"message": …, "type": …, "param": …, "code": …}}: clients raise an exception of their own for each
    status; a stream that has begun carries the same object as its last event.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry = status, param, code, retry

    def as_dict(self) -> dict[str, Any]:
        kind = _ERROR_TYPES.get(self.status, "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that cannot be answered as it is."""
    return ApiError(400, message, param=param, code=code)


#: limits of one request
MOST_MESSAGES, MOST_BYTES = 1000, 32 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the server runs: where it listens, who may come in, how much at once and for how long (in seconds)."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    name: str = "compeer"  # of the model, as clients see it

    places: int = 8  # answers written side by side
    queue: int = 64  # requests that may wait
    timeout: float = 600.0  # for one request, waiting included
    first_token: float = 60.0  # once the request has a place
    grace: float = 30.0  # for what is under way when the server is stopped

    sampling: Sampling = Sampling()  # where a request does not say; no answer has more tokens
    country: str | None = None  # whose helplines are shown where a request names none; None: by language
    no_notice_because: str | None = None  # the reason why first replies carry no notice; None: they carry it
    log: bool = True


class Protocol(msgspec.Struct, frozen=True):
    """Fields of a protocol that are not read. `idle`: they do not change an answer. `neutral`: the values that mean
    nothing special; any other is refused. `answer`: what stands in every answer."""

    idle: frozenset[str]
    neutral: dict[str, list[Any]]
    answer: dict[str, Any] = {}


#: by endpoint: chat, responses
PROTOCOLS = from_json(Path(__file__).with_name("protocol.json").read_bytes(), dict[str, Protocol])

Tokens = Annotated[int, msgspec.Meta(ge=1)]


class ChatMessage(msgspec.Struct):
    """One message of a conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class CompeerFields(msgspec.Struct, forbid_unknown_fields=True):
    """The field `compeer`, which only this server knows: pinned conclusions, given steps, language and country of the
    person, how much the model thinks, whether the thinking is told. A step is its text, or the object of an earlier
    answer's `compeer.steps`."""

    pin: dict[str, str | int] = {}
    steps: dict[str, str | dict[str, Any]] = {}
    language: Language | None = None
    show: bool = True
    think: Think | None = None
    country: str | None = None


class TurnFields(msgspec.Struct, kw_only=True):
    """The fields that mean something in every request for a turn."""

    model: str | None = None
    stream: bool | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(ge=0.5, le=2)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=16)] | None = None
    compeer: CompeerFields | None = None
    ignored: list[str] = []


class ChatRequest(TurnFields, kw_only=True):
    """The fields of a request to /v1/chat/completions that mean something here."""

    messages: list[ChatMessage]
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None


Fields = TypeVar("Fields", bound=TurnFields)


def read_request(data: bytes) -> ChatRequest:
    """The request in a body; ApiError says which field is wrong."""
    return read_fields(data, ChatRequest, PROTOCOLS["chat"])


def read_fields(data: bytes, kind: type[Fields], protocol: Protocol) -> Fields:
    """The fields of a body; ApiError says which is wrong."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise bad_request(f"The body is not JSON: {problem}.") from None
    if not isinstance(fields, dict):
        raise bad_request("The body must be a JSON object.")
    for name, fine in protocol.neutral.items():
        if name in fields and not any(fields[name] == value and type(fields[name]) is type(value) for value in fine):
            raise bad_request(_refusal(name), name, "unsupported_parameter")
    read = set(kind.__struct_fields__) - {"ignored"}
    ignored = sorted(name for name in fields if name not in read | protocol.idle | protocol.neutral.keys())
    known = {name: value for name, value in fields.items() if name in read}
    try:
        return from_plain(known | {"ignored": [name[:60] for name in ignored[:20]]}, kind)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at ")
        place = where.strip("`").removeprefix("$.") or None
        raise bad_request(f"{place or 'The request'} cannot be read: {what}.", place) from None


def _refusal(name: str) -> str:
    about = {
        "n": "This server writes one answer per request; ask several times for several.",
        "response_format": "Answers are free text here. The parsed steps come as JSON in `compeer`.",
    }
    return about.get(name, f"`{name}` is not supported by this server; leave it out.")


class AskedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The turn to write, and how to send it. `opening`: the reply is the conversation's first."""

    turn: TurnRequest
    stream: bool
    stream_usage: bool
    country: str | None
    opening: bool
    ignored: tuple[str, ...]  # fields of the request


def asked_turn(
    chat: ChatRequest, settings: ServerSettings, sees: bool, headers: Mapping[str, str] | None = None
) -> AskedTurn:
    """Read a request; ApiError says what is wrong with it. `headers` may name country and language too."""
    headers = headers or {}
    fields = chat.compeer or CompeerFields()
    instructions, history = _conversation(chat.messages, sees)
    language = fields.language or _header_language(headers.get("X-Compeer-Language"))
    most = settings.sampling.max_tokens
    asked = {
        "max_tokens": min(most, chat.max_completion_tokens or chat.max_tokens or most),
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "penalty": chat.repetition_penalty,
        "seed": None if chat.seed is None else chat.seed % 2**31,
        "think": fields.think,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    turn = TurnRequest(
        history=tuple(history),
        language=language or language_of(history),
        control=_control(fields),
        sampling=msgspec.structs.replace(settings.sampling, **given),
        instructions=tuple(instructions),
        stops=(chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ()),
        show_thinking=fields.show,
    )
    return AskedTurn(
        turn=turn,
        stream=bool(chat.stream),
        stream_usage=bool(chat.stream_options and chat.stream_options.include_usage),
        country=fields.country or headers.get("X-Compeer-Country") or settings.country,
        opening=all(one.speaker == "seeker" for one in history),
        ignored=tuple(chat.ignored),
    )


def _header_language(value: str | None) -> Language | None:
    if value is None or value in ("en", "zh"):
        return value  # type: ignore[return-value]
    raise bad_request(f"X-Compeer-Language is en or zh, not {value[:40]!r}.", "X-Compeer-Language")


_ROLES = {"system": "system", "developer": "system", "user": "seeker", "assistant": "supporter"}


def _conversation(messages: Sequence[ChatMessage], sees: bool) -> tuple[list[str], list[HistoryTurn]]:
    """System texts, and what both sides said, from the person's first message to their last."""
    if len(messages) > MOST_MESSAGES:
        raise ApiError(413, f"{len(messages)} messages; at most {MOST_MESSAGES} are read.", param="messages")
    system: list[str] = []
    history: list[HistoryTurn] = []
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        role = _ROLES.get(message.role)
        if role is None:
            raise bad_request(
                f"The role of a message is system, user or assistant, not {message.role[:40]!r}.", f"{place}.role"
            )
        text, images = _content(message, sees, place)
        if role == "system":
            system += [text] if text else []
        elif role == "seeker" and (text or images):
            history.append(HistoryTurn("seeker", text, images))
        elif role == "supporter" and history and (text := without_additions(parse(text).response)):
            history.append(HistoryTurn("supporter", text))
    if not history or history[-1].speaker != "seeker":
        raise bad_request("The last message must be the person's, with some text in it.", "messages")
    return system, history


def without_additions(reply: str) -> str:
    """An old reply without what this server added to it: the model must not learn to write it."""
    return "\n".join(line for line in reply.split("\n") if not line.lstrip().startswith(ADDED)).strip()


def _content(message: ChatMessage, sees: bool, place: str) -> tuple[str, tuple[str, ...]]:
    """Text and pictures of a message."""
    if message.content is None or isinstance(message.content, str):
        return (message.content or "").strip(), ()
    texts: list[str] = []
    images: list[str] = []
    for number, part in enumerate(message.content):
        where = f"{place}.content[{number}]"
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("type") == "image_url":
            if message.role != "user":
                raise bad_request("Pictures belong in the person's messages.", where)
            if not sees:
                cannot = "This model cannot see pictures; leave them out, or serve a vision model."
                raise bad_request(cannot, where, "no_vision")
            picture = part.get("image_url")
            images.append(_picture(picture.get("url") if isinstance(picture, dict) else picture, where))
        else:
            raise bad_request(f"A part of a message is text or image_url, not {str(part.get('type'))[:40]!r}.", where)
    return "\n".join(texts).strip(), tuple(images)


def _control(wanted: CompeerFields) -> Control:
    """Pins and given steps. A step may be the object of an earlier answer; its labels then count as pins."""
    given: dict[str, str] = {}
    pins: dict[str, str | int] = {}
    for step, value in wanted.steps.items():
        if step not in STEPS:
            raise bad_request(f"There is no step {step[:40]!r}; the steps are {', '.join(STEPS)}.", "compeer.steps")
        fields = {"text": value} if isinstance(value, str) else value
        for name, entry in fields.items():
            if name == "text" and isinstance(entry, str):
                given[step] = entry
            elif name in LABELS[step] and isinstance(entry, str | int):
                pins[name] = entry
            elif entry is not None:
                known = ", ".join(("text", *LABELS[step]))
                message = f"The step {step} has the fields {known}; {name[:40]!r} cannot be read."
                raise bad_request(message, f"compeer.steps.{step}")
    try:
        # what an earlier answer concluded stands even where its sentiment and emotion do not fit; pins must
        kept = {name: value for label in pins for name, value in Pins.of({label: pins[label]}).items()}
        return Control(Pins(**(kept | dict(Pins.of(wanted.pin).items()))), given)  # type: ignore[arg-type]
    except ControlError as problem:
        raise bad_request(f"The control cannot be kept: {problem}", "compeer") from None


_DATA = re.compile(r"data:image/[a-z+]+;base64,", re.IGNORECASE)


def _picture(url: object, param: str) -> str:
    """The picture in a data URL, checked, as a data: address of its real type."""
    head = _DATA.match(url) if isinstance(url, str) else None
    if head is None or not isinstance(url, str):
        message = "A picture is sent inside the request, as data:image/png;base64,…; none is fetched."
        raise bad_request(message, param)
    encoded = url[head.end() :]
    try:
        kind = picture_type(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise bad_request("The picture's data is not base64.", param) from None
    if kind is None:
        raise bad_request("The picture is not a PNG, JPEG, GIF, WebP or BMP file.", param)
    return f"data:{kind};base64,{encoded}"
