"""A judge in this process: a transformers model with an optional LoRA adapter, scored without generating.

    judge = LocalJudge("runs/judge")                    a folder written by `compeer reward train`
    judge = LocalJudge("Qwen/Qwen2.5-VL-7B-Instruct")   any chat model, with the same prompts

Verdicts are read from the logits where the possible answers differ, so a judgement costs one pass over its text. Each
history is encoded once per group and every turn once (`local_scoring`); keep the cases of a group next to each other.
A case that is too long loses its oldest turns. A group that fails, for whatever reason, does not affect the others.

`judge.json` beside the weights says what kind of judge they are and, for an adapter, which base it belongs to.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compeer.errors import UserError
from compeer.models.checkpoint import model_sha256, open_checkpoint
from compeer.models.request import ModelError
from compeer.models.shipped import base_of
from compeer.reward.case import Case, fit_case
from compeer.reward.conversation import messages, threads
from compeer.reward.judge import Judgement, OpenCase, Orders, prompts_sha256, shown_orders
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind
from compeer.typed import from_json

if TYPE_CHECKING:
    from compeer.reward.local_scoring import ChatRendering, LocalScorer


class JudgeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """`judge.json`: the kind of judge, the base of an adapter, the length in tokens it was trained with."""

    kind: Kind = "unified"
    base: str | None = None
    max_length: int | None = None


class LocalJudge:
    """A judge loaded by transformers.

    `batch`: maximum rows per forward pass, by default 16, or 64 on a GPU. `explain`: also generate the reasons.
    """

    def __init__(
        self,
        model: str,
        adapter: str | None = None,
        *,
        name: str | None = None,
        kind: Kind | None = None,
        batch: int | None = None,
        device: str | None = None,
        max_length: int | None = None,
        explain: bool = False,
    ) -> None:
        self.name = name or f"hf:{model}" + (f"+{adapter}" if adapter else "")
        if (Path(model) / "model" / "judge.json").is_file():  # the folder of a training run
            model = str(Path(model) / "model")
        described = read_judge_file(adapter or model)
        self.kind: Kind = kind or described.kind
        if adapter is None and (Path(model) / "adapter_config.json").is_file():
            model, adapter = described.base or _base_of_adapter(Path(model)), model
        self.path, self.adapter = model, adapter
        self.batch, self.device, self.explain = batch or 0, device, explain
        self.max_length = max_length or described.max_length
        self._scorer: LocalScorer | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")

    @property
    def tokens(self) -> int:
        """Tokens encoded so far, without padding."""
        return self._scorer.encoded if self._scorer else 0

    async def identity(self) -> Mapping[str, Any]:
        def hashes() -> dict[str, Any]:
            return {
                "home": "transformers",
                "kind": self.kind,
                "weights": model_sha256(self.path) or f"unknown: {self.path}",
                "adapter": model_sha256(self.adapter) if self.adapter else None,
                "prompts": prompts_sha256(self.kind),
            }

        return await asyncio.to_thread(hashes)

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        abandoned = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._judge, list(cases), orders, abandoned)
        try:
            return await work
        finally:
            abandoned.set()  # finished, or nobody waits for the rest

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._scorer = None

    def load(self) -> LocalScorer:
        """The model, opened on first use."""
        if self._scorer is None:
            from compeer.reward.local_scoring import ChatRendering, LocalScorer

            checkpoint = open_checkpoint(self.path, self.adapter, self.device)
            self.batch = self.batch or (64 if checkpoint.model.device.type == "cuda" else 16)
            if self.max_length is None:
                stated = getattr(checkpoint.model.config.get_text_config(), "max_position_embeddings", None)
                self.max_length = min(int(stated or 1 << 20), int(checkpoint.tokenizer.model_max_length))
            self._scorer = LocalScorer(ChatRendering(checkpoint), self.batch, self.explain)
        return self._scorer

    def _judge(self, cases: list[Case], orders: Orders, abandoned: threading.Event) -> list[Judgement]:
        scorer = self.load()
        opened = [self._open_case(scorer.rendering, case, orders) for case in cases]
        for pack in self._packs(opened):
            if abandoned.is_set():
                break
            self._judge_pack(scorer, pack)
        return [one.judgement() for one in opened]

    def _judge_pack(self, scorer: LocalScorer, pack: list[list[OpenCase]]) -> None:
        """Judge a pack of groups; when that fails, its halves, down to the case that cannot be judged."""
        try:
            scorer.judge(pack)
        except Exception as error:  # memory, an image, a template: it must not affect the other cases
            opened = [one for group in pack for one in group]
            for one in opened:
                one.clear()
            if len(opened) == 1:
                known = isinstance(error, UserError)
                opened[0].failure = str(error) if known else f"{self.name} failed: {type(error).__name__}: {error}"
            elif len(pack) > 1:
                for half in (pack[: len(pack) // 2], pack[len(pack) // 2 :]):
                    self._judge_pack(scorer, half)
            else:
                for part in (opened[: len(opened) // 2], opened[len(opened) // 2 :]):
                    self._judge_pack(scorer, [part])

    def _open_case(self, rendering: ChatRendering, case: Case, orders: Orders) -> OpenCase:
        """The case, short enough for the model, with its conversations."""
        shown = shown_orders(case, orders)[: 1 if self.kind == "prm" else 2]
        failure = None
        try:
            case = self._fit(rendering, case)
        except Exception as error:  # an unreadable image, a limit that leaves no room
            failure = str(error)
        found = [] if failure else [thread for first in shown for thread in threads(case, self.kind, first)]
        return OpenCase(case, found, failure)

    def _fit(self, rendering: ChatRendering, case: Case) -> Case:
        limit = self.max_length
        assert limit is not None, "known since the model was loaded"
        answers = [max(STEP_WORDS[case.language].values(), key=len)] * 3
        answers.append(max(PAIR_WORDS[case.language].values(), key=len))

        def length(shorter: Case) -> int:
            longest = 0
            for thread in threads(shorter, self.kind, candidate_first=True):
                given = answers[-len(thread.turns) :]  # the pair, which has the longest answers, comes last
                (tokens,) = rendering.tokens([messages(thread, given)], waiting=False)
                pictures = rendering.pictures(messages(thread, []))
                longest = max(longest, len(tokens) + (len(pictures.seen) - len(pictures.plain) if pictures else 0))
            return longest

        # a token has at least one byte; most cases are so short that nothing needs to be counted
        text = [*(turn.text for turn in case.history), *(step or "" for step in case.steps), case.reply, case.reference]
        at_most = 4 * sum(len(piece.encode("utf-8", "replace")) for piece in text) + 4096
        has_images = any(turn.images for turn in case.history)
        return case if at_most <= limit and not has_images else fit_case(case, length, limit)

    def _packs(self, opened: Sequence[OpenCase]) -> Iterator[list[list[OpenCase]]]:
        """Groups of similar length together, as many as fill a batch. Groups with images go alone."""
        groups: list[list[OpenCase]] = []
        for _, same in groupby(opened, key=lambda one: (one.case.language, one.case.left_out, one.case.history)):
            if group := [one for one in same if one.threads]:
                groups.append(group)
        groups.sort(key=lambda group: (group[0].case.language, group[0].has_images, len(group) > 1, group[0].size))
        pack: list[list[OpenCase]] = []
        rows = 0
        for group in groups:
            new = sum(len(one.threads) for one in group)
            alone = group[0].has_images or (pack and pack[0][0].case.language != group[0].case.language)
            if pack and (alone or rows + new > self.batch):
                yield pack
                pack, rows = [], 0
            pack.append(group)
            rows += new
        if pack:
            yield pack


def read_judge_file(folder: str) -> JudgeFile:
    """What a folder says about the judge in it; the defaults when it says nothing."""
    file = Path(folder) / "judge.json"
    if not file.is_file():
        return JudgeFile()
    try:
        return from_json(file.read_bytes(), JudgeFile)
    except msgspec.MsgspecError as error:
        raise UserError(f"{file} does not describe a judge: {error}. It is written by compeer reward train.") from None


def _base_of_adapter(folder: Path) -> str:
    base = base_of(folder).name
    if base in ("", "None"):
        raise ModelError(f"{folder} holds an adapter that does not name its model. Write hf:MODEL+{folder}.")
    return base
