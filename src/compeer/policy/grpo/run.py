"""GRPO (equations 2 and 3) on CER histories, with the composite reward of equations 5 to 7.

    compeer policy grpo configs/policy/laptop.yaml
    accelerate launch --config_file configs/accelerate/fsdp2.yaml -m compeer.cli policy grpo CONFIG

The layout of a batch is checked before anything is loaded. Before anything is trained the judge is asked for real
(`compeer.reward.client`), and its identity goes into the run's record, so that a run is never resumed with another one.
This file puts the parts together: settings (`config`), the start and what TRL is told (`arguments`), prompts
(`policy.prompts`), the trainer (`trainer`), and what is watched (`watch`, `alerts`).
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer
from compeer.models.embedding import Embedder
from compeer.models.request import images_of
from compeer.models.weights import locate, of_base
from compeer.policy.composite import CompositeReward
from compeer.policy.grpo.alerts import Alerts, HeldOut
from compeer.policy.grpo.arguments import PolicyStart, find_start, grpo_arguments, plan, rollout_of
from compeer.policy.grpo.config import FREE, GrpoConfig
from compeer.policy.grpo.watch import FIGURE, WatchedReward
from compeer.policy.multi_turn import TalkReward, TalkRollout
from compeer.policy.prompts import Prompt, dataset, fitting, held_out
from compeer.policy.sft import items_of
from compeer.policy.trl_internals import fold_pictures, keep_base, time_steps, vllm_engine, whole_ratio
from compeer.training.model import on_gpu, open_with
from compeer.training.run import Record, Run, data_file, is_main, open_run, processes

LIMITS = (
    "It is not a therapist and does not replace help in a crisis.",
    "A judge's reward is not a person's relief: the scores say what the judge prefers.",
)


def train(
    config: GrpoConfig,
    *,
    given: str | None = None,
    force: bool = False,
    fresh: bool = False,
    quiet: bool = False,
    rollout_func: Any | None = None,
) -> dict[str, Any]:
    """Train, or resume, or return the results of a finished run. Every process calls it.

    `rollout_func` replaces how outputs are written.
    """
    session = GrpoSession(config, quiet=quiet)
    try:
        run = session.open(given=given, force=force, fresh=fresh)
        try:
            if not run.finished:
                run.finish(session.train(run, rollout_func))
                session.card(run)
            return {"run": str(run.folder), "opens_as": session.opens_as(run), **run.record.results}
        finally:
            run.close()
    finally:
        session.close()


class GrpoSession:
    """One session of a GRPO run: what is known before the model is loaded, then the training."""

    def __init__(self, config: GrpoConfig, *, quiet: bool = False) -> None:
        self.config, self.quiet = config, quiet
        self.layout = plan(config.batch, config.group, processes(), config.micro_batch, config.accumulation)
        self.start: PolicyStart = find_start(config)
        self.judge = config.judge.client() if config.judge and config.reward.source != "rules" else None
        self.second = config.second_judge.client() if config.second_judge else None
        device = "cuda" if on_gpu(config.settings(self.start.base, self.start.lora)) else "cpu"
        embedder = Embedder(config.embedder, device=device)
        self.reward = CompositeReward(self.judge, embedder, config.reward, group=config.group)
        self.seeker = config.conversation.open_seeker() if config.conversation else None
        self._talks: Any | None = None  # what must be closed: conversations, llama.cpp
        self._writer: Any | None = None
        self._items: dict[str, set[str]] = {"languages": set(), "licences": set()}

    def open(self, *, given: str | None = None, force: bool = False, fresh: bool = False) -> Run:
        """The run's folder, after both judges have answered a trial."""
        config = self.config
        files = {"train": config.data, "held out": config.second_judge.data if config.second_judge else ()}
        record = Record(
            kind="policy",
            config=msgspec.to_builtins(config),
            data={role: [data_file(path) for path in paths] for role, paths in files.items() if paths and is_main()},
            base=self.start.identity() if is_main() else {},
            judge=self._checked() if is_main() else None,
            seed=config.seed,
        )
        return open_run(config.out, record, given=given, free=FREE, force=force, fresh=fresh)

    def train(self, run: Run, rollout_func: Any | None = None) -> dict[str, Any]:
        """Train from the last checkpoint to the saved model."""
        from compeer.training.model import save_model

        trainer, opened, counts = self.trainer(run, rollout_func)
        trainer.train(resume_from_checkpoint=run.resume_from)
        save_model(trainer, opened, run.model)
        return {"steps": trainer.state.global_step, "prompts": counts, **_results(run)}

    def trainer(self, run: Run, rollout_func: Any | None = None) -> tuple[Any, Any, dict[str, int]]:
        """The trainer, the model it trains, and counts of used and left-out items."""
        from accelerate.utils import gather_object  # type: ignore[import-untyped]
        from transformers.utils.logging import disable_progress_bar

        from compeer.models.checkpoint import open_tokenizer
        from compeer.policy.grpo.trainer import AlertCallback, StepOrder, VectorMemory, trainer_class
        from compeer.training.watch import watch

        config, layout = self.config, self.layout
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        disable_progress_bar()  # of every checkpoint that is written
        talked = None  # the reward of whole conversations
        if self.seeker is not None and config.conversation is not None:
            rollout_func = self._talks = TalkRollout(self.seeker, config.conversation.talks)
            talked = TalkReward(self.reward, config.conversation.weights, self.seeker.settings.rules)
        words = ChatTokenizer(*open_tokenizer(self.start.base))
        learnt, apart, counts = self._prompts(words)
        self._load_reward()
        way = rollout_of(config, self.start)
        arguments = grpo_arguments(config, layout, self.start, run, way, held_out=len(apart), sees=words.sees)
        opened = open_with(self.start.adapter, config.settings(self.start.base, self.start.lora), config.seed)
        opened.tokenizer.padding_side = "left"
        if opened.processor is not None:  # it has a tokenizer of its own, and says where pictures are by its padding
            opened.processor.tokenizer.padding_side = "left"
        watched = WatchedReward(
            self.reward,
            run,
            reward=talked,
            samples=config.samples,
            gather=gather_object if processes() > 1 else lambda rows: rows,
        )
        with vllm_engine(config.vllm.engine if way == "vllm-colocate" else {}):
            trainer = trainer_class()(
                model=opened.model,
                reward_funcs=watched,
                args=arguments,
                train_dataset=dataset(learnt, words),
                eval_dataset=dataset(apart, words) if apart else None,
                processing_class=opened.processing,
                rollout_func=rollout_func or self._rollout(way),
            )
        if way == "vllm-colocate":
            fold_pictures(trainer)
        if way.startswith("vllm") and self.start.lora is not None:
            keep_base(opened.model)
        if config.level == "output":
            if way == "llamacpp":
                raise UserError("level: output does not go with rollout: llamacpp. Choose rollout: transformers.")
            whole_ratio(trainer)
        time_steps(trainer)
        self.reward.ends = frozenset(trainer.eos_token_ids)
        trainer.order = StepOrder(
            [bool(images_of(one.messages)) for one in learnt],
            layout.batch,
            layout.group,
            layout.accumulation * config.iterations,
            config.seed,
            lambda: trainer.state.global_step // (trainer.order.steps * config.iterations),
        )
        trainer.add_callback(VectorMemory(self.reward.embedder, run))
        watch(trainer, run, config.name, keep=config.keep, quiet=self.quiet, panels=FIGURE)
        watching = AlertCallback(run, Alerts(), evaluates=bool(apart), quiet=self.quiet)
        trainer.add_callback(watching)
        if self.second is not None:
            trainer.held_out = HeldOut(self.judge, self.second, config.reward)
            trainer.held_out.recall(run.metrics())
            seen = [bool(images_of(one.messages)) for one in apart]
            trainer.held_order = StepOrder(seen, arguments.per_device_eval_batch_size * processes())
            trainer.on_compared = functools.partial(watching.compared, trainer)
        return trainer, opened, counts

    def card(self, run: Run) -> None:
        """The model card."""
        from compeer.training.card import CardText, write_card

        about = CardText(
            title=self.config.name,
            what="A peer supporter that thinks in three steps, then answers; trained with GRPO on a judge's reward.",
            use=f"    compeer chat --model {self.opens_as(run)}",
            base=self.start.base,
            languages=sorted(self._items["languages"]),
            licences=sorted(self._items["licences"]),
            limits=[*(f"During training, at step {one['step']}: {one['alert']}" for one in run.alerts()), *LIMITS],
            tags=["emotional support", "grpo"],
        )
        write_card(run, about)

    def opens_as(self, run: Run) -> str:
        """The name by which other commands open the result."""
        return f"hf:{self.start.base}+{run.model}" if self.start.lora else f"hf:{run.model}"

    def close(self) -> None:
        for client in (self.judge, self.second, self._talks, self._writer):
            if client is not None:
                client.close()

    def _checked(self) -> dict[str, Any] | None:
        """The training judge's identity, after both judges have judged two easy cases."""
        identity: dict[str, Any] | None = None
        for client in (self.judge, self.second):
            if client is None:
                continue
            tried = client.check()
            for warning in () if self.quiet else tried.warnings:
                print(f"{tried.name}: {warning}", file=sys.stderr)
            if client is self.judge:
                self._fits(tried.name, tried.identity.get("home") == "separate")
                identity = {**tried.identity, "orders": client.orders}
        if self.seeker is not None:
            identity = {**(identity or {}), "seeker": self.seeker.identity}
        return identity

    def _load_reward(self) -> None:
        """Load the embedder and the judges of this process. Call it before TRL's configuration is made.

        Once that is there, ZeRO-3 shards every model that is loaded, also those that are only asked, and an embedder
        without its weights fails at the first reward. The main process has asked its judges before (`_checked`).
        """
        self.reward.embedder.open(sorted(self._items["languages"]))  # type: ignore[arg-type]
        for client in () if is_main() else (self.judge, self.second):
            if client is not None:
                client.warm()

    def _fits(self, name: str, separate: bool) -> None:
        """The judge must fit the reward's source: one judge for all parts, or a PRM and an ORM."""
        if separate != (self.config.reward.source == "prm+orm"):
            is_it, needed = ("a PRM and an ORM", "one judge") if separate else ("one judge", "two, as PRM,ORM")
            raise UserError(
                f"The reward's source is {self.config.reward.source}, and {name} is {is_it}; give {needed}."
            )

    def _prompts(self, words: ChatTokenizer) -> tuple[list[Prompt], list[Prompt], dict[str, int]]:
        config, second = self.config, self.config.second_judge
        items = list(items_of(config.data))
        for item in items:
            self._items["languages"].add(item.language)
            self._items["licences"].add(item.licence)
        found, counts = fitting(items, words, config)
        apart: list[Prompt] = []
        if second and second.data:
            apart = fitting(items_of(second.data), words, config)[0][: second.prompts]
        elif second:
            found, apart = held_out(found, second.prompts, config.seed)
        if len(found) < config.batch:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise UserError(f"A step needs {config.batch} prompts, and there are {len(found)} ({told}). Lower batch.")
        return found, apart, counts | {"prompts": len(found), "held out": len(apart)}

    def _rollout(self, way: str) -> Any | None:
        if way == "llamacpp":
            from compeer.policy.llamacpp_rollouts import LlamaCppRollout

            known = of_base(self.start.base)
            self._writer = LlamaCppRollout(locate(known) if known else None)
        return self._writer


def _results(run: Run) -> dict[str, float]:
    """Means over the first and the last steps."""
    logged = [line for line in run.metrics() if "reward" in line]
    most = max(1, min(10, len(logged) // 2))
    found = {}
    for name in ("reward", "reward/total", "diversity/distinct_2", "diversity/self_similarity", "judge/unanswered"):
        values = [line[name] for line in logged if isinstance(line.get(name), int | float)]
        if values:
            found[f"{name} at first"] = sum(values[:most]) / most
            found[f"{name} at last"] = sum(values[-most:]) / most
    return found
