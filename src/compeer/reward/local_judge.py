"""Where a judge lives, and how it reads a case there.

local      a transformers model in this process, scored without generating
asked      any chat model: an endpoint, the embedded one
separate   PRM and ORM as one judge

Under `local`: `docket` (a case on its way), `walk` and `branches` (each token encoded once), `rendering` (the chat
template's tokens), `trie` (where answers part), `fit` (too long). Under `asked`: `weigh`. Both: `identity`.

A judge in this process: a transformers model with an optional LoRA adapter, scored without generating.

    judge = LocalJudge("runs/judge")                    a folder written by `compeer reward train`
    judge = LocalJudge("Qwen/Qwen2.5-VL-7B-Instruct")   any chat model, with the same prompts

Verdicts are read from the logits where the possible answers part, so a judgement costs one pass over its text.
Histories are encoded once a group and every turn once (`walk`); cases of one group belong next to each other. A case
that is too long loses its oldest turns. A group that fails, whatever the reason, fails alone.

`judge.json` beside the weights says what kind of judge they are and, where they are an adapter, of which base.
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
from compeer.models.checkpoint import open_checkpoint
from compeer.models.request import ModelError
from compeer.reward.case import Case, fitted
from compeer.reward.conversation import messages, threads
from compeer.reward.identity import model_sha256, prompts_sha256
from compeer.reward.judge import Judgement, Orders, shown_orders
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Kind
from compeer.typed import from_json

if TYPE_CHECKING:
    from compeer.reward.local_scoring import Docket, Rendering, Walk


class JudgeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """`judge.json`: the kind of judge in a folder, the model under its adapter, the tokens it was trained to read."""

    kind: Kind = "unified"
    base: str | None = None
    max_length: int | None = None


class LocalJudge:
    """A judge loaded by transformers. `batch` is rows at a time, at most, by default 16 and on a GPU 64; `explain` also
    generates the reasons."""

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
        told = read_judge_file(adapter or model)
        self.kind: Kind = kind or told.kind
        if adapter is None and (Path(model) / "adapter_config.json").is_file():
            model, adapter = told.base or _base_of(Path(model)), model
        self.path, self.adapter = model, adapter
        self.batch, self.device, self.explain = batch or 0, device, explain
        self.max_length = max_length or told.max_length
        self._walk: Walk | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")

    @property
    def tokens(self) -> int:
        """Tokens encoded so far, without padding."""
        return self._walk.encoded if self._walk else 0

    async def identity(self) -> Mapping[str, Any]:
        def hashes() -> dict[str, Any]:
            return {
                "home": "transformers",
                "kind": self.kind,
                "weights": model_sha256(self.path),
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
            abandoned.set()  # done, or nobody waits for the rest

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._walk = None

    def load(self) -> Walk:
        """The model, opened on first use."""
        if self._walk is None:
            from compeer.reward.local_scoring import Rendering, Walk
            from compeer.reward.prefix_cache import use_folded, use_ragged

            checkpoint = open_checkpoint(self.path, self.adapter, self.device)
            if not use_ragged(checkpoint.model):
                use_folded(checkpoint.model)
            self.batch = self.batch or (64 if checkpoint.model.device.type == "cuda" else 16)
            if self.max_length is None:
                stated = getattr(checkpoint.model.config.get_text_config(), "max_position_embeddings", None)
                self.max_length = min(int(stated or 1 << 20), int(checkpoint.tokenizer.model_max_length))
            self._walk = Walk(Rendering(checkpoint), self.batch, self.explain)
        return self._walk

    def _judge(self, cases: list[Case], orders: Orders, abandoned: threading.Event) -> list[Judgement]:
        walk = self.load()
        dockets = [self._docket(walk.rendering, case, orders) for case in cases]
        for pack in self._packs(dockets):
            if abandoned.is_set():
                break
            self._attempt(walk, pack)
        return [docket.judgement() for docket in dockets]

    def _attempt(self, walk: Walk, pack: list[list[Docket]]) -> None:
        """Judge a pack; when that fails, its halves, down to the case that cannot be judged."""
        try:
            walk.judge(pack)
        except Exception as error:  # memory, a picture, a template: whatever it is, it must not reach the others
            dockets = [docket for group in pack for docket in group]
            for docket in dockets:
                docket.clear()
            if len(dockets) == 1:
                known = isinstance(error, UserError)
                dockets[0].failure = str(error) if known else f"{self.name} failed: {type(error).__name__}: {error}"
            elif len(pack) > 1:
                for half in (pack[: len(pack) // 2], pack[len(pack) // 2 :]):
                    self._attempt(walk, half)
            else:
                for part in (dockets[: len(dockets) // 2], dockets[len(dockets) // 2 :]):
                    self._attempt(walk, [part])

    def _docket(self, rendering: Rendering, case: Case, orders: Orders) -> Docket:
        """The case, short enough, with its conversations."""
        from compeer.reward.local_scoring import Docket

        shown = shown_orders(case, orders)[: 1 if self.kind == "prm" else 2]
        failure = None
        try:
            case = self._fitted(rendering, case)
        except Exception as error:  # a picture that cannot be read, a limit that leaves no room
            failure = str(error)
        found = [] if failure else [thread for first in shown for thread in threads(case, self.kind, first)]
        docket = Docket(case, found, sum(len(turn.text) for turn in case.history))
        docket.failure = failure
        return docket

    def _fitted(self, rendering: Rendering, case: Case) -> Case:
        limit = self.max_length
        assert limit is not None, "known since the model was loaded"
        answers = [max(STEP_WORDS[case.language].values(), key=len)] * 3
        answers.append(max(PAIR_WORDS[case.language].values(), key=len))

        def length(shorter: Case) -> int:
            longest = 0
            for thread in threads(shorter, self.kind, candidate_first=True):
                said = answers[-len(thread.turns) :]  # the pair, which has the longest answers, comes last
                chat = messages(thread, said)
                (tokens,) = rendering.tokens([chat], waiting=False)
                pictures = rendering.pictures(messages(thread, []))
                longest = max(longest, len(tokens) + (len(pictures.seen) - len(pictures.plain) if pictures else 0))
            return longest

        # a token is at least a byte; most cases are so far from the limit that nothing needs to be counted
        text = [*(turn.text for turn in case.history), *(step or "" for step in case.steps), case.reply, case.reference]
        plenty = 4 * sum(len(piece.encode("utf-8", "replace")) for piece in text) + 4096
        pictured = any(turn.images for turn in case.history)
        return case if plenty <= limit and not pictured else fitted(case, length, limit)

    def _packs(self, dockets: Sequence[Docket]) -> Iterator[list[list[Docket]]]:
        """Groups of like length together, as many as fill a batch. Those with pictures go alone."""
        groups: list[list[Docket]] = []
        for _, same in groupby(dockets, key=lambda docket: _shown(docket.case)):
            if group := [docket for docket in same if docket.threads]:
                groups.append(group)
        groups.sort(key=lambda group: (group[0].case.language, group[0].pictures, len(group) > 1, group[0].size))
        pack: list[list[Docket]] = []
        rows = 0
        for group in groups:
            new = sum(len(docket.threads) for docket in group)
            alone = group[0].pictures or (pack and pack[0][0].case.language != group[0].case.language)
            if pack and (alone or rows + new > self.batch):
                yield pack
                pack, rows = [], 0
            pack.append(group)
            rows += new
        if pack:
            yield pack


def _shown(case: Case) -> tuple[Any, ...]:
    """What the cases of a group have in common."""
    return case.language, case.left_out, case.history


def read_judge_file(folder: str) -> JudgeFile:
    """What a folder says about the judge in it; the defaults when it says nothing."""
    file = Path(folder) / "judge.json"
    if not file.is_file():
        return JudgeFile()
    try:
        return from_json(file.read_bytes(), JudgeFile)
    except msgspec.MsgspecError as error:
        raise UserError(f"{file} does not describe a judge: {error}. It is written by compeer reward train.") from None


def _base_of(folder: Path) -> str:
    """The model under an adapter, as the adapter itself tells."""
    told = msgspec.json.decode((folder / "adapter_config.json").read_bytes())
    base = told.get("base_model_name_or_path")
    if not base:
        raise ModelError(f"{folder} holds an adapter that does not name its model. Write hf:MODEL+{folder}.")
    return str(base)
