"""Any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI. The wire protocol over aiohttp.

The official client costs about ten times the processor time a request, which is what a pipeline of a
hundred thousand requests is made of; the protocol itself is small. Grammars are not part of it, so each
server's own field is used: `grammar` (GBNF) for llama.cpp, `structured_outputs` for vLLM, `regex` for SGLang.
Which server answers is asked once, at `/models`. Where a server splits `<think>` off into a field of its own,
the output is put together again, because the contract needs it whole.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import mimetypes
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from compeer.models.request import (
    RETRIED_STATUS,
    Answer,
    Ending,
    FailureKind,
    ModelError,
    NoAnswer,
    Patience,
    Place,
    Request,
    TooLong,
    Tries,
    Usage,
    by_content,
    first_token,
    image_bytes,
    never_collect,
    retry_after,
    with_images,
)
from compeer.reasoning.grammar import gbnf, regex
from compeer.typed import from_json

Dialect = Literal["auto", "llamacpp", "vllm", "sglang", "openai"]
T = TypeVar("T")

# how servers say that a conversation does not fit
_TOO_LONG = re.compile(
    r"context (?:length|size|window)|context_length|too long|exceeds? the (?:available|maximum)", re.I
)


class JsonServer:
    """A server that answers JSON. Requests are retried after temporary failures, as its `Patience` says.

    One session belongs to one event loop of one process; a forked child leaves the parent's alone.
    """

    redirects = True
    retries = 0

    def __init__(self, api_key: str | None, patience: Patience, concurrency: int) -> None:
        self.api_key, self.patience, self.concurrency = api_key, patience, concurrency
        self._session: aiohttp.ClientSession | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None

    def refusal(self, response: aiohttp.ClientResponse, problem: str) -> ModelError | None:
        """The error for a status that asking again will not change; None for one that may pass."""
        raise NotImplementedError

    def silence(self, kind: FailureKind, problem: str, attempts: int) -> ModelError:
        """The error after the last attempt."""
        raise NotImplementedError

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._home is not None and self._home[0] == os.getpid():
            with contextlib.suppress(RuntimeError):  # a session of a loop that is over
                await session.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_home": None, "_gate": None}

    async def _tried(
        self, method: str, url: URL, payload: Callable[[], Awaitable[bytes | None]], read: Callable[[bytes], T]
    ) -> T:
        tries, before = Tries(self.patience), None
        while True:
            body = await payload()
            http, wait, allowed = self._http, None, 0.0
            kind: FailureKind = "refused"
            try:
                async with self._gate:
                    allowed = tries.begin()
                    limit = aiohttp.ClientTimeout(total=allowed, sock_connect=min(10.0, allowed))
                    asked = http.request(method, url, data=body, timeout=limit, allow_redirects=self.redirects)
                    async with asked as response:
                        data = await response.read()
                        if response.status == 200:
                            return read(data)
                        problem, wait = self._status(response, data)
            except (Garbage, TimeoutError, aiohttp.ClientError, OSError) as error:
                kind, problem = _failure(error, allowed)
                if kind == "time" and before and allowed < self.patience.timeout:
                    kind, problem = before  # too little time was left; what went wrong before says more
            before = kind, problem
            await self._pause(tries, kind, problem, wait)

    def _status(self, response: aiohttp.ClientResponse, data: bytes) -> tuple[str, float | None]:
        """What a status other than 200 means, and how long the server asks to wait; an error when that is final."""
        problem = f"it answered {response.status}: {server_message(data)}"
        if final := self.refusal(response, problem):
            raise final
        return problem, retry_after(response.headers.get("Retry-After"))

    async def _pause(self, tries: Tries, kind: FailureKind, problem: str, wait: float | None) -> None:
        pause = tries.pause(wait)
        if pause is None:
            raise self.silence(kind, problem, tries.made)
        self.retries += 1
        await asyncio.sleep(pause)

    @property
    def _http(self) -> aiohttp.ClientSession:
        here = os.getpid(), asyncio.get_running_loop()
        if self._session is None or self._home != here:
            if self._session is not None and self._home is not None and self._home[0] != here[0]:
                never_collect(self._session)
            headers = {"Content-Type": "application/json"}
            if self.api_key:
                headers["Authorization"] = f"Bearer {self.api_key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.concurrency, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=self.patience.timeout),
                headers=headers,
            )
            self._gate = asyncio.Semaphore(self.concurrency)
            self._home = here
        return self._session


class Endpoint(JsonServer):
    """A chat model behind an OpenAI-compatible server."""

    sees = True  # whether the model behind it does is the server's to say

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        *,
        concurrency: int = 64,
        patience: Patience = Patience(),
        dialect: Dialect = "auto",
    ) -> None:
        if not is_address(base_url):
            raise ModelError(
                f"{base_url!r} is not the address of a server; it should look like http://127.0.0.1:8000/v1."
            )
        super().__init__(api_key, patience, concurrency)
        self.model, self.base_url = model, base_url.rstrip("/")
        self.name = f"openai:{model}@{self.base_url}"
        self._chat = URL(f"{self.base_url}/chat/completions")  # parsed once; aiohttp would do it for each request
        self._dialect = dialect

    async def ask(self, request: Request) -> Answer:
        async def payload() -> bytes:
            # rendered for each attempt: a server that was only starting may now say which dialect it speaks
            return msgspec.json.encode(await self._payload(request, stream=False))

        return await self._tried("POST", self._chat, payload, self._answer)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST to a path below the server's root, outside the protocol, with the same retries as `ask`."""

        async def payload() -> bytes:
            return msgspec.json.encode(body)

        return await self._tried("POST", URL(self.base_url.removesuffix("/v1") + path), payload, _object)

    async def stream(self, request: Request, ending: Ending | None = None) -> AsyncIterator[str]:
        """The text as it comes. A failure is retried as long as no text has been passed on."""
        more = {"stream_options": {"include_usage": True}} if ending is not None else {}
        tries, begun = Tries(self.patience), False
        while True:
            http, wait = self._http, None
            kind: FailureKind = "refused"
            body = msgspec.json.encode(await self._payload(request, stream=True) | more)
            try:
                async with self._gate:
                    tries.begin()
                    async with http.post(self._chat, data=body) as response:
                        if response.status == 200:
                            async for piece in _pieces(response.content, ending):
                                begun = True
                                yield piece
                            return
                        problem, wait = self._status(response, await response.read())
            except (Garbage, TimeoutError, aiohttp.ClientError) as error:
                kind, problem = _failure(error, self.patience.timeout)
            if begun:
                raise self.silence(kind, f"it broke off: {problem}", 1)
            await self._pause(tries, kind, problem, wait)

    def rendered(self, request: Request) -> bytes:
        payload = self._body(request, stream=False)
        payload["messages"] = by_content(request.messages)
        if request.plan is not None:
            payload["grammar"] = gbnf(request.plan)
        return self.base_url.encode() + b"\x00" + msgspec.json.encode(payload, order="sorted")

    async def models(self) -> list[dict[str, Any]]:
        """What the server says it serves."""
        try:
            async with self._http.get(f"{self.base_url}/models", timeout=aiohttp.ClientTimeout(10)) as response:
                data = await response.read()
                if response.status != 200:
                    problem, _ = self._status(response, data)
                    raise self.silence("refused", problem, 1)
                listed = msgspec.json.decode(data)["data"]
                return [entry for entry in listed if isinstance(entry, dict)]
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
            said = "it does not list its models as an OpenAI-compatible server does"
            raise _Final(str(self.silence("nonsense", said, 1))) from None
        except (TimeoutError, aiohttp.ClientError) as error:
            raise self.silence(*_failure(error, 10), 1) from None

    async def dialect(self) -> Dialect:
        """Which server this is, asked until it is known."""
        if self._dialect == "auto":
            try:
                owners = {str(entry.get("owned_by", "")) for entry in await self.models()}
            except _Final:
                owners = set()
            except ModelError:
                return "openai"  # ask again next time: it may only be starting
            known: dict[str, Dialect] = {"llamacpp": "llamacpp", "vllm": "vllm", "sglang": "sglang"}
            self._dialect = next((known[owner] for owner in owners if owner in known), "openai")
        return self._dialect

    async def _payload(self, request: Request, *, stream: bool) -> dict[str, Any]:
        payload = self._body(request, stream=stream)
        payload["messages"] = with_images(
            request.messages, lambda path: {"type": "image_url", "image_url": {"url": _image_url(path)}}
        )
        if request.plan is not None:
            dialect = await self.dialect()
            if dialect == "llamacpp":
                payload |= {"grammar": gbnf(request.plan), "reasoning_format": "none"}
            elif dialect == "vllm":
                payload["structured_outputs"] = {"regex": regex(request.plan)}
            elif dialect == "sglang":
                payload["regex"] = regex(request.plan)
        return payload

    def _body(self, request: Request, *, stream: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
        }
        if stream:
            body["stream"] = True
        if request.penalty != 1.0:
            # the protocol has no such field; vLLM and llama.cpp each read their own and ignore the other
            body |= {"repetition_penalty": request.penalty, "repeat_penalty": request.penalty}
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": request.schema},
            }
        if request.logprobs:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        return body

    def _answer(self, data: bytes) -> Answer:
        try:
            reply = msgspec.json.decode(data)
            choice = reply["choices"][0]
            message = choice["message"]
            content = message.get("content") or ""
            if not isinstance(content, str):
                raise TypeError
            reasoning = _thinking(message)
            return Answer(
                text=f"<think>{reasoning}</think>{content}" if reasoning else content,
                finish=str(choice.get("finish_reason") or "stop"),
                usage=_usage(reply.get("usage") or {}),
                first=first_token(choice),
                places=_places(choice),
                model=str(reply.get("model") or self.model),
            )
        except (msgspec.MsgspecError, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise Garbage(f"{data[:80]!r} ({type(error).__name__})") from None

    def refusal(self, response: aiohttp.ClientResponse, problem: str) -> ModelError | None:
        status = response.status
        advice = {
            400: "The request does not fit this model; a shorter conversation or another model may.",
            401: "Set OPENAI_API_KEY to a key that this server accepts.",
            403: "Set OPENAI_API_KEY to a key that this server accepts.",
            404: f"Is {self.model!r} the right model name, and does the base URL end in /v1?",
        }.get(status, "Try again later, or another server.")
        words = f"The server {self.base_url} refused the request for {self.model}: {problem}. {advice}"
        if status in (400, 413) and _TOO_LONG.search(problem):
            return TooLong(words)
        return None if status in RETRIED_STATUS else _Final(words)

    def silence(self, kind: FailureKind, problem: str, attempts: int) -> ModelError:
        tried = f" after {attempts} attempts" if attempts > 1 else ""
        words = (
            f"No answer from {self.model} at {self.base_url}{tried}: {problem}. "
            "Is the server running, and is the base URL right (--base-url or OPENAI_BASE_URL)?"
        )
        return NoAnswer(kind, words)


def is_address(url: str) -> bool:
    """Whether a text is the address of a server."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:  # half a bracket, two dots, a port beyond 65535
        return False


class _Final(ModelError):
    """A refusal that asking again will not change."""


class Garbage(Exception):
    """An answer that is not what was asked for."""


def _failure(error: Exception, seconds: float) -> tuple[FailureKind, str]:
    """Kind and description of a failed attempt; `seconds` is the time it was given."""
    if isinstance(error, TimeoutError):
        return "time", f"it did not answer within {seconds:.3g} s"
    if isinstance(error, Garbage):
        return "nonsense", f"its answer makes no sense: {error}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "connection", f"the connection failed: it broke off in the middle of its answer ({error})"
    return "connection", f"the connection failed: {error or type(error).__name__}"


async def _pieces(content: aiohttp.StreamReader, ending: Ending | None) -> AsyncIterator[str]:
    """The text in a stream of server-sent events, thinking and content as one."""
    thinking = False
    try:
        async for line in content:
            if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                continue
            delta = _delta(line[5:], ending)
            reasoning, said = _thinking(delta), str(delta.get("content") or "")
            if reasoning:
                yield reasoning if thinking else "<think>" + reasoning
                thinking = True
            if said:
                yield "</think>" + said if thinking else said
                thinking = False
    except (ValueError, HttpProcessingError) as error:  # a line without an end, depending on aiohttp's version
        raise Garbage(f"{type(error).__name__}: {str(error)[:80]}") from None
    if thinking:
        yield "</think>"


def server_message(data: bytes) -> str:
    """The server's error message, shortened."""
    try:
        error = msgspec.json.decode(data)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:300]
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError):
        return data[:120].decode("utf-8", "replace").strip() or "nothing"


