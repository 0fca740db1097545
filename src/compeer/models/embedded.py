"""Models in this process, run by llama.cpp (`llama_server`): the known weights, or any GGUF file.

    Embedded()                          the small model, without an adapter
    Embedded(folder, weights=BASE)      the 1.5B base with an adapter
    Embedded(weights=Path("x.gguf"))    any model, with its own chat template

With quantised weights llama.cpp also rounds what passes between the layers to eight bits, which moves a probability by
several hundredths. `precise` works on a copy of the weights in 16-bit floats, with attention in 32 bits: within a few
thousandths of transformers, no slower at reading, slower at writing. Judges need it.

An adapter is a .gguf file, or a folder that peft has saved, which is converted on first use and kept in the cache. The
class itself adds none; the names `embedded` and `embedded:small` mean the shipped ones (`spec`, `shipped`).

Each conversation keeps its slot (`llama_server.Slots`): what was read at one turn is not read again at the next. A
judge reads many texts with the same beginning instead, and leaves the choice of the slot to llama.cpp.

A conversation with the known weights is written in ChatML here rather than by llama.cpp's template engine, for three
reasons: what is known of the output beforehand is given as a prefix instead of being decoded; a person's text cannot
smuggle in control tokens; and the same function serves training. Any other GGUF file is written by its own template;
its control tokens are read from the file, so that a text cannot hold them either.

A seed repeats an answer while requests come one after another. Requests decoded side by side are rounded differently,
and at a temperature above 0 a small difference soon leads to another text.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.llama_server import LlamaServer, Prompt, Slots, at_work
from compeer.models.lora_gguf import check_base, control_tokens, converted
from compeer.models.request import (
    Answer,
    Ending,
    ModelError,
    Request,
    TooLong,
    Usage,
    control_pattern,
    defused,
    first_token,
    images_of,
    parts_of,
)
from compeer.models.shipped import is_adapter
from compeer.models.shipped import sha256 as adapter_sha256
from compeer.models.weights import BASE, SMALL, Weights, as_floats, file_sha256, identify, locate, remembered_sha256
from compeer.reasoning.grammar import after_prefix, gbnf

#: what is said where the small model answers in place of the large one
SMALL_ANSWERS = (
    "The small model answers (embedded:small): it shows how such a model thinks, and often makes no sense. For the "
    f"1.5B supporter: compeer models get {BASE.name} ({BASE.about})."
)

_EAGER = 12  # chunks that nobody may wait for: the first words
_BREATH = 0.03  # seconds of writing that are handed over together, where someone reads along; a token takes about 0.02
_PATIENCE = 0.25  # the same, where only the whole answer matters


class Embedded:
    """A model that needs no server, no key and no GPU."""

    sees = False

    def __init__(
        self,
        adapter: str | Path | None = None,
        others: Mapping[str, Path] | None = None,
        *,
        weights: Weights | Path = SMALL,
        name: str | None = None,
        slots: int = 4,
        context: int = 8192,
        precise: bool = False,
        stands_in: bool = False,
    ) -> None:
        self.adapter = Path(adapter) if adapter else None
        if self.adapter and not (self.adapter.is_file() or is_adapter(self.adapter)):
            raise ModelError(
                f"There is no adapter {self.adapter}. An adapter for the embedded model is a .gguf file, or a folder "
                "that peft has saved."
            )
        if isinstance(weights, Path) and not weights.is_file():
            raise ModelError(f"There is no file {weights}. gguf:PATH names a GGUF file on this machine.")
        self.weights = weights
        plain = weights.spec.removesuffix(":plain") if isinstance(weights, Weights) else f"gguf:{weights.name}"
        self.name = name or plain + (f"+{self.adapter.name}" if self.adapter else "")
        self.slots, self.context, self.precise = slots, context, precise
        self.stands_in = stands_in  # for the large model, whose weights are not here; said once, when it is loaded
        self.others = dict(others or {}) if self.adapter else {}
        # with an adapter a conversation may be read in two ways and more, and keeps a slot for each
        self._lanes = slots if precise or not self.adapter else (2 + ("reader" in self.others)) * slots
        self._kept = None if precise else Slots(self._lanes)
        self._template: OwnTemplate | None = None
        self._server: LlamaServer | None = None
        self._starting = threading.Lock()
        self._closed = False
        self._side_by_side = threading.Semaphore(slots)
        self._budget = ContextBudget(context)
        self._identity: str | None = None

    async def ask(self, request: Request) -> Answer:
        pieces: list[str] = []
        end: dict[str, Any] = {}
        body, prompt = await self._prepared(request)
        async for chunks in self._batches(body, _PATIENCE, prompt):
            choices = [chunk["choices"][0] for chunk in chunks]
            pieces += [choice["text"] for choice in choices]
            first = end.get("first") or next(filter(None, map(first_token, choices)), ())
            end = chunks[-1] | {"first": first}
        return Answer(
            text=request.beginning + "".join(pieces),
            finish="length" if end["choices"][0]["finish_reason"] == "length" else "stop",
            usage=_usage(end),
            first=end["first"],
            model=self.name,
        )

    async def stream(self, request: Request, ending: Ending | None = None) -> AsyncIterator[str]:
        """The text as it is written; `ending` is told how it ended."""
        if request.beginning:
            yield request.beginning
        body, prompt = await self._prepared(request)
        async for chunks in self._batches(body, _BREATH, prompt):
            if text := "".join(chunk["choices"][0]["text"] for chunk in chunks):
                yield text
            if ending is not None and (finish := chunks[-1]["choices"][0].get("finish_reason")):
                ending.finish, ending.usage = "length" if finish == "length" else "stop", _usage(chunks[-1])

    @property
    def busy(self) -> int:
        """Number of requests that llama.cpp is working on, including those abandoned a moment ago."""
        return self._server.busy if self._server else 0

    async def completion(self, body: dict[str, Any], prompt: Prompt) -> dict[str, Any]:
        """llama.cpp's own answer to a body of its own, in one piece. The body's prompt is the text of `prompt`, and may
        go on in token ids."""
        found: dict[str, Any] = {}
        body = body | {"stream": False} | at_work(prompt.adapter)
        async for chunks in self._batches(body, _PATIENCE, prompt):
            found = chunks[-1]
        return found

    async def prompt(self, messages: Messages, adapter: int | None = 0) -> Prompt:
        """The conversation as the model reads it, ready for its turn. `adapter`: which one it is read with."""
        # the first time, weights may have to be fetched
        prompt = await asyncio.to_thread(self._rendered, messages)
        return msgspec.structs.replace(prompt, adapter=adapter)

    def number_of(self, role: str) -> int | None:
        """The number of the adapter that has this role besides its own one; None where there is none."""
        return 1 + list(self.others).index(role) if role in self.others else None

    def file(self) -> Path:
        """The file of the weights, fetched where it is small and not here."""
        return locate(self.weights) if isinstance(self.weights, Weights) else self.weights

    def rendered(self, request: Request) -> bytes:
        if self._identity is None:
            hashes = [remembered_sha256(self.file())]
            if self.adapter:
                hashes.append(file_sha256(self.adapter) if self.adapter.is_file() else adapter_sha256(self.adapter))
            hashes += map(adapter_sha256, self.others.values())
            self._identity = "embedded " + " ".join(hashes) + " precise" * self.precise
        # a file with a template of its own is not loaded for a key: its hash says which template that is
        known = identify(self.file())
        as_sent = msgspec.json.encode(list(request.messages), order="sorted").decode()
        told = self._body(request, chatml(request.messages, known) if known else as_sent)
        return self._identity.encode() + b"\x00" + msgspec.json.encode(told, order="sorted")

    async def close(self) -> None:
        """Stop llama.cpp; answers that are being written end at their next token."""
        self._closed = True
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._starting:
            if self._server is not None:
                self._server.close()
            self._server = None

    def load(self) -> LlamaServer:
        """The llama.cpp server, opened on first use."""
        with self._starting:
            if self._closed:
                raise ModelError(f"{self.name} is closed.")
            if self._server is None:
                file = self.file()
                adapter = self.adapter
                if self.stands_in:
                    print(SMALL_ANSWERS, file=sys.stderr, flush=True)
                if adapter and adapter.is_dir():
                    adapter = converted(adapter, file)
                elif adapter:
                    check_base(adapter, file)
                others = [converted(one, file) for one in self.others.values()]
                self._server = LlamaServer(
                    as_floats(file) if self.precise else file,
                    [adapter, *others] if adapter else [],
                    slots=self._lanes,
                    context=self.context,
                    precise=self.precise,
                    own_slots=self._kept is not None,
                    mapped=not room_for(file),
                )
        return self._server

    def _rendered(self, messages: Messages) -> Prompt:
        if known := identify(self.file()):
            return chatml_prompt(messages, known)
        server = self.load()
        if self._template is None:
            self._template = OwnTemplate(self.file())
        return self._template.prompt(server, messages)

    async def _prepared(self, request: Request) -> tuple[dict[str, Any], Prompt]:
        if images_of(request.messages):
            raise ModelError("The embedded model cannot see images. Ask a vision model: --model openai:MODEL.")
        prompt = await self.prompt(request.messages, self._adapter_for(request))
        return self._body(request, prompt.text), prompt

    def _adapter_for(self, request: Request) -> int | None:
        if request.adapter or not self.adapter:
            return 0
        return None if request.adapter is None else self.number_of("replies")

    def _body(self, request: Request, text: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "prompt": text + defused(request.beginning, self._template.control if self._template else _CONTROL),
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
        return body | at_work(self._adapter_for(request))

    async def _batches(
        self, body: dict[str, Any], breath: float, prompt: Prompt
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Chunks as llama.cpp produces them in its own thread; leaving early frees the slot.

        The first ones are handed over at once, later ones together with those of the last `breath` seconds: whoever
        takes a chunk takes a core from llama.cpp for that moment, and its other threads wait meanwhile.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[list[dict[str, Any]] | BaseException | None] = asyncio.Queue()
        abandoned = threading.Event()
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
            failure = None
            try:
                with self._side_by_side, self._budget.taken(prompt.text, body["max_tokens"], abandoned):
                    if not abandoned.is_set():
                        self._complete(body, prompt, deliver)
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # a closed event loop: nobody waits any more
                loop.call_soon_threadsafe(arrived.put_nowait, failure)

        # not a ThreadPoolExecutor's thread, which is joined at exit: after Ctrl-C a program would wait until llama.cpp
        # has read a long prompt to its end
        threading.Thread(target=work, name="embedded", daemon=True).start()
        try:
            while (chunks := await arrived.get()) is not None:
                if isinstance(chunks, BaseException):
                    raise chunks
                for chunk in chunks:
                    if "error" in chunk:
                        raise _refusal(chunk["error"])
                if written := [chunk for chunk in chunks if chunk.get("choices")]:
                    yield written
            if kept:
                yield kept
        finally:
            abandoned.set()

    def _complete(self, body: dict[str, Any], prompt: Prompt, deliver: Callable[[dict[str, Any]], bool]) -> None:
        server = self.load()
        if self._kept is None:
            server.complete(body, deliver)
            return
        with self._kept.taken(server, prompt) as slot:
            server.complete(body | {"id_slot": slot}, deliver)


def memory_needed(size: int) -> tuple[int, int, int]:
    """Memory in bytes for a file of weights: its pages, which all processes share; context and buffers of each process;
    and the second copy in the order that llama.cpp writes faster with.

    Measured with the 1.5B base and a context of 8,192 tokens: 1.11 GB, 0.39 GB and 0.61 GB.
    """
    return size, 400_000_000, size * 11 // 20


def room_for(file: Path) -> bool:
    """Whether the free memory also holds the faster copy of the weights, with half a gigabyte to spare."""
    free = free_memory()
    return free is None or free > sum(memory_needed(file.stat().st_size)) + 500_000_000


def free_memory() -> int | None:
    """Available memory in bytes; None where the system does not tell."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None


