"""A transformers model in this process, with an optional LoRA adapter.

Requests that wait at the same time are decoded together, up to `batch` of them; those with images one at a time. An
answer does not depend on its neighbours in a batch (up to rounding), and their failures do not reach it.

For that, tokens are chosen here. transformers draws all rows of a batch from one random stream with one temperature;
here each row has its own. The logits processor masks what the grammar forbids (llguidance), draws by the Gumbel trick
from the row's generator, and leaves only the chosen token, which greedy decoding then takes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.models.checkpoint import ChatTokenizer, Checkpoint, model_sha256, open_checkpoint, picture, takes_images
from compeer.models.request import Answer, Ending, ModelError, Request, Usage, by_content, images_of
from compeer.reasoning.grammar import Literal, after_prefix, regex
from compeer.reasoning.stream import before_stop, certain_length

#: settings of a checkpoint's own generation config that would fight with ours
_GREEDY: dict[str, Any] = {"temperature": None, "top_p": None, "top_k": None, "repetition_penalty": 1.0}


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
            parts = [model_sha256(part) or part for part in (self.path, self.adapter) if part]
            self._identity = "\0".join(parts).encode()
        body = msgspec.to_builtins(msgspec.structs.replace(request, plan=None, sample=0))
        body |= {"messages": by_content(request.messages), "plan": str(request.plan)}
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
        """Answer these jobs together. An error fails these jobs, not the worker."""
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
    """A request in the queue, the future its asker waits for, and how far its answer is."""

    def __init__(self, request: Request, on_text: Callable[[str], None] | None) -> None:
        self.request, self.on_text = request, on_text
        self.done: Future[Answer] = Future()
        self.abandoned = False
        self.told = 0

    def begin(self, llg_tokenizer: Any) -> None:
        """Prepare for the first token; called again if the job is decoded a second time."""
        import torch

        seed = self.request.seed
        self.generator = torch.Generator().manual_seed(seed) if seed is not None else None
        self.first: tuple[tuple[int, float], ...] = ()
        self.matcher = _matcher(self.request, llg_tokenizer)
        self.matched = 0  # tokens already given to the matcher
        self.stopped_at: int | None = None  # its length when a stop string or its own limit ended it

    def tell(self, text: str) -> None:
        """Pass on what is new in the answer so far."""
        if self.on_text and not self.abandoned and len(text) > self.told:
            self.on_text(text[self.told :])
            self.told = len(text)

    def choose(self, written: list[int], logits: Any, end: int) -> int:
        """The next token after those written."""
        import torch

        if self.request.logprobs and not written:
            top = torch.log_softmax(logits, -1).topk(self.request.logprobs)
            self.first = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
        if (penalty := self.request.penalty) != 1.0 and written:
            repeated = torch.tensor(sorted(set(written[-256:])), device=logits.device)
            values = logits[repeated]
            logits = logits.clone()
            logits[repeated] = torch.where(values > 0, values / penalty, values * penalty)
        if self.matcher is not None:
            for token in written[self.matched :]:
                self.matcher.consume_token(token)
            self.matched = len(written)
            if self.matcher.is_stopped():
                return end
            logits = _masked(logits, self.matcher.compute_bitmask())
        if self.request.temperature == 0:
            return int(logits.argmax())
        probabilities = torch.softmax(logits / self.request.temperature, -1)
        if self.request.top_p < 1.0:
            ordered, order = probabilities.sort(descending=True)
            dropped = ordered.cumsum(-1) - ordered > self.request.top_p
            probabilities[order[dropped]] = 0.0
        noise = torch.empty(probabilities.shape).exponential_(generator=self.generator).to(probabilities.device)
        return int((probabilities / noise).argmax())


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

        inputs = self._inputs([job.request for job in jobs])
        length = int(inputs["input_ids"].shape[1])
        for job in jobs:
            job.begin(self.llg_tokenizer)

        def chosen(input_ids: Any, scores: Any) -> Any:
            """A logits processor (transformers' protocol) that leaves one token a row."""
            left = torch.full_like(scores, float("-inf"))
            for row, job in enumerate(jobs):
                left[row, job.choose(input_ids[row, length:].tolist(), scores[row].float(), self.eos)] = 0.0
            return left

        def ended(input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            """A stopping criterion (transformers' protocol), which also passes on the text while it grows."""
            ends = [self._ended(job, input_ids[row, length:].tolist()) for row, job in enumerate(jobs)]
            return torch.tensor(ends, device=input_ids.device)

        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                max_new_tokens=max(job.request.max_tokens for job in jobs),
                do_sample=False,
                logits_processor=[chosen],
                stopping_criteria=[ended],
                pad_token_id=self.tokenizer.pad_token_id,
                eos_token_id=self.ends,
                **_GREEDY,
            )
        return [
            self._answer(job, output[row, length:].tolist(), int(inputs["attention_mask"][row].sum()))
            for row, job in enumerate(jobs)
        ]

    def _ended(self, job: _Job, written: list[int]) -> bool:
        """Whether a stop string, the request's own limit or nobody waiting ends this answer."""
        stops = job.request.stop
        if job.on_text and not job.abandoned:
            text, cut = before_stop(self._text(written), stops)
            certain = len(text) if cut else certain_length(text, stops)
            if cut or not text.endswith("\ufffd"):  # half a character waits
                job.tell(job.request.beginning + text[:certain])
        if job.stopped_at is None:
            tail = self.tokenizer.decode(written[-32:], skip_special_tokens=True) if stops else ""
            if len(written) >= job.request.max_tokens or any(stop in tail for stop in stops):
                job.stopped_at = len(written)
        return job.abandoned or job.stopped_at is not None

    def _text(self, ids: list[int]) -> str:
        """What was written, up to the end of the turn."""
        end = next((place for place, token in enumerate(ids) if token in self.ends), len(ids))
        text: str = self.tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text

    def _answer(self, job: _Job, ids: list[int], prompt_tokens: int) -> Answer:
        ids = ids[: job.stopped_at]
        ended = any(token in self.ends for token in ids)
        text, cut = before_stop(self._text(ids), job.request.stop)
        return Answer(
            text=job.request.beginning + text,
            finish="stop" if ended or cut or len(ids) < job.request.max_tokens else "length",
            usage=Usage(prompt_tokens, sum(token not in self.ends for token in ids) if ended else len(ids)),
            first=tuple((self.tokenizer.decode([token]), value) for token, value in job.first),
        )

    def _inputs(self, requests: list[Request]) -> dict[str, Any]:
        """Token ids (padded on the left) and, for a vision model, pixels."""
        for request in requests:
            self._check_writable(request)
        paths = [path for request in requests for path in images_of(request.messages)]
        if paths and self.processor is None:
            raise ModelError("This model cannot see images. Leave them out, or use a vision model.")
        prompts = [
            self.chat.render(self.chat.chat(request.messages), ask=True) + self.chat.defused(request.beginning)
            for request in requests
        ]
        if paths:
            assert self.processor is not None
            encoded = self.processor(text=prompts, images=[picture(path) for path in paths], return_tensors="pt")
        else:
            self.tokenizer.padding_side = "left"
            encoded = self.tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
            encoded.pop("token_type_ids", None)
        return {name: value.to(self.model.device) for name, value in encoded.items()}

    def _check_writable(self, request: Request) -> None:
        """Refuse a control token in a text that the grammar forces: the model would end its turn with it."""
        for part in after_prefix(request.plan or ()):
            if isinstance(part, Literal) and (found := self.chat.control.search(part.text)):
                raise ModelError(f"A given text holds {found[0]}, a control token of this model. Write it otherwise.")


def _matcher(request: Request, llg_tokenizer: Any) -> Any:
    import llguidance

    if request.plan is not None:
        grammar = llguidance.LLMatcher.grammar_from_regex(regex(after_prefix(request.plan)))
    elif request.schema is not None:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(request.schema)
    else:
        return None
    matcher = llguidance.LLMatcher(llg_tokenizer, grammar)
    if matcher.is_error():
        raise ModelError(f"The grammar cannot be used with this model's tokenizer: {matcher.get_error()}")
    return matcher


def _masked(logits: Any, bitmask: bytes) -> Any:
    """Logits with every token the grammar forbids at minus infinity. The mask is one bit a token, low bit first."""
    import torch

    # a model's vocabulary may be padded beyond the tokenizer's; `count` fills up with zeros
    bits = np.unpackbits(np.frombuffer(bitmask, dtype=np.uint8), count=logits.shape[-1], bitorder="little")
    return logits.masked_fill(torch.from_numpy(bits == 0).to(logits.device), float("-inf"))
