"""Any OpenAI-compatible server: vLLM, llama.cpp, Ollama, OpenAI. The wire protocol over aiohttp.

The official client costs about ten times the processor time a request, which is what a pipeline of a
hundred thousand requests is made of; the protocol itself is small. Grammars are no part of it, so each
server's own field is used: `grammar` (GBNF) for llama.cpp, `structured_outputs` for vLLM. Which server
answers is asked once, at `/models`. Where a server splits `<think>` off into a field of its own, the
output is put together again, because the contract wants it whole.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import mimetypes
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import msgspec

from compeer.models.request import Answer, ModelError, Request, Usage
from compeer.models.retry import RETRIED_STATUS, Patience, retry_after
from compeer.reasoning.grammar import gbnf, regex

Dialect = Literal["auto", "llamacpp", "vllm", "openai"]


class Endpoint:
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
        if urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).netloc:
            raise ModelError(f"{base_url!r} is no address of a server; it should look like http://127.0.0.1:8000/v1.")
        self.model, self.base_url, self.api_key = model, base_url.rstrip("/"), api_key
        self.name = f"openai:{model}@{self.base_url}"
        self.concurrency, self.patience = concurrency, patience
        self.retries = 0
        self._dialect = dialect
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._images: dict[str, tuple[str, str]] = {}

    async def ask(self, request: Request) -> Answer:
        body = msgspec.json.encode(await self._payload(request, stream=False))
        started, attempt, problem = time.monotonic(), 0, ""
        while True:
            wait: float | None = None
            try:
                async with self._gate, self._http.post(f"{self.base_url}/chat/completions", data=body) as response:
                    data = await response.read()
                    if response.status == 200:
                        return self._answer(data)
                    problem = f"it answered {response.status}: {_message(data)}"
                    if response.status not in RETRIED_STATUS:
                        raise ModelError(self._refused(response.status, problem))
                    wait = retry_after(response.headers.get("Retry-After"))
            except _Garbage as garbage:
                problem = f"its answer makes no sense: {garbage}"
            except TimeoutError:
                problem = f"it did not answer within {self.patience.timeout:g} s"
            except aiohttp.ClientError as error:
                problem = f"the connection failed: {error}"
            attempt += 1
            pause = self.patience.wait(attempt, wait)
            if attempt >= self.patience.attempts or time.monotonic() - started + pause > self.patience.patience:
                raise ModelError(self._gave_up(problem, attempt))
            self.retries += 1
            await asyncio.sleep(pause)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        body = msgspec.json.encode(await self._payload(request, stream=True))
        thinking = False
        try:
            async with self._gate, self._http.post(f"{self.base_url}/chat/completions", data=body) as response:
                if response.status != 200:
                    problem = f"it answered {response.status}: {_message(await response.read())}"
                    raise ModelError(self._refused(response.status, problem))
                async for line in response.content:
                    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                        continue
                    delta = _delta(line[5:])
                    reasoning, content = _thinking(delta), delta.get("content") or ""
                    if reasoning:
                        yield reasoning if thinking else "<think>" + reasoning
                        thinking = True
                    if content:
                        yield "</think>" + content if thinking else content
                        thinking = False
        except TimeoutError:
            raise ModelError(self._gave_up(f"it stopped answering for {self.patience.timeout:g} s", 1)) from None
        except _Garbage as garbage:
            raise ModelError(self._gave_up(f"its answer makes no sense: {garbage}", 1)) from None
        except aiohttp.ClientError as error:
            raise ModelError(self._gave_up(f"the connection failed: {error}", 1)) from None

    def rendered(self, request: Request) -> bytes:
        payload = self._body(request, stream=False)
        payload["messages"] = [_with_hashes(message, self._image) for message in request.messages]
        if request.plan is not None:
            payload["grammar"] = gbnf(request.plan)
        return self.base_url.encode() + b"\x00" + msgspec.json.encode(payload, order="sorted")

    async def models(self) -> list[dict[str, Any]]:
        """What the server says it serves."""
        try:
            async with self._http.get(f"{self.base_url}/models", timeout=aiohttp.ClientTimeout(10)) as response:
                data = await response.read()
                if response.status != 200:
                    raise ModelError(self._refused(response.status, f"it answered {response.status} to /models"))
                listed = msgspec.json.decode(data)["data"]
                return [entry for entry in listed if isinstance(entry, dict)]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise ModelError(self._gave_up("it does not list its models as an OpenAI-compatible server does", 1)) from None
        except TimeoutError:
            raise ModelError(self._gave_up("it did not answer within 10 s", 1)) from None
        except aiohttp.ClientError as error:
            raise ModelError(self._gave_up(f"the connection failed: {error}", 1)) from None

    async def dialect(self) -> Dialect:
        """Which server this is, asked once."""
        if self._dialect == "auto":
            try:
                owners = {str(entry.get("owned_by", "")) for entry in await self.models()}
            except ModelError:
                return "openai"  # ask again next time: it may only be starting
            known: dict[str, Dialect] = {"llamacpp": "llamacpp", "vllm": "vllm"}
            self._dialect = next((known[owner] for owner in owners if owner in known), "openai")
        return self._dialect

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _payload(self, request: Request, *, stream: bool) -> dict[str, Any]:
        payload = self._body(request, stream=stream)
        payload["messages"] = [_with_data(message, self._image) for message in request.messages]
        if request.plan is not None:
            dialect = await self.dialect()
            if dialect == "llamacpp":
                payload |= {"grammar": gbnf(request.plan), "reasoning_format": "none"}
            elif dialect == "vllm":
                payload["structured_outputs"] = {"regex": regex(request.plan)}
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

    @property
    def _http(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:  # a session belongs to one event loop
            headers = {"Content-Type": "application/json"}
            if self.api_key:
                headers["Authorization"] = f"Bearer {self.api_key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.concurrency, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=self.patience.timeout),
                headers=headers,
            )
            self._gate = asyncio.Semaphore(self.concurrency)
            self._loop = loop
        return self._session

    def _answer(self, data: bytes) -> Answer:
        try:
            reply = msgspec.json.decode(data)
            choice = reply["choices"][0]
            message = choice["message"]
            content = message.get("content") or ""
            reasoning = _thinking(message)
            used = reply.get("usage") or {}
            details = used.get("prompt_tokens_details") or {}
            return Answer(
                text=f"<think>{reasoning}</think>{content}" if reasoning else str(content),
                finish=str(choice.get("finish_reason") or "stop"),
                usage=Usage(
                    int(used.get("prompt_tokens") or 0),
                    int(used.get("completion_tokens") or 0),
                    int(details.get("cached_tokens") or 0),
                ),
                first=_first_token(choice),
                model=str(reply.get("model") or self.model),
            )
        except (msgspec.DecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise _Garbage(f"{data[:80]!r} ({type(error).__name__})") from None

    def _image(self, path: str) -> tuple[str, str]:
        """(data URL, hash) of a picture, read once."""
        if path not in self._images:
            try:
                data = Path(path).read_bytes()
            except OSError as error:
                raise ModelError(f"The image {path} cannot be read: {error.strerror}.") from None
            kind = mimetypes.guess_type(path)[0] or "image/png"
            url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
            if len(self._images) > 256:
                self._images.clear()  # a corpus of pictures must not fill the memory
            self._images[path] = (url, hashlib.sha256(data).hexdigest())
        return self._images[path]

    def _refused(self, status: int, problem: str) -> str:
        advice = {
            400: "The request does not fit this model; a shorter conversation or another model may.",
            401: "Set OPENAI_API_KEY to a key that this server accepts.",
            403: "Set OPENAI_API_KEY to a key that this server accepts.",
            404: f"Is {self.model!r} the right model name, and does the base URL end in /v1?",
        }.get(status, "Try again later, or another server.")
        return f"The server {self.base_url} refused the request for {self.model}: {problem}. {advice}"

    def _gave_up(self, problem: str, attempts: int) -> str:
        tried = f" after {attempts} attempts" if attempts > 1 else ""
        return (
            f"No answer from {self.model} at {self.base_url}{tried}: {problem}. "
            "Is the server running, and is the base URL right (--base-url or OPENAI_BASE_URL)?"
        )


class _Garbage(Exception):
    """An answer that is no chat completion."""


def _message(data: bytes) -> str:
    """What the server says went wrong, short."""
    try:
        error = msgspec.json.decode(data)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:300]
    except (msgspec.DecodeError, KeyError, TypeError):
        return data[:120].decode("utf-8", "replace").strip() or "nothing"


def _delta(data: bytes) -> dict[str, Any]:
    try:
        chunk = msgspec.json.decode(data)
        if "error" in chunk:
            raise _Garbage(str(chunk["error"])[:200])
        choices = chunk.get("choices") or []
        return dict(choices[0].get("delta") or {}) if choices else {}
    except (msgspec.DecodeError, AttributeError, TypeError, KeyError) as error:
        raise _Garbage(f"{data[:80]!r} ({type(error).__name__})") from None


def _thinking(message: dict[str, Any]) -> str:
    """The thinking, where a server keeps it apart from the content."""
    return str(message.get("reasoning") or message.get("reasoning_content") or "")


def _first_token(choice: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    tokens: Sequence[dict[str, Any]] = (choice.get("logprobs") or {}).get("content") or []
    if not tokens:
        return ()
    alternatives = tokens[0].get("top_logprobs") or [tokens[0]]
    found = [(str(entry["token"]), float(entry["logprob"])) for entry in alternatives]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


def _with_data(message: dict[str, Any], image: Any) -> dict[str, Any]:
    """The message as the protocol wants it: pictures as data URLs."""
    if isinstance(message["content"], str):
        return message
    parts = [
        {"type": "image_url", "image_url": {"url": image(part["path"])[0]}} if part["type"] == "image" else part
        for part in message["content"]
    ]
    return {**message, "content": parts}


def _with_hashes(message: dict[str, Any], image: Any) -> dict[str, Any]:
    """The message for the cache key: pictures by what is in them, not by where they lie."""
    if isinstance(message["content"], str):
        return message
    parts = [
        {"type": "image", "sha256": image(part["path"])[1]} if part["type"] == "image" else part
        for part in message["content"]
    ]
    return {**message, "content": parts}
