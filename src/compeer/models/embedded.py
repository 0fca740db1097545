"""The embedded default: SmolLM2-135M-Instruct in this process, run by llama.cpp through xllamacpp.

Prompts are written in ChatML here rather than by the template engine, for three reasons: what is known
of the output beforehand is given as a prefix instead of being decoded; a person's text cannot smuggle in
control tokens; and the same function serves training. The server inside opens a port on the loopback
interface that cannot be switched off, so it is locked with a random key.

With quantised weights llama.cpp also rounds what passes between the layers to eight bits, which moves a probability by
several hundredths. `precise` works on a copy of the weights in 16-bit floats, with attention in 32 bits: alike to
transformers within a few thousandths, no slower at reading, slower at writing. Judges want it.

An adapter is a file for llama.cpp, or a folder that peft has saved, which is converted on first use and kept in the
cache. The class itself takes none; it is the name `embedded` that means the one that comes along (`spec`, `shipped`).

A seed repeats an answer while requests come one after another. Those decoded side by side are rounded
differently, and at a temperature a small difference soon leads elsewhere.

Room in a context that several requests share.

llama.cpp's slots fill one context together, and when it overflows every request in it fails, also those
that would have fitted alone. So a request waits until there is room for it, first come, first served. How
many tokens a text has is not known beforehand; two bytes a token is more than either language needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.lora_gguf import converted
from compeer.models.request import Answer, Ending, ModelError, Request, TooLong, Usage, images_of
from compeer.models.shipped import is_adapter
from compeer.models.shipped import sha256 as adapter_sha256
from compeer.models.weights import as_floats, locate
from compeer.reasoning.grammar import after_prefix, gbnf, prefix


class Room:
    """Tokens that requests in flight may fill."""

    def __init__(self, tokens: int) -> None:
        self.tokens = self.free = tokens
        self._turn = threading.Lock()  # held by the one that waits, so that a large request is not overtaken for ever
        self._change = threading.Condition()

    @contextlib.contextmanager
    def taken(self, prompt: str, max_tokens: int, abandoned: threading.Event) -> Iterator[None]:
        """Wait for room, and take it; a request larger than all of it gets it all. Nobody waits when abandoned."""
        needed = min(self.tokens, len(prompt.encode()) // 2 + max_tokens)
        with self._turn, self._change:
            while self.free < needed and not abandoned.is_set():
                self._change.wait(0.1)
            self.free -= needed
        try:
            yield
        finally:
            with self._change:
                self.free += needed
                self._change.notify_all()


# where one of SmolLM2's control tokens would begin
_CONTROL = re.compile(
    r"<(?=\||(?:repo_?name|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|empty_output"
    r"|jupyter_(?:start|text|code|output|script))>)"
)

# what the model's own template puts first when a conversation has no system message
_DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

_EAGER = 12  # chunks that nobody may wait for: the first words
_BREATH = 0.03  # seconds of writing that are handed over together, where someone reads along; a token takes about 0.02
_PATIENCE = 0.25  # the same, where only the whole answer matters


class Embedded:
    """The small model that needs no server, no key and no GPU."""

    sees = False

    def __init__(
        self,
        adapter: str | Path | None = None,
        *,
        name: str | None = None,
        slots: int = 4,
        context: int = 8192,
        precise: bool = False,
    ) -> None:
        self.adapter = Path(adapter) if adapter else None
        if self.adapter and not (self.adapter.is_file() or is_adapter(self.adapter)):
            raise ModelError(
                f"There is no adapter {self.adapter}. An adapter for the embedded model is a .gguf file, or a folder "
                "that peft has saved."
            )
        self.name = name or "embedded" + (f"+{self.adapter.name}" if self.adapter else "")
        self.slots, self.context, self.precise = slots, context, precise
        self._server: Any = None
        self._starting = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="embedded")
        self._room = Room(context)
        self._identity: str | None = None
        self._busy: set[int] = set()  # threads inside llama.cpp
        self.key = secrets.token_hex(16)  # of the port that llama.cpp opens

    async def ask(self, request: Request) -> Answer:
        pieces: list[str] = []
        end: dict[str, Any] = {}
        async for chunk in self._chunks(self._body(request)):
            pieces.append(chunk["choices"][0]["text"])
            end = chunk | {"first": end.get("first") or _first_token(chunk)}
        return Answer(
            text=_beginning(request) + "".join(pieces),
            finish="length" if end["choices"][0]["finish_reason"] == "length" else "stop",
            usage=_usage(end),
            first=end["first"],
            model=self.name,
        )

    async def stream(self, request: Request, ending: Ending | None = None) -> AsyncIterator[str]:
        """The text as it is written; `ending` is told how it ended."""
        if beginning := _beginning(request):
            yield beginning
        async for chunks in self._batches(self._body(request), _BREATH):
            if text := "".join(chunk["choices"][0]["text"] for chunk in chunks):
                yield text
            if ending is not None and (finish := chunks[-1]["choices"][0].get("finish_reason")):
                ending.finish, ending.usage = "length" if finish == "length" else "stop", _usage(chunks[-1])

    @property
    def busy(self) -> int:
        """How many requests llama.cpp is working on now, those that were left a moment ago included."""
        return len(self._busy)

    async def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """llama.cpp's own answer to a body of its own, in one piece. `prompt` may go on in token ids after its text."""
        found: dict[str, Any] = {}
        async for chunk in self._chunks(body | {"stream": False}):
            found = chunk
        return found

    def rendered(self, request: Request) -> bytes:
        if self._identity is None:
            hashes = [_sha256(locate())]
            if self.adapter:
                hashes.append(_sha256(self.adapter) if self.adapter.is_file() else adapter_sha256(self.adapter))
            self._identity = "embedded " + " ".join(hashes) + " precise" * self.precise
        return self._identity.encode() + b"\x00" + msgspec.json.encode(self._body(request), order="sorted")

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._server = None

    def load(self) -> Any:
        """The llama.cpp server, started on first use."""
        with self._starting:
            if self._server is None:
                weights = as_floats(locate()) if self.precise else locate()
                folder = self.adapter if self.adapter and self.adapter.is_dir() else None
                self._server = start_server(
                    weights,
                    converted(folder, weights) if folder else self.adapter,
                    slots=self.slots,
                    context=self.context,
                    key=self.key,
                    precise=self.precise,
                )
        return self._server

    def _body(self, request: Request) -> dict[str, Any]:
        if images_of(request.messages):
            raise ModelError("The embedded model cannot see images. Ask a vision model: --model openai:MODEL.")
        body: dict[str, Any] = {
            "prompt": chatml(request.messages) + _defused(_beginning(request)),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": 0,
            "min_p": 0.0,
            "repeat_penalty": request.penalty,
            "repeat_last_n": 256,
            "cache_prompt": True,
            "stream": True,
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if request.stop:
            body["stop"] = list(request.stop)
        if request.plan is not None:
            body["grammar"] = gbnf(after_prefix(request.plan))
        elif request.schema is not None:
            body["json_schema"] = request.schema
        if request.logprobs:
            body["n_probs"] = request.logprobs
        return body

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async for chunks in self._batches(body, _PATIENCE):
            for chunk in chunks:
                yield chunk

    async def _batches(self, body: dict[str, Any], breath: float) -> AsyncIterator[list[dict[str, Any]]]:
        """Chunks as llama.cpp produces them in its own thread; leaving early frees the slot.

        The first ones are handed over at once, later ones together with those of the last `breath` seconds: whoever
        takes a chunk takes a core from llama.cpp for that moment, and its other threads wait meanwhile.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[dict[str, Any]] | None] = asyncio.Queue()
        abandoned = threading.Event()
        text = body["prompt"] if isinstance(body["prompt"], str) else body["prompt"][0]
        kept: list[dict[str, Any]] = []
        handed, last = 0, 0.0

        def deliver(chunk: dict[str, Any]) -> bool:
            nonlocal handed, last
            if abandoned.is_set():
                return True  # tells llama.cpp to stop
            kept.append(chunk)
            now = time.monotonic()
            if handed < _EAGER or now - last >= breath or _is_last(chunk):
                loop.call_soon_threadsafe(arrived.put_nowait, kept.copy())
                kept.clear()
                handed, last = handed + 1, now
            return False

        def work() -> None:
            with self._room.taken(text, body["max_tokens"], abandoned):
                if not abandoned.is_set():
                    self._busy.add(threading.get_ident())
                    try:
                        self.load().handle_completions(body, deliver)
                    finally:
                        self._busy.discard(threading.get_ident())

        task = loop.run_in_executor(self._threads, work)
        task.add_done_callback(lambda _: arrived.put_nowait(kept or None))
        try:
            while (chunks := await arrived.get()) is not None:
                for chunk in chunks:
                    if "error" in chunk:
                        raise _refusal(chunk["error"])
                if written := [chunk for chunk in chunks if chunk.get("choices")]:
                    yield written
                if chunks is kept:
                    break
            await task
        finally:
            abandoned.set()


def _is_last(chunk: dict[str, Any]) -> bool:
    """Whether nothing follows that anybody waits for: an end, or an error."""
    choices = chunk.get("choices")
    return not choices or choices[0].get("finish_reason") is not None


def start_server(
    weights: Path,
    adapter: Path | None = None,
    *,
    slots: int = 4,
    context: int = 8192,
    key: str | None = None,
    precise: bool = False,
    brief: bool = False,
    n_threads: int | None = None,
) -> Any:
    """A llama.cpp server in this process. Its HTTP side answers only to `key` (random when None). `precise`: attention
    is computed and remembered in 32-bit floats rather than 16. `brief`: it will not live long, so it starts without a
    warm-up and keeps no prompts but those in its slots. `n_threads`: instead of the cores that are free now."""
    # OpenMP reads this when it is loaded. Its default is to spin at every barrier for ever, which on busy cores
    # makes decoding tens of times slower; this much spinning costs nothing measurable on idle ones.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    try:
        import xllamacpp
    except ImportError:
        raise ModelError('The embedded model needs xllamacpp: pip install "compeer[embedded]".') from None
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx, params.n_parallel, params.kv_unified = context, slots, True
    params.verbosity = -1
    params.api_keys = [key or secrets.token_hex(16)]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = n_threads or threads()
    if brief:
        params.warmup = params.fit_params = False
        params.cache_ram_mib = 0
    if precise:
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    try:
        return xllamacpp.Server(params)
    except Exception as error:  # xllamacpp raises bare exceptions
        raise ModelError(f"llama.cpp could not load {weights}: {error}.") from error


def threads() -> int:
    """How many threads to decode with: the cores that are free now; $COMPEER_THREADS overrides.

    llama.cpp's threads wait for one another at every layer. Where a thread has to share its core, all the others
    stand still with it: on two busy cores two threads are several times slower than one.
    """
    if chosen := os.environ.get("COMPEER_THREADS"):
        if not chosen.isdigit() or int(chosen) < 1:
            raise ModelError(f"COMPEER_THREADS is a whole number of threads; it says {chosen!r}.")
        return int(chosen)
    try:
        cores = len(os.sched_getaffinity(0))
        looks = []
        for _ in range(5):
            looks.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)  # not counting us
            time.sleep(0.01)
    except (AttributeError, OSError, ValueError):  # not Linux
        return os.cpu_count() or 1
    return max(1, cores - round(sum(looks) / len(looks)))


def chatml(messages: Sequence[dict[str, Any]]) -> str:
    """The conversation in ChatML, ready for the assistant's turn. Control tokens inside a text are defused."""
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": _DEFAULT_SYSTEM}, *messages]
    turns = [f"<|im_start|>{message['role']}\n{_defused(_text(message))}<|im_end|>\n" for message in messages]
    return "".join(turns) + "<|im_start|>assistant\n"


def _defused(text: str) -> str:
    return _CONTROL.sub("< ", text)


def _refusal(error: dict[str, Any]) -> ModelError:
    if error.get("type") == "exceed_context_size_error":
        return TooLong(
            f"This conversation is too long for the embedded model: {error.get('n_prompt_tokens')} tokens, and it "
            f"reads {error.get('n_ctx')}. Leave out the oldest turns, or ask a larger model."
        )
    return ModelError(f"The embedded model refused the request: {error.get('message')}.")


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


def _beginning(request: Request) -> str:
    return prefix(request.plan) if request.plan else ""


def _usage(chunk: dict[str, Any]) -> Usage:
    timings = chunk.get("timings") or {}
    cached = int(timings.get("cache_n") or 0)
    return Usage(int(timings.get("prompt_n") or 0) + cached, int(timings.get("predicted_n") or 0), cached)


def _first_token(chunk: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    tokens = (chunk["choices"][0].get("logprobs") or {}).get("content") or []
    if not tokens:
        return ()
    found = [(str(entry["token"]), float(entry["logprob"])) for entry in tokens[0]["top_logprobs"]]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
