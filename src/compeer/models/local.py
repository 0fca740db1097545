"""A transformers model in this process, with an optional LoRA adapter.

Requests that wait at the same time are decoded together, up to `batch` of them; those with images one at a
time. An answer does not depend on its neighbours in a batch, and their failures do not reach it.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.checkpoint import (
    ChatTokenizer,
    Checkpoint,
    identity,
    open_checkpoint,
    picture,
    takes_images,
)
from compeer.models.request import Answer, Ending, ModelError, Request, Usage, image_bytes, images_of, with_images
from compeer.reasoning.grammar import Literal, after_prefix


class Local:
    """A causal language model (or vision-language model) loaded by transformers."""

    def __init__(
        self,
        model: str,
        adapter: str | None = None,
        *,
        name: str | None = None,
        batch: int = 8,
        device: str | None = None,
    ) -> None:
        self.path, self.adapter, self.batch, self.device = model, adapter, batch, device
        if adapter and not Path(adapter).exists() and adapter.count("/") != 1:
            raise ModelError(f"There is no adapter {adapter}. An adapter is a folder written by peft.")
        self.name = name or f"hf:{model}" + (f"+{adapter}" if adapter else "")
        self._sees: bool | None = None
        self._identity: bytes | None = None
        self._loaded: _Loaded | None = None
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._worker: threading.Thread | None = None

    @property
    def sees(self) -> bool:
        """Whether it takes images; its config says so before the weights are loaded."""
        if self._sees is None:
            self._sees = takes_images(self.path)
        return self._sees

    async def ask(self, request: Request) -> Answer:
        job = self._submit(request, None)
        try:
            return await asyncio.wrap_future(job.done)
        finally:
            job.abandoned = True  # done, or nobody waits for it any longer

    async def stream(self, request: Request, ending: Ending | None = None) -> AsyncIterator[str]:
        """The text as it is written; `ending` is told how it ended."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()

        def pass_on(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        job = self._submit(request, pass_on)
        job.done.add_done_callback(lambda _: pass_on(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            answer = await asyncio.wrap_future(job.done)
            if ending is not None:
                ending.finish, ending.usage = answer.finish, answer.usage
        finally:
            job.abandoned = True

    def rendered(self, request: Request) -> bytes:
        if self._identity is None:
            self._identity = identity(self.path) + b"\x00" + (identity(self.adapter) if self.adapter else b"")
        body = msgspec.to_builtins(msgspec.structs.replace(request, plan=None, sample=0))
        body |= {"messages": with_images(request.messages, _by_content), "plan": str(request.plan)}
        return self._identity + b"\x00" + msgspec.json.encode(body, order="sorted")

    async def close(self) -> None:
        if self._worker:
            self._jobs.put(None)
            self._worker = None
        self._loaded = None

    def load(self) -> _Loaded:
        """Model and tokenizer, loaded on first use."""
        if self._loaded is None:
            self._loaded = _Loaded(open_checkpoint(self.path, self.adapter, self.device))
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
            self._decode([job for job in jobs if job.done.set_running_or_notify_cancel() and not job.abandoned])

    def _decode(self, jobs: list[_Job]) -> None:
        """Answer these jobs together; whatever goes wrong belongs to them, not to the worker."""
        try:
            answers = self.load().generate(jobs) if jobs else []
        except Exception as error:
            if len(jobs) > 1 and self._loaded and not any(job.told for job in jobs):
                for job in jobs:  # one request's fault must not fail the others
                    self._decode([job])
                return
            known = isinstance(error, ModelError)
            failure = error if known else ModelError(f"{self.name} failed: {type(error).__name__}: {error}")
            for job in jobs:
                job.done.set_exception(failure)
        else:
            for job, answer in zip(jobs, answers, strict=True):
                job.tell(answer.text)
                job.done.set_result(msgspec.structs.replace(answer, model=self.name))


class _Job:
    """A request in the queue and the future its asker waits for."""

    def __init__(self, request: Request, on_text: Callable[[str], None] | None) -> None:
        self.request, self.on_text = request, on_text
        self.done: Future[Answer] = Future()
        self.abandoned = False
        self.told = 0

    def tell(self, text: str) -> None:
        """Pass on what is new in the answer so far."""
        if self.on_text and not self.abandoned and len(text) > self.told:
            self.on_text(text[self.told :])
            self.told = len(text)


class _Loaded:
    """A model with its tokenizer, ready to decode a batch."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        import llguidance.hf

        model, tokenizer = checkpoint.model, checkpoint.tokenizer
        self.model, self.tokenizer, self.processor = model, tokenizer, checkpoint.processor
        stated = model.generation_config.eos_token_id
        self.ends: list[int] = [stated] if isinstance(stated, int) else list(stated or [])
        if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in self.ends:
            self.ends.append(tokenizer.eos_token_id)  # the token that ends a turn may be either of them
        if not self.ends:
            raise ModelError("This model has no end-of-sequence token, so its answers would never end.")
        self.eos = self.ends[0] if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(self.eos)
        vocabulary = model.get_input_embeddings().num_embeddings
        self.llg_tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=self.eos)
        self.chat = ChatTokenizer(tokenizer, checkpoint.processor)

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
                logits_processor=[Chooser(rows, self.eos)],
                stopping_criteria=[StopAt(rows, self.tokenizer), _Telling(jobs, self, length)],
                pad_token_id=self.tokenizer.pad_token_id,
                eos_token_id=self.ends,
                **_GREEDY,
            )
        return [
            self._answer(row, output[number, length:].tolist(), int(inputs["attention_mask"][number].sum()))
            for number, row in enumerate(rows)
        ]

    def text(self, ids: list[int]) -> str:
        """What was written, up to the end of the turn."""
        end = next((place for place, token in enumerate(ids) if token in self.ends), len(ids))
        text: str = self.tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text

    def _answer(self, row: Any, ids: list[int], prompt_tokens: int) -> Answer:
        ids = ids[: row.stopped_at]
        ended = any(token in self.ends for token in ids)
        text, cut = before_stop(self.text(ids), row.request.stop)
        return Answer(
            text=row.request.beginning + text,
            finish="stop" if ended or cut or len(ids) < row.request.max_tokens else "length",
            usage=Usage(prompt_tokens, sum(token not in self.ends for token in ids) if ended else len(ids)),
            first=tuple((self.tokenizer.decode([token]), value) for token, value in row.first),
        )

    def _inputs(self, requests: list[Request]) -> dict[str, Any]:
        """Token ids (padded on the left) and, for a vision model, pixels."""
        for request in requests:
            self._check_writable(request)
        if images_of(requests[0].messages) and self.processor is None:
            raise ModelError("This model cannot see images. Leave them out, or use a vision model.")
        prompts = [
            self.chat.render(self.chat.chat(request.messages), ask=True) + self.chat.defused(request.beginning)
            for request in requests
        ]
        paths = [path for request in requests for path in images_of(request.messages)]
        if paths:
            assert self.processor is not None
            encoded = self.processor(text=prompts, images=[picture(path) for path in paths], return_tensors="pt")
        else:
            self.tokenizer.padding_side = "left"
            encoded = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
            encoded.pop("token_type_ids", None)
        return {name: value.to(self.model.device) for name, value in encoded.items()}

    def _check_writable(self, request: Request) -> None:
        """A control token in a text that has to be written would be written as the token, and end the turn."""
        for part in after_prefix(request.plan or ()):
            if isinstance(part, Literal) and (found := self.chat.control.search(part.text)):
                raise ModelError(f"A given text holds {found[0]}, a control token of this model. Write it otherwise.")


#: settings of a checkpoint's own generation config that would fight with ours
_GREEDY: dict[str, Any] = {"temperature": None, "top_p": None, "top_k": None, "repetition_penalty": 1.0}


class _Telling:
    """A stopping criterion that never stops by itself: it passes text on while it grows, and ends abandoned work."""

    def __init__(self, jobs: list[_Job], loaded: _Loaded, length: int) -> None:
        self.jobs, self.loaded, self.length = jobs, loaded, length

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        import torch

        for number, job in enumerate(self.jobs):
            if job.on_text and not job.abandoned:
                written = self.loaded.text(input_ids[number, self.length :].tolist())
                text, cut = before_stop(written, job.request.stop)
                certain = len(text) if cut else len(text) - _held(text, job.request.stop)
                if cut or not text.endswith("\ufffd"):  # half a character waits
                    job.tell(job.request.beginning + text[:certain])
        return torch.tensor([job.abandoned for job in self.jobs], device=input_ids.device)


def _by_content(path: str) -> dict[str, Any]:
    """An image in a cache key: what is in it, not where it lies."""
    return {"type": "image", "sha256": hashlib.sha256(image_bytes(path)).hexdigest()}


def before_stop(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text up to the first stop string, and whether there was one."""
    cuts = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(cuts, default=len(text))], bool(cuts)


def _held(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may still become a stop string.

    >>> _held("and so\\nUs", ["\\nUser:"]), _held("and so", ["\\nUser:"])
    (3, 0)
    """
    return max((size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size])), default=0)
