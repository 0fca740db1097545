"""A transformers model in this process, with an optional LoRA adapter.

Requests that wait at the same time are decoded together, up to `batch` of them. Vision models are told
by their config and read with their processor, one request at a time. `hf:embedded` loads the embedded
model's file into transformers, which is what training starts from.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.request import Answer, ModelError, Request, Usage, images_of
from compeer.models.weights import locate
from compeer.reasoning.grammar import prefix


class Local:
    """A causal language model (or vision-language model) loaded by transformers."""

    def __init__(self, model: str, adapter: str | None = None, *, batch: int = 8, device: str | None = None) -> None:
        self.path, self.adapter, self.batch, self.device = model, adapter, batch, device
        if adapter and not Path(adapter).exists() and adapter.count("/") != 1:
            raise ModelError(f"There is no adapter {adapter}. An adapter is a folder written by peft.")
        self.name = f"hf:{model}" + (f"+{adapter}" if adapter else "")
        self.sees = False
        self._loaded: _Loaded | None = None
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._worker: threading.Thread | None = None

    async def ask(self, request: Request) -> Answer:
        job = self._submit(request, None)
        return await asyncio.wrap_future(job.done)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        job = self._submit(request, lambda text: loop.call_soon_threadsafe(pieces.put_nowait, text))
        job.done.add_done_callback(lambda _: loop.call_soon_threadsafe(pieces.put_nowait, None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await asyncio.wrap_future(job.done)
        finally:
            job.abandoned = True

    def rendered(self, request: Request) -> bytes:
        body = msgspec.to_builtins(msgspec.structs.replace(request, plan=None, sample=0))
        body["beginning"] = str(request.plan)
        return self.name.encode() + b"\x00" + msgspec.json.encode(body, order="sorted")

    async def close(self) -> None:
        if self._worker:
            self._jobs.put(None)
            self._worker = None
        self._loaded = None

    def load(self) -> _Loaded:
        """Model and tokenizer, loaded on first use."""
        if self._loaded is None:
            self._loaded = _load(self.path, self.adapter, self.device)
            self.sees = self._loaded.processor is not None
        return self._loaded

    def _submit(self, request: Request, on_text: Callable[[str], None] | None) -> _Job:
        job = _Job(request, on_text)
        self._jobs.put(job)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, daemon=True, name="local-model")
            self._worker.start()
        return job

    def _work(self) -> None:
        """Take what waits, up to a batch, and decode it together."""
        held: _Job | None = None
        while True:
            first = held or self._jobs.get()
            held = None
            if first is None:
                return
            jobs = [first]
            while len(jobs) < self.batch and not images_of(first.request.messages):
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._jobs.put(None)
                    break
                if images_of(following.request.messages):
                    held = following
                    break
                jobs.append(following)
            jobs = [job for job in jobs if not job.abandoned]
            try:
                answers = self.load().generate(jobs) if jobs else []
            except ModelError as error:
                _fail(jobs, error)
            except Exception as error:  # whatever went wrong belongs to these requests, not to the worker
                _fail(jobs, ModelError(f"{self.name} failed: {type(error).__name__}: {error}"))
            else:
                for job, answer in zip(jobs, answers, strict=True):
                    job.done.set_result(msgspec.structs.replace(answer, model=self.name))


class _Job:
    """A request in the queue and the future its asker waits for."""

    def __init__(self, request: Request, on_text: Callable[[str], None] | None) -> None:
        from concurrent.futures import Future

        self.request, self.on_text = request, on_text
        self.done: Future[Answer] = Future()
        self.abandoned = False


class _Loaded:
    """A model with its tokenizer, ready to decode a batch."""

    def __init__(self, model: Any, tokenizer: Any, processor: Any | None) -> None:
        import llguidance.hf

        self.model, self.tokenizer, self.processor = model, tokenizer, processor
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        vocabulary = model.get_input_embeddings().num_embeddings
        self.llg_tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=self.eos)

    @property
    def eos(self) -> int:
        return int(self.tokenizer.eos_token_id)

    def generate(self, jobs: list[_Job]) -> list[Answer]:
        import torch

        from compeer.models.sampling import Chooser, Row, StopAt

        requests = [job.request for job in jobs]
        inputs = self._inputs(requests)
        length = int(inputs["input_ids"].shape[1])
        rows = [Row(request, self.llg_tokenizer, length) for request in requests]
        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                max_new_tokens=max(request.max_tokens for request in requests),
                do_sample=False,
                logits_processor=[Chooser(rows, self.llg_tokenizer, self.eos)],
                stopping_criteria=[StopAt(rows, self.tokenizer), _Telling(jobs, self.tokenizer, length)],
                pad_token_id=self.tokenizer.pad_token_id,
                eos_token_id=self.eos,
                **_GREEDY,
            )
        return [
            self._answer(row, output[number, length:].tolist(), int(inputs["attention_mask"][number].sum()))
            for number, row in enumerate(rows)
        ]

    def _answer(self, row: Any, ids: list[int], prompt_tokens: int) -> Answer:
        ended = self.eos in ids
        if ended:
            ids = ids[: ids.index(self.eos)]
        ids = ids[: row.request.max_tokens]
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        cuts = [text.index(stop) for stop in row.request.stop if stop in text]
        first = tuple((self.tokenizer.decode([token]), value) for token, value in row.first)
        return Answer(
            text=_beginning(row.request) + text[: min(cuts, default=len(text))],
            finish="stop" if ended or cuts or len(ids) < row.request.max_tokens else "length",
            usage=Usage(prompt_tokens, len(ids)),
            first=first,
        )

    def _inputs(self, requests: list[Request]) -> dict[str, Any]:
        """Token ids (padded on the left) and, for a vision model, pixels."""
        device = self.model.device
        chats = [_for_template(request, vision=self.processor is not None) for request in requests]
        if images_of(requests[0].messages) and self.processor is None:
            raise ModelError("This model cannot see images. Leave them out, or use a vision model.")
        templater = self.processor or self.tokenizer
        prompts = [
            templater.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) + _beginning(request)
            for chat, request in zip(chats, requests, strict=True)
        ]
        paths = [path for request in requests for path in images_of(request.messages)]
        if paths:
            from PIL import Image

            assert self.processor is not None
            pictures = [Image.open(path).convert("RGB") for path in paths]
            encoded = self.processor(text=prompts, images=pictures, return_tensors="pt")
        else:
            self.tokenizer.padding_side = "left"
            encoded = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
            encoded.pop("token_type_ids", None)
        return {name: value.to(device) for name, value in encoded.items()}


#: settings of a checkpoint's own generation config that would fight with ours
_GREEDY: dict[str, Any] = {"temperature": None, "top_p": None, "top_k": None, "repetition_penalty": 1.0}


class _Telling:
    """A stopping criterion that never stops by itself: it passes text on while it grows, and ends abandoned work."""

    def __init__(self, jobs: list[_Job], tokenizer: Any, length: int) -> None:
        self.jobs, self.tokenizer, self.length = jobs, tokenizer, length
        self.told = [0] * len(jobs)
        for job in jobs:
            if job.on_text and (beginning := _beginning(job.request)):
                job.on_text(beginning)

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        import torch

        for number, job in enumerate(self.jobs):
            if job.on_text and not job.abandoned:
                ids = input_ids[number, self.length :].tolist()
                if self.tokenizer.eos_token_id in ids:
                    ids = ids[: ids.index(self.tokenizer.eos_token_id)]
                text = self.tokenizer.decode(ids, skip_special_tokens=True)
                if not text.endswith("\ufffd") and len(text) > self.told[number]:  # half a character waits
                    job.on_text(text[self.told[number] :])
                    self.told[number] = len(text)
        return torch.tensor([job.abandoned for job in self.jobs], device=input_ids.device)


def _load(path: str, adapter: str | None, device: str | None) -> _Loaded:
    try:
        import torch
        import transformers
    except ImportError:
        raise ModelError('A local transformers model needs torch and transformers: pip install "compeer[train]".') from None
    options: dict[str, Any] = {"dtype": "auto"}
    source = path
    if path == "embedded":
        weights = locate()
        source, options = str(weights.parent), {"gguf_file": weights.name, "dtype": torch.float32}
    try:
        config = transformers.AutoConfig.from_pretrained(source, gguf_file=options.get("gguf_file"))
        vision = getattr(config, "vision_config", None) is not None
        kind = transformers.AutoModelForImageTextToText if vision else transformers.AutoModelForCausalLM
        model = kind.from_pretrained(source, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, gguf_file=options.get("gguf_file"))
        processor = transformers.AutoProcessor.from_pretrained(source) if vision else None
        if adapter:
            import peft

            model = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ModelError(
            f"The model {path} cannot be loaded: {first_line} "
            "Give a folder with config.json, weights and tokenizer, or a hub name where there is a network."
        ) from error
    if tokenizer.chat_template is None and processor is None:
        raise ModelError(f"The model {path} has no chat template, so it cannot hold a conversation.")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return _Loaded(model.eval().to(place), tokenizer, processor)


def _for_template(request: Request, *, vision: bool) -> list[dict[str, Any]]:
    """Messages as chat templates expect them: parts for vision models, plain text for the others."""
    if not vision:
        return list(request.messages)
    chat = []
    for message in request.messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        chat.append({"role": message["role"], "content": [_template_part(part) for part in parts]})
    return chat


def _template_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image"} if part["type"] == "image" else part


def _beginning(request: Request) -> str:
    return prefix(request.plan) if request.plan else ""


def _fail(jobs: list[_Job], error: ModelError) -> None:
    for job in jobs:
        job.done.set_exception(error)