def _is_last(chunk: dict[str, Any]) -> bool:
    """Whether this is the last chunk: an end or an error."""
    choices = chunk.get("choices")
    return not choices or choices[0].get("finish_reason") is not None


class ContextBudget:
    """Tokens of a context that requests in flight may fill.

    llama.cpp's slots fill one context together, and when it overflows every request in it fails, also those that
    would have fitted alone. So a request waits until there is room for it, first come, first served. How many tokens
    a text has is not known beforehand; two bytes per token is more than either language needs.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = self.free = tokens
        self._turn = threading.Lock()  # held by the one that waits, so that a large request is not overtaken forever
        self._change = threading.Condition()

    @contextlib.contextmanager
    def taken(self, prompt: str, max_tokens: int, abandoned: threading.Event) -> Iterator[None]:
        """Wait for room and take it, at most the whole context. An abandoned request does not wait."""
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


def _refusal(error: dict[str, Any]) -> ModelError:
    if error.get("type") == "exceed_context_size_error":
        return TooLong(
            f"This conversation is too long for the embedded model: {error.get('n_prompt_tokens')} tokens, and it "
            f"reads {error.get('n_ctx')}. Leave out the oldest turns, or ask a larger model."
        )
    return ModelError(f"The embedded model refused the request: {error.get('message')}.")


def _usage(chunk: dict[str, Any]) -> Usage:
    timings = chunk.get("timings") or {}
    cached = int(timings.get("cache_n") or 0)
    return Usage(int(timings.get("prompt_n") or 0) + cached, int(timings.get("predicted_n") or 0), cached)


Messages = Sequence[dict[str, Any]]

# where a control token of SmolLM2 or Qwen2.5 would begin
_CONTROL = re.compile(
    r"<(?=\||/?tool_call>|(?:repo_?name|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|empty_output"
    r"|jupyter_(?:start|text|code|output|script))>)"
)

_END, _OPENING = "<|im_end|>\n", "<|im_start|>assistant\n"

# what the models' own templates put first when a conversation has no system message
_DEFAULT_SYSTEM = {
    SMALL.name: "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    BASE.name: "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
}


def chatml(messages: Messages, weights: Weights = SMALL) -> str:
    """The conversation in ChatML, ready for the assistant's turn. Control tokens inside a text are defused."""
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": _DEFAULT_SYSTEM[weights.name]}, *messages]
    return "".join(map(_turn, messages)) + _OPENING