def _delta(data: bytes, ending: Ending | None) -> dict[str, Any]:
    try:
        chunk = msgspec.json.decode(data)
        if "error" in chunk:
            raise Garbage(str(chunk["error"])[:200])
        choices = chunk.get("choices") or []
        if ending is not None:
            ending.usage = _usage(chunk["usage"]) if chunk.get("usage") else ending.usage
            ending.finish = str((choices[0].get("finish_reason") if choices else "") or ending.finish)
        return dict(choices[0].get("delta") or {}) if choices else {}
    except (msgspec.MsgspecError, AttributeError, TypeError, KeyError, ValueError) as error:
        raise Garbage(f"{data[:80]!r} ({type(error).__name__})") from None


def _image_url(path: str) -> str:
    """A picture as a `data:` address."""
    if path.startswith("data:"):
        return path
    kind = mimetypes.guess_type(path)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(image_bytes(path)).decode()}"


def _usage(used: dict[str, Any]) -> Usage:
    read, written = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
    return Usage(read, written, int((used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0))


def _thinking(message: dict[str, Any]) -> str:
    """The thinking, where a server keeps it apart from the content."""
    return str(message.get("reasoning") or message.get("reasoning_content") or "")


def _places(choice: dict[str, Any]) -> tuple[Place, ...]:
    """Every place of the answer with its alternatives. The text stands in for the bytes where a server omits them."""

    def token(entry: dict[str, Any]) -> bytes:
        return bytes(entry["bytes"]) if entry.get("bytes") else str(entry.get("token") or "").encode()

    return tuple(
        Place(token(entry), tuple((token(other), float(other["logprob"])) for other in entry.get("top_logprobs") or ()))
        for entry in (choice.get("logprobs") or {}).get("content") or ()
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        return from_json(data, dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Garbage(f"{data[:80]!r} ({type(error).__name__})") from None
