"""What is asked of a model and what comes back, the same wherever the model runs; and when to try again.

A `Model` has two verbs: `ask` for a whole answer and `stream` for its text as it is written. Many requests are asked
with `ask_all`, which keeps a bounded number in flight; one failure does not end the rest. The interface is
asynchronous; `run` is for scripts that are not. `Patience` says which failures of a server are worth another try, how
long to wait, and when to give up.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from compeer.errors import UserError
from compeer.reasoning.grammar import Part, prefix

T = TypeVar("T")


class ModelError(UserError):
    """A model that cannot be opened or did not answer; the message says what to do."""


#: time: no answer in time; connection: nobody there, or it broke off; nonsense: an answer that is not one;
#: refused: the server declined; judge: a judge tried and reports that it could not
FailureKind = Literal["time", "connection", "nonsense", "refused", "judge"]
Retry = Literal["later", "smaller", "never"]


class NoAnswer(ModelError):
    """No answer from a server. `again`: whether asking again may help, later or with less."""

    def __init__(self, kind: FailureKind, message: str, again: Retry = "later") -> None:
        super().__init__(message)
        self.kind, self.again = kind, again

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, str(self), self.again)


class TooLong(ModelError):
    """The conversation does not fit into the model's context; a shorter one may."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a chat model.

    `messages` are role/content dictionaries; content is text or a list of parts
    `{"type": "text", "text": …}` and `{"type": "image", "path": …}`, where the path may also be the picture itself as
    a `data:` address, for what must not be on any disk. `plan` constrains the output to the contract, `schema` to
    JSON. `penalty` above 1 discourages repetition. `logprobs` asks for that many alternatives of the first token.
    `sample` tells repeated draws of the same request apart in the cache. `adapter`, where the home can choose (the
    embedded one): True, the one for thinking; False, the one for plain replies if there is one; None, the base alone.
    """

    messages: Sequence[dict[str, Any]]
    max_tokens: int = 1024
    temperature: float = 0.7
    top_p: float = 1.0
    penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    plan: tuple[Part, ...] | None = None
    schema: dict[str, Any] | None = None
    logprobs: int = 0
    sample: int = 0
    adapter: bool | None = True

    @property
    def beginning(self) -> str:
        """The known beginning of the answer. Models in this process continue from there."""
        return prefix(self.plan) if self.plan else ""


def instructed(system: str, text: str, **how: Any) -> Request:
    """A request with one instruction and one text."""
    return Request(messages=[{"role": "system", "content": system}, {"role": "user", "content": text}], **how)


class Usage(msgspec.Struct, frozen=True):
    """Tokens read, tokens written, and how many of those read came from a prefix cache."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class Place(msgspec.Struct, frozen=True):
    """One place of an answer: the token written, and (token, log-probability) of the alternatives."""

    token: bytes
    alternatives: tuple[tuple[bytes, float], ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer. `first` holds (token, log-probability) of the first token's alternatives, likeliest first;
    `places` the same for every token, from servers that tell it. Tokens are bytes there: one may be half a character.
    """

    text: str
    finish: str  # "stop" | "length"
    usage: Usage = Usage()
    first: tuple[tuple[str, float], ...] = ()
    places: tuple[Place, ...] = ()
    model: str = ""
    from_cache: bool = False


def first_token(choice: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    """`Answer.first` of a choice as OpenAI's protocol and llama.cpp report it."""
    tokens: Sequence[dict[str, Any]] = (choice.get("logprobs") or {}).get("content") or []
    alternatives = (tokens[0].get("top_logprobs") or tokens[:1]) if tokens else ()
    found = [(str(entry["token"]), float(entry["logprob"])) for entry in alternatives]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


class Ending(msgspec.Struct):
    """How a stream ended, filled in by the model. `finish` stays "" and `usage` None where a server does not tell."""

    finish: str = ""
    usage: Usage | None = None


class Failure(msgspec.Struct, frozen=True):
    """A request that got no answer, and why."""

    reason: str


class Model(Protocol):
    """Anything that can be asked. `name` identifies it in every record it leaves; `sees`: whether it takes images."""

    @property
    def name(self) -> str: ...

    @property
    def sees(self) -> bool: ...

    async def ask(self, request: Request) -> Answer: ...

    def stream(self, request: Request) -> AsyncIterator[str]: ...

    def rendered(self, request: Request) -> bytes:
        """Everything that determines the answer, as bytes: the cache's key."""
        ...

    async def close(self) -> None: ...


async def ask_all(
    model: Model,
    requests: Iterable[Request],
    concurrency: int = 32,
    on_answer: Callable[[int, Answer | Failure], None] | None = None,
) -> list[Answer | Failure]:
    """Answers in the order of the requests; a request that fails becomes a Failure in its place."""
    results: dict[int, Answer | Failure] = {}
    waiting = iter(enumerate(requests))

    async def work() -> None:
        for number, request in waiting:
            try:
                result: Answer | Failure = await model.ask(request)
            except ModelError as error:
                result = Failure(str(error))
            results[number] = result
            if on_answer:
                on_answer(number, result)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return [results[number] for number in range(len(results))]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end, for callers that are not asynchronous."""
    return asyncio.run(coroutine)


def parts_of(message: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The parts of a message; a plain text is one part."""
    content: str | Sequence[dict[str, Any]] = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def images_of(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paths of all images in a conversation, in order."""
    return [part["path"] for message in messages for part in parts_of(message) if part["type"] == "image"]


def image_bytes(path: str) -> bytes:
    """A picture's file, from the disk or from a `data:` address.

    >>> image_bytes("data:image/gif;base64,R0lGODlh")
    b'GIF89a'
    """
    try:
        if path.startswith("data:"):
            return base64.b64decode(path.partition(",")[2], validate=True)
        return Path(path).read_bytes()
    except ValueError:
        raise ModelError("A picture that was sent as data is not base64.") from None
    except OSError as error:
        raise ModelError(f"The image {path} cannot be read: {error.strerror}.") from None


def with_images(messages: Sequence[dict[str, Any]], shown: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with `shown(path)` in place of every image."""
    made = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = [shown(part["path"]) if part["type"] == "image" else part for part in content]
        made.append({**message, "content": content})
    return made


def by_content(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages for a cache key: with the hash of each image instead of its path."""
    return with_images(
        messages, lambda path: {"type": "image", "sha256": hashlib.sha256(image_bytes(path)).hexdigest()}
    )


def control_pattern(tokens: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds these control tokens in a text; tokens of a single character are left out."""
    longest_first = sorted((token for token in tokens if len(token) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def defused(text: str, control: re.Pattern[str]) -> str:
    """The text with a space in every control token, so that it stays text."""
    return control.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


class Patience(msgspec.Struct, frozen=True):
    """Try again up to `attempts` times, waiting `first * 2**n` seconds (at most `longest`), with jitter.

    `patience` bounds the whole time spent on one request, so that a server that says 429 forever ends in an
    error instead of a hang. A request is also abandoned when one attempt takes longer than `timeout`.
    """

    attempts: int = 8
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    timeout: float = 120.0

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait before attempt number `attempt` (the first retry is 1)."""
        backoff: float = min(self.longest, self.first * 2.0 ** (attempt - 1))
        backoff *= random.uniform(0.5, 1.0)  # many clients must not come back in step
        return max(backoff, min(retry_after or 0.0, self.longest))


class Tries:
    """The attempts at one request. Waiting for a free place before the first one costs no patience."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.made = 0
        self._started: float | None = None

    def begin(self) -> float:
        """Begin an attempt; the seconds it may take."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        self.made += 1
        return max(0.01, min(self.patience.timeout, self._started + self.patience.patience - now))

    def pause(self, retry_after: float | None = None) -> float | None:
        """Seconds to wait before the next attempt, or None when it is time to give up."""
        pause = self.patience.wait(max(1, self.made), retry_after)
        spent = time.monotonic() - self._started if self._started is not None else 0.0
        return None if self.made >= self.patience.attempts or spent + pause > self.patience.patience else pause


_inherited: list[object] = []  # from the parent of a fork


def never_collect(thing: object) -> None:
    """Keep an object alive that a fork inherited: closing it would reach through shared sockets into the parent."""
    _inherited.append(thing)


#: answers of a server that may be different next time
RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def retry_after(header: str | None) -> float | None:
    """The seconds in a Retry-After header; dates are left to the backoff.

    >>> retry_after("2"), retry_after(None), retry_after("soon")
    (2.0, None, None)
    """
    try:
        return float(header) if header else None
    except ValueError:
        return None