def chatml_prompt(messages: Messages, weights: Weights) -> Prompt:
    """The same with its parts: the system message, and what was said up to the person's last message."""
    text = chatml(messages, weights)
    last = max((place for place, one in enumerate(messages) if one["role"] == "user"), default=-1)
    said = chatml(messages[: last + 1], weights).removesuffix(_OPENING) if last >= 0 else ""
    return Prompt(text, text[: text.index(_END) + len(_END)], said)


def _turn(message: dict[str, Any]) -> str:
    return f"<|im_start|>{message['role']}\n{defused(text_of(message), _CONTROL)}{_END}"


def text_of(message: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in parts_of(message) if "text" in part)


class OwnTemplate:
    """The chat template in a GGUF file, applied by llama.cpp."""

    def __init__(self, file: Path) -> None:
        self.control = control_pattern(control_tokens(file))

    def prompt(self, server: LlamaServer, messages: Messages) -> Prompt:
        """The conversation, ready for the assistant's turn. Where the person's last message ends in the text is found
        by its words, since a template may write anything around them."""
        plain = [{"role": one["role"], "content": defused(text_of(one), self.control)} for one in messages]
        text = str(server.request("POST", "/apply-template", {"messages": plain})["prompt"])
        last = next((one["content"] for one in reversed(plain) if one["role"] == "user"), "").strip()
        place = text.rfind(last) if last else -1
        return Prompt(text, said=text[: place + len(last)] if place >= 0 else "")
